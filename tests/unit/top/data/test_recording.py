"""Recordings: written as they come, played as they were, and read to where they are damaged."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airlane.errors import ArgumentError, ConflictError, StoreError
from airlane.top.recording import Recorded, Recorder, Replay
from airlane.top.recording_codec import decode, encode, facts
from airlane.top.values import (
    Actor,
    ActorClass,
    Actors,
    AirRun,
    Bundle,
    Demand,
    Gpu,
    GpuProcess,
    Group,
    Job,
    Load,
    Measures,
    Node,
    NodeDetail,
    Panel,
    Process,
    Snapshot,
    TrainRun,
    Use,
)

MADE_UP = Snapshot(
    1000.0,
    "made-up",
    "2.60.0",
    nodes=Panel(
        (
            Node(
                "n0",
                "node-0",
                state="ALIVE",
                head=True,
                resources={"CPU": 4.0},
                labels={"zone": "größer"},
                measures=Measures(999.5, 12.5, 4, gpus=(Gpu(0, "H100", processes=(GpuProcess(7, 1 << 30),)),)),
            ),
            Node("n1", state="DEAD", why="no heartbeats", stale=True),
        ),
        1000.0,
        cut=3,
    ),
    load=Panel(Load((Use("CPU", 1.5, 4.0),), (Demand(2, {"GPU": 8.0}, group=True),)), 1000.0),
    jobs=Panel((Job("raysubmit_1", "01000000", "RUNNING", "python träin.py 🚀", metadata={"team": "nlp"}),), 1000.0),
    actors=Panel(Actors((ActorClass("W", {"DEAD": 12}),), (Actor("a", "W", node_id="n0"),)), 1000.0),
    groups=Panel((Group("g", bundles=(Bundle(0, {"CPU": 1.0}, "n0"),)),), None, "does not answer"),
    train=Panel((TrainRun("t", workers=2),), 1000.0),
    runs=Panel((AirRun("7k2m", here=True),), 1000.0),
)


class MadeUpSource:
    """Rounds two seconds apart."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self._snapshots = list(snapshots)
        self.closed = False

    async def snapshot(self) -> Snapshot:
        return self._snapshots.pop(0)

    async def node(self, node_id: str) -> Panel[NodeDetail]:
        return Panel(NodeDetail(node_id, (Process(1, "ray::W --token abc"),)), 1000.0)

    async def follow_job_log(self, job_id: str, take: Callable[[str], None]) -> str | None:
        take(job_id)
        return None

    async def stop_job(self, job_id: str) -> str:
        return f"{job_id} was asked to stop"

    def close(self) -> None:
        self.closed = True


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def rounds(count: int) -> list[Snapshot]:
    return [replace(MADE_UP, at=1000.0 + 2 * number) for number in range(count)]


@pytest.fixture(params=["top.jsonl", "tøp 1.jsonl.zst"])
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Five rounds and the detail of a node."""
    file = tmp_path / str(request.param)

    async def record() -> None:
        source = Recorded(MadeUpSource(*rounds(5)), Recorder(file))
        for _ in range(5):
            await source.snapshot()
        await source.node("n0")
        source.close()

    asyncio.run(record())
    return file


def shown(replay: Replay) -> Snapshot:
    return asyncio.run(replay.snapshot())


def test_a_snapshot_is_the_same_after_it_was_written_and_read() -> None:
    assert decode(encode(MADE_UP)) == MADE_UP


def test_facts_are_plain_json() -> None:
    nodes = facts(MADE_UP)["nodes"]
    assert (nodes["data"][0]["measures"]["cpu"], nodes["cut"]) == (12.5, 3)


def test_what_a_later_version_writes_is_left_out_and_what_an_earlier_one_did_not_is_unknown() -> None:
    read = decode(b'{"at": 5, "cluster": "c", "new": [1], "nodes": {"data": [{"id": "n", "colour": 3}, {"state": 4}]}}')
    assert read == Snapshot(5.0, "c", nodes=Panel((Node("n"), Node("", state="4"))))


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b'{"at": 1}', b'{"at": null, "cluster": ""}', b'{"at": 1, "clu'])
def test_what_is_no_snapshot_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(line)


def test_what_looks_like_a_secret_is_masked_before_it_is_written() -> None:
    job = Job(
        "j", entrypoint="HF_TOKEN=abcd python t.py --api-key wxyz --tokenizer gpt2", metadata={"db_password": "x"}
    )
    (written,) = decode(encode(Snapshot(1.0, "c", jobs=Panel((job,))))).jobs.data
    assert written.entrypoint == "HF_TOKEN=*** python t.py --api-key *** --tokenizer gpt2"
    assert written.metadata == {"db_password": "***"}


def test_a_recording_is_its_owners_alone(recording: Path) -> None:
    assert stat.S_IMODE(recording.stat().st_mode) == 0o600


def test_a_replay_shows_each_round_at_its_time(recording: Path) -> None:
    hands = Hands()
    replay = Replay(recording, now=hands)
    assert shown(replay) == MADE_UP
    hands.now += 2.0
    assert (shown(replay).at, replay.clock()) == (1002.0, 1002.0)
    hands.now += 1.0
    assert (shown(replay).at, replay.clock()) == (1002.0, 1003.0)
    hands.now += 3.0
    assert shown(replay).at == 1006.0


def test_a_replay_stands_still_at_its_end(recording: Path) -> None:
    hands = Hands()
    replay = Replay(recording, now=hands)
    hands.now += 1000.0
    assert (shown(replay).at, replay.clock()) == (1008.0, 1008.0)


def test_a_replay_begins_anew_with_loop(recording: Path) -> None:
    hands = Hands()
    replay = Replay(recording, loop=True, now=hands)
    hands.now += 9.0
    assert shown(replay).at == 1008.0
    hands.now += 2.0
    assert (shown(replay).at, replay.clock()) == (1000.0, 1000.0)
    hands.now += 2.0
    assert shown(replay).at == 1002.0


def test_a_replay_may_be_faster(recording: Path) -> None:
    hands = Hands()
    replay = Replay(recording, speed=2.0, now=hands)
    hands.now += 2.0
    assert shown(replay).at == 1004.0
    replay.speed = 0.5
    hands.now += 4.0
    assert shown(replay).at == 1006.0


def test_a_replay_has_the_detail_of_a_node_that_was_looked_at(recording: Path) -> None:
    hands = Hands()
    replay = Replay(recording, now=hands)
    hands.now += 1000.0
    shown(replay)
    assert asyncio.run(replay.node("n0")).data.processes == (Process(1, "ray::W --token ***"),)


def test_a_replay_has_of_other_nodes_the_actors(recording: Path) -> None:
    panel = asyncio.run(Replay(recording).node("n0"))
    assert (panel.data.actors, panel.trouble) == (
        (Actor("a", "W", node_id="n0"),),
        "the recording has no processes of this node",
    )


def test_a_replay_stops_no_job_and_has_no_logs(recording: Path) -> None:
    replay = Replay(recording)
    with pytest.raises(ConflictError, match="this is a recording"):
        asyncio.run(replay.stop_job("j"))
    assert asyncio.run(replay.follow_job_log("j", print)) == "a recording has no logs"


def test_a_recording_that_was_cut_anywhere_plays_what_is_whole(recording: Path, tmp_path: Path) -> None:
    content, cut = recording.read_bytes(), tmp_path / "cut"
    for size in range(0, len(content) - 1, 397):
        cut.write_bytes(content[:size])
        hands = Hands()
        try:
            replay = Replay(cut, now=hands)
        except ArgumentError:
            continue
        hands.now += 1000.0
        assert replace(shown(replay), at=1000.0, trouble=None) == MADE_UP


def test_a_damaged_recording_says_where(tmp_path: Path) -> None:
    file = tmp_path / "damaged"
    file.write_bytes(b"\n".join((encode(MADE_UP), b'{"at": 1, "clus\xff', encode(replace(MADE_UP, at=1002.0)), b'{"a')))
    hands = Hands()
    replay = Replay(file, now=hands)
    assert shown(replay).trouble == "damaged: the recording is damaged in line 2"
    hands.now += 2.0
    assert (shown(replay).at, shown(replay).trouble) == (1002.0, "damaged: the recording ends in the middle of line 4")


def test_a_file_that_is_none_is_refused_with_what_makes_one(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("hello\n")
    with pytest.raises(ArgumentError, match="holds no round of a recording") as caught:
        Replay(other)
    assert caught.value.hint == "air top --record FILE makes one"
    with pytest.raises(ArgumentError, match="no such file"):
        Replay(tmp_path / "none")


class FullDisk(Recorder):
    """Takes its first line, and no other."""

    def write(self, snapshot: Snapshot) -> None:
        raise StoreError(f"cannot write {snapshot.cluster}: no space left on device")


def test_a_full_disk_ends_the_recording_and_not_the_monitor(tmp_path: Path) -> None:
    async def look() -> list[str | None]:
        source = Recorded(MadeUpSource(*rounds(2)), FullDisk(tmp_path / "top"))
        troubles = [(await source.snapshot()).trouble, (await source.snapshot()).trouble]
        source.close()
        return troubles

    assert asyncio.run(look()) == ["the recording has ended: cannot write made-up: no space left on device"] * 2


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a directory"):
        Recorder(tmp_path)


def test_a_recording_replaces_another_and_nothing_else(recording: Path, tmp_path: Path) -> None:
    Recorder(recording).close()
    with pytest.raises(ArgumentError, match="holds no round"):
        Replay(recording)
    file = tmp_path / "train.yaml"
    file.write_text("command: train\n")
    with pytest.raises(StoreError, match="is there already, and no recording"):
        Recorder(file)
    assert file.read_text() == "command: train\n"
    file.write_text("")
    Recorder(file).close()

"""The inbox: everything from the outbox, once, in order, whatever breaks. The cluster is made for the test."""

from __future__ import annotations

import contextlib
import itertools
import json
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airlane.backends.ray.inbox import FIRST_PAUSE_S, LONGEST_PAUSE_S, Inbox
from airlane.backends.ray.ledger import Coming, Position, read_position
from airlane.backends.ray.outbox import Feed, Outbox
from airlane.backends.ray.replica import Frame, Sink, Source
from airlane.backends.ray.wire import Kind, encode_line
from airlane.errors import BackendError, RayAnswerError, RayUnreachableError, StoreError

from .made_cluster import JOB, NODE, MadeCluster, files_of

LOG, STATUS = "attempts/0/nodes/0.log", "status.json"
WHOLE = -1


class Road:
    """A folder on the cluster, the user's, and the way between."""

    def __init__(self, folder: Path) -> None:
        self.here, self.there = folder / "here", folder / "there"
        self.logs = folder / "logs"
        self.here.mkdir(parents=True)
        self.there.mkdir()
        self.cluster = MadeCluster(self.logs)
        self.position_file = self.there / "ray" / "position.json"
        self.position_file.parent.mkdir()
        self.now = 0.0
        self.outbox = Outbox(self.logs, JOB, part_bytes=3000)
        self.inbox = self.new_inbox()

    def new_inbox(self, sink: Any = None) -> Inbox:
        """As another process would make it."""
        sink = sink or Sink(self.there)
        return Inbox(self.cluster, NODE, JOB, sink, self.position_file, clock=lambda: self.now)

    def log(self, text: bytes, offset: int = 0) -> None:
        self.outbox.put([Frame(LOG, offset, text)])

    @property
    def arrived(self) -> bytes:
        return (self.there / LOG).read_bytes()

    @property
    def files(self) -> dict[str, bytes]:
        return files_of(self.there, but=("ray/",))


@pytest.fixture
def road(tmp_path: Path) -> Road:
    return Road(tmp_path)


def test_what_was_put_in_arrives(road: Road) -> None:
    road.log(bytes(range(256)))
    road.outbox.put([Frame(STATUS, None, b"{}")])
    assert road.inbox.sync() is False
    assert road.files == {LOG: bytes(range(256)), STATUS: b"{}"}
    assert road.inbox.caught_up


def test_the_end_is_told_and_kept(road: Road) -> None:
    road.log(b"x")
    road.outbox.end()
    assert road.inbox.sync() is True
    asked = len(road.cluster.asked)
    assert road.new_inbox().sync() is True
    assert len(road.cluster.asked) == asked


def test_an_outbox_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    road = Road(tmp_path)
    for file in road.logs.iterdir():
        file.unlink()
    assert road.inbox.sync() is False
    assert road.files == {}


def test_it_follows_from_part_to_part(road: Road) -> None:
    text = bytes(range(256)) * 60
    for offset in range(0, len(text), 512):
        road.log(text[offset : offset + 512], offset)
    assert len(list(road.logs.iterdir())) > 3
    road.inbox.sync()
    assert road.arrived == text


def test_while_nothing_comes_only_the_last_line_is_asked_for(road: Road) -> None:
    road.log(b"x" * 1000)
    road.inbox.sync()
    road.inbox.sync()
    road.cluster.asked.clear()
    for _ in range(3):
        road.inbox.sync()
    assert road.cluster.asked == [1, 1, 1]


def test_what_has_come_meanwhile_is_asked_for_and_no_more(road: Road) -> None:
    road.log(b"first\n")
    road.inbox.sync()
    road.inbox.sync()
    road.cluster.asked.clear()
    for n in range(4):
        road.log(b"more!\n", 6 + 6 * n)
    road.inbox.sync()
    assert WHOLE not in road.cluster.asked
    assert road.arrived == b"first\n" + b"more!\n" * 4


def test_another_process_goes_on_without_reading_again_what_is_here(road: Road) -> None:
    road.log(b"one\n")
    road.inbox.sync()
    road.log(b"two\n", 4)
    road.cluster.asked.clear()
    road.new_inbox().sync()
    assert road.arrived == b"one\ntwo\n"
    assert WHOLE not in road.cluster.asked


def test_a_line_that_is_half_written_is_left_until_it_is_whole(road: Road) -> None:
    road.log(b"one\n")
    part = road.logs / f"{JOB}-0.out"
    before = part.read_bytes()
    road.log(b"two\n", 4)
    whole = part.read_bytes()
    for cut in range(len(before), len(whole)):
        part.write_bytes(whole[:cut])
        road.inbox.sync()
        assert road.arrived in (b"one\n", b"one\ntwo\n")
    part.write_bytes(whole)
    road.inbox.sync()
    assert road.arrived == b"one\ntwo\n"


def test_a_driver_killed_in_the_middle_of_a_line_keeps_back_nothing_before_it(road: Road) -> None:
    road.log(b"one\n")
    road.inbox.sync()
    road.log(b"two\n", 4)
    with (road.logs / f"{JOB}-0.out").open("ab") as part:
        part.write(b"5 0123")
    road.inbox.sync()
    assert road.arrived == b"one\ntwo\n"


def test_a_torn_line_is_passed_over_when_another_driver_has_gone_on(road: Road) -> None:
    road.log(b"one\n")
    with (road.logs / f"{JOB}-0.out").open("ab") as part:
        part.write(b"3 0123")
    road.inbox.sync()
    Outbox(road.logs, JOB).put([Frame(LOG, 4, b"two\n")])
    road.inbox.sync()
    assert road.arrived == b"one\ntwo\n"


def test_a_damaged_line_is_not_passed_over(road: Road) -> None:
    road.log(b"one\n")
    road.log(b"two\n", 4)
    road.log(b"three\n", 8)
    part = road.logs / f"{JOB}-0.out"
    lines = part.read_bytes().split(b"\n")
    lines[3] = lines[3].replace(b"4", b"5", 1)
    part.write_bytes(b"\n".join(lines))
    with pytest.raises(BackendError, match=f"line 3 of {JOB}-0.out is damaged"):
        road.inbox.sync()
    assert road.arrived == b"one\n"


def test_another_version_of_airlane_is_named(road: Road) -> None:
    (road.logs / f"{JOB}-0.out").write_bytes(encode_line(0, Kind.BEGIN, b"99"))
    with pytest.raises(BackendError, match="another version"):
        road.inbox.sync()


def test_a_cluster_cannot_write_what_is_the_users_own(road: Road) -> None:
    own = ("run.json", "workload.yaml", "command.sh", "verdict.json", "cancel.json", "secrets.json", "ray/job.json")
    road.outbox.put([Frame(path, None, b"theirs") for path in own])
    road.outbox.put([Frame(STATUS, None, b"{}")])
    road.inbox.sync()
    assert files_of(road.there, but=("ray/position",)) == {STATUS: b"{}"}


def test_a_cluster_cannot_write_outside_of_the_run_folder(road: Road) -> None:
    road.outbox.put([Frame("attempts/../../out.log", 0, b"theirs")])
    with pytest.raises(StoreError, match="outside"):
        road.inbox.sync()
    assert not (road.there.parent / "out.log").exists()


def test_a_full_disk_loses_nothing(road: Road) -> None:
    text = b"x" * 2000 + b"\n"
    road.log(text)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            road.inbox.sync()
        with pytest.raises(OSError, match="File too large"):
            road.inbox.sync()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    road.inbox.sync()
    assert road.arrived == text


def test_a_position_that_is_lost_or_damaged_costs_only_time(road: Road) -> None:
    road.log(b"one\n")
    road.inbox.sync()
    road.position_file.write_bytes(b"{")
    road.log(b"two\n", 4)
    road.new_inbox().sync()
    assert road.arrived == b"one\ntwo\n"
    road.position_file.unlink()
    road.new_inbox().sync()
    assert road.arrived == b"one\ntwo\n"


def test_a_log_that_the_user_removed_comes_again(road: Road) -> None:
    road.log(b"one\n")
    road.inbox.sync()
    (road.there / LOG).unlink()
    road.log(b"two\n", 4)
    road.inbox.sync()
    assert road.arrived == b"one\ntwo\n"


def test_an_outbox_that_never_told_the_beginning_is_said_to_be_incomplete(road: Road) -> None:
    road.log(b"two\n", 4)
    with pytest.raises(StoreError, match="changed while"):
        road.inbox.sync()


def test_a_node_that_is_gone_is_told_apart_from_a_file_that_is_not_there(road: Road) -> None:
    road.cluster.node_is_there = False
    with pytest.raises(RayAnswerError, match="doesn't exist"):
        road.inbox.sync()


def test_no_new_part_is_begun_when_patience_is_at_its_end(road: Road) -> None:
    for n in range(40):
        road.log(bytes(range(256)), 256 * n)
    assert road.inbox.sync(patience_s=0.0) is False
    assert not road.inbox.caught_up
    assert 0 < len(road.arrived) < 256 * 40
    road.inbox.sync()
    assert len(road.arrived) == 256 * 40


def test_following_goes_on_to_the_end_with_less_than_a_second_between_two_looks(road: Road) -> None:
    pauses: list[float] = []

    def meanwhile(pause_s: float) -> None:
        road.now += pause_s
        pauses.append(pause_s)
        if len(pauses) == 15:
            road.log(b"late\n")
        if len(pauses) == 20:
            road.outbox.end()

    assert road.inbox.follow(lambda: False, wait=meanwhile) is True
    assert road.arrived == b"late\n"
    assert max(pauses) <= LONGEST_PAUSE_S < 1
    assert pauses[15] == FIRST_PAUSE_S
    assert read_position(road.position_file).coming is Coming.ENDED


def test_following_outlives_a_cluster_that_does_not_answer_for_a_while(road: Road) -> None:
    troubles: list[object] = []

    def meanwhile(_: float) -> None:
        troubles.append(road.inbox.trouble)
        road.cluster.reachable = not 2 <= len(troubles) < 5
        if len(troubles) == 3:
            road.log(b"said in the dark\n")
        if len(troubles) == 7:
            road.outbox.end()

    assert road.inbox.follow(lambda: False, wait=meanwhile) is True
    assert [isinstance(trouble, RayUnreachableError) for trouble in troubles] == [False] * 2 + [True] * 3 + [False] * 2
    assert road.arrived == b"said in the dark\n"


def test_following_stops_when_told_to_and_keeps_its_place(road: Road) -> None:
    road.log(b"x")
    assert road.inbox.follow(lambda: True) is False
    assert read_position(road.position_file) == Position(0, 3)


def test_the_place_is_written_down_once_a_second_while_much_comes(road: Road) -> None:
    written: list[Position] = []

    def meanwhile(_: float) -> None:
        road.now += 0.3
        written.append(read_position(road.position_file))
        road.log(b"y", len(written))

    road.log(b"x")
    road.inbox.follow(lambda: len(written) >= 10, wait=meanwhile)
    assert 3 <= len(set(written)) <= 5


def test_it_can_be_written_down_that_no_more_will_come(road: Road) -> None:
    road.log(b"x")
    road.inbox.sync()
    road.inbox.cut_off()
    assert road.new_inbox().coming is Coming.CUT_OFF
    assert road.new_inbox().follow(lambda: False) is False


class Crash(BaseException):
    """The process is killed here."""


class CrashingSink(Sink):
    """Dies before the frame of a number."""

    def __init__(self, root: Path, frames: int) -> None:
        super().__init__(root)
        self._left = frames

    def apply(self, frame: Frame) -> None:
        self._left -= 1
        if self._left < 0:
            raise Crash
        super().apply(frame)


class Trip:
    """One story of what may happen: each method is a thing that can."""

    def __init__(self, folder: Path) -> None:
        self.road = Road(folder)
        self.feed = self._feed()
        self.numbers = itertools.count()

    def _feed(self) -> Feed:
        return Feed(Source(self.road.here), Outbox(self.road.logs, JOB, part_bytes=500), limit_bytes=300)

    def write_log(self, node: int, text: bytes) -> None:
        file = self.road.here / f"attempts/0/nodes/{node}.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as opened:
            opened.write(text)

    def write_record(self, node: int, text: bytes) -> None:
        file = self.road.here / f"attempts/0/nodes/{node}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_name(f"{file.name}.next")
        scratch.write_bytes(text + b"%d" % next(self.numbers))
        scratch.replace(file)

    def cut_log_short(self, node: int, text: bytes) -> None:
        """A log that is begun anew is seen if somebody looks before it is as long as before."""
        self.feed.move()
        file = self.road.here / f"attempts/0/nodes/{node}.log"
        if file.exists():
            file.write_bytes(text[: max(0, file.stat().st_size - 1)])
            self.feed.move()

    def move(self, node: int, text: bytes) -> None:
        del node, text
        self.feed.move()

    def sync(self, node: int, text: bytes) -> None:
        del node, text
        self.road.inbox.sync()

    def lose_the_connection(self, node: int, text: bytes) -> None:
        """After some questions."""
        del node
        asked = len(self.road.cluster.asked)

        class Broken:
            def get(_, path: str) -> bytes:  # noqa: N805 (the trip is `self` here)
                if len(self.road.cluster.asked) - asked >= len(text) % 4:
                    raise RayUnreachableError("cut")
                return self.road.cluster.get(path)

        inbox = Inbox(Broken(), NODE, JOB, Sink(self.road.there), self.road.position_file)
        try:
            inbox.sync()
        except RayUnreachableError:
            self.road.inbox = inbox
            inbox._dashboard = self.road.cluster

    def kill_the_mirror(self, node: int, text: bytes) -> None:
        """After some frames, before it wrote down where it was."""
        del node
        sink = CrashingSink(self.road.there, len(text) % 5)
        inbox = self.road.new_inbox(sink)
        inbox._save = lambda: None  # type: ignore[method-assign]
        with contextlib.suppress(Crash):
            inbox.sync()
        self.road.inbox = self.road.new_inbox()

    def kill_the_driver(self, node: int, text: bytes) -> None:
        """Perhaps in the middle of a line."""
        del node
        last = max(self.road.logs.iterdir(), key=lambda file: int(file.stem.rpartition("-")[2]))
        with last.open("ab") as part:
            part.write(text[:30].replace(b"\n", b""))
        self.feed = self._feed()


things = st.sampled_from(
    [
        Trip.write_log,
        Trip.write_log,
        Trip.write_log,
        Trip.write_record,
        Trip.cut_log_short,
        Trip.move,
        Trip.move,
        Trip.sync,
        Trip.sync,
        Trip.lose_the_connection,
        Trip.kill_the_mirror,
        Trip.kill_the_driver,
    ]
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(things, st.integers(0, 2), st.binary(max_size=400)), max_size=25))
def test_the_users_folder_is_the_clusters_whatever_happened_in_between(
    tmp_path_factory: pytest.TempPathFactory, story: Sequence[tuple[Callable[[Trip, int, bytes], None], int, bytes]]
) -> None:
    trip = Trip(tmp_path_factory.mktemp("trip"))
    for thing, node, text in story:
        thing(trip, node, text)
    trip.write_record(0, b"")
    (trip.road.here / STATUS).write_text(json.dumps({"state": "SUCCESS"}))
    while trip.feed.move():
        pass
    trip.road.inbox.sync()
    assert trip.road.inbox.caught_up
    assert trip.road.files == files_of(trip.road.here)

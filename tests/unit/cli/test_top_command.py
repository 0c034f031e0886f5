"""air top on a cluster that is made up: how it is asked for, what is refused, what is printed."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from airlane.api.ray_target import JobTarget
from airlane.cli.command import Context
from airlane.cli.commands.top import STYLES, seconds
from airlane.errors import NotFoundError
from airlane.top import opening
from airlane.top.lines import Tone
from airlane.top.opening import Opened, Wish
from airlane.top.values import Job, Measures, Node, NodeDetail, Panel, Snapshot

from .conftest import Air
from .made_runs import NOW

HEAD = Node("a" * 56, "gpu-1", state="ALIVE", head=True, started_at=NOW - 3600, measures=Measures(cpu=12.0, cores=8))
DEAD = Node("b" * 56, "gpu-2", state="DEAD", why="Unexpected termination")
JOB = Job("raysubmit_U6KB", state="RUNNING", entrypoint="python train.py", started_at=NOW - 60)
SNAPSHOT = Snapshot(
    NOW,
    "http://head:8265",
    "2.60.0",
    nodes=Panel((HEAD, DEAD), NOW),
    jobs=Panel((JOB,), NOW),
    groups=Panel((), None, "answers 500"),
)


@dataclass
class MadeSource:
    """A cluster that stands still."""

    shown: Snapshot = SNAPSHOT
    closed: bool = False

    async def snapshot(self) -> Snapshot:
        return self.shown

    async def node(self, node_id: str) -> Panel[NodeDetail]:
        return Panel(NodeDetail(node_id))

    async def follow_job_log(self, job_id: str, take: Callable[[str], None]) -> str | None:
        take(job_id)
        return None

    async def stop_job(self, job_id: str) -> str:
        return f"{job_id} was asked to stop"

    def close(self) -> None:
        self.closed = True


@dataclass
class MadeDoor:
    """In place of finding a cluster."""

    source: MadeSource = field(default_factory=MadeSource)
    wishes: list[tuple[Wish, bool]] = field(default_factory=list)
    refusal: Exception | None = None

    @contextlib.contextmanager
    def open(self, _client: Any, wish: Wish, *, once: bool) -> Iterator[Opened]:
        self.wishes.append((wish, once))
        if self.refusal is not None:
            raise self.refusal
        yield Opened(self.source, lambda: NOW)


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> MadeDoor:
    made = MadeDoor()
    monkeypatch.setattr(opening, "open_source", made.open)
    monkeypatch.setattr(Context, "client", lambda _context: None)
    return made


def test_one_frame_is_text_of_120_columns_in_a_pipe(air: Air, door: MadeDoor) -> None:
    output = air("top", "--once")
    assert (output.code, output.err) == (0, "")
    lines = output.out.splitlines()
    assert max(len(line) for line in lines) <= 120
    assert "\x1b" not in output.out
    assert lines[0].split() == ["http://head:8265", "Ray", "2.60.0", "1", "node", "·", "1", "dead", "up", "1h", "00m"]
    assert any(line.startswith("raysubmit_U6KB") or " raysubmit_U6KB " in line for line in lines)
    assert lines[-1] == "! placement groups: answers 500"
    assert door.wishes == [(Wish(JobTarget()), True)]


@pytest.mark.parametrize("words", [("--once", "--json"), ("--json",)])
def test_json_is_the_whole_round_in_the_envelope(air: Air, door: MadeDoor, words: tuple[str, ...]) -> None:
    data = air("top", *words).data()
    assert [node["name"] for node in data["nodes"]["data"]] == ["gpu-1", "gpu-2"]
    assert data["nodes"]["data"][0]["measures"]["cpu"] == 12.0
    assert data["groups"]["trouble"] == "answers 500"
    assert door.wishes[0][1]


@pytest.mark.usefixtures("door")
def test_without_a_terminal_it_says_what_to_type(air: Air) -> None:
    output = air("top")
    assert (output.code, output.out) == (2, "")
    assert output.err == "air top needs a terminal to show itself on\n  air top --once prints one frame\n"


def test_a_head_that_went_away_is_an_error_of_its_kind(air: Air, door: MadeDoor) -> None:
    door.source.shown = replace(SNAPSHOT, answers=False, trouble="http://head:8265 refuses the connection")
    output = air("top", "--once", "--json")
    assert output.code == 1
    assert (output.error()["code"], output.error()["retryable"]) == ("NETWORK_ERROR", True)
    assert output.err == "http://head:8265 refuses the connection\n"


def test_every_way_to_name_a_cluster_is_passed_on(air: Air, door: MadeDoor) -> None:
    air("top", "--once", "-p", "ray", "--cluster", "mine", "--record", "a.zst")
    air("top", "--once", "--address", "http://h:1", "--replay", "b")
    assert [wish for wish, _ in door.wishes] == [
        Wish(JobTarget(cluster="mine", profile="ray"), record=Path("a.zst")),
        Wish(JobTarget(address="http://h:1"), replay=Path("b")),
    ]


def test_what_is_refused_is_told_with_the_next_step(air: Air, door: MadeDoor) -> None:
    door.refusal = NotFoundError("nothing says which Ray cluster is meant", hint="air ray up starts one")
    output = air("top", "--once")
    assert (output.code, output.err) == (1, "nothing says which Ray cluster is meant\n  air ray up starts one\n")


def test_one_frame_is_not_asked_for_every_so_often(air: Air, door: MadeDoor) -> None:
    output = air("top", "--once", "--every", "5")
    assert (output.code, door.wishes) == (2, [])
    assert output.err == "--every and --once exclude each other\n  watch -n 5 air top --once\n"


@pytest.mark.parametrize("text", ["0", "0.4", "nan", "inf", "-1", "soon", "", "1e9"])
def test_how_often_is_a_number_of_seconds(air: Air, door: MadeDoor, text: str) -> None:
    output = air("top", f"--every={text}")
    assert (output.code, door.wishes) == (2, [])
    assert f"expected seconds from 0.5 to 3,600, got {text!r}" in output.err


def test_how_often_may_have_a_fraction() -> None:
    assert [seconds("0.5"), seconds("2"), seconds("3600")] == [0.5, 2.0, 3600.0]


def test_every_tone_has_a_look() -> None:
    assert set(STYLES) == {tone.name for tone in Tone}


def test_on_a_terminal_without_unicode_the_frame_is_ascii(
    air: Air, door: MadeDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = replace(JOB, entrypoint="python träin.py --note 训练")
    door.source.shown = replace(SNAPSHOT, jobs=Panel((job,), NOW))
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert air("top", "--once").code == 0
    assert b"python tr?in.py --note ??" in written.getvalue()

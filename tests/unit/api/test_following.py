"""Following a run: its news and its log in order, while a play goes on each time the watcher would sleep."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from airlane.api import LogChunk, PhaseChanged, StatusChanged, following
from airlane.logs import tail
from airlane.store.paths import RunPaths
from airlane.store.states import Phase, State

from .conftest import Bench

Step = Callable[[], object]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the steps happen one by one, one each time that somebody sleeps; then time stands still no longer."""

    def begin(*steps: Step) -> None:
        left: Iterator[Step] = iter(steps)
        now = [0.0]

        def sleep(seconds: float) -> None:
            now[0] += max(seconds, 1.1)
            step = next(left, None)
            assert step is not None, "the play is over, and the watcher still waits"
            step()

        made = SimpleNamespace(sleep=sleep, monotonic=lambda: now[0])
        monkeypatch.setattr(following, "time", made)
        monkeypatch.setattr(tail.follow, "__kwdefaults__", {"sleep": sleep})

    return begin


def add(paths: RunPaths, text: str, *, attempt: int = 0, node: int = 0) -> None:
    log = paths.log(attempt=attempt, node=node)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        file.write(text)


def words(updates: Iterator[object]) -> list[str]:
    told = []
    for update in updates:
        match update:
            case PhaseChanged(phase, detail):
                told.append(f"phase {phase} {detail or ''}".strip())
            case StatusChanged(state, previous):
                told.append(f"{previous} -> {state}")
            case LogChunk(node, data):
                told.append(f"{node}: {data.decode()!r}")
    return told


def test_phases_states_and_lines_come_in_order(bench: Bench, play: Callable[..., None]) -> None:
    paths = bench.run(alive=True)
    play(
        lambda: bench.tell(paths, State.RUNNING),
        lambda: add(paths, "one\n"),
        lambda: add(paths, "two\nthr"),
        lambda: add(paths, "ee\n"),
        lambda: bench.tell(paths, State.SUCCESS),
    )
    assert words(bench.client.get(paths.id).watch()) == [
        "None -> PENDING",
        f"phase {Phase.RUNNING}",
        "PENDING -> RUNNING",
        "0: 'one\\n'",
        "0: 'two\\nthr'",
        "0: 'ee\\n'",
        "phase None",
        "RUNNING -> SUCCESS",
    ]


def test_the_last_lines_come_before_the_end(bench: Bench, play: Callable[..., None]) -> None:
    paths = bench.run(State.RUNNING, alive=True)

    def end() -> None:
        add(paths, "x" * 3_000_000)
        bench.tell(paths, State.FAILED)

    play(end)
    updates = list(bench.client.get(paths.id).watch())
    assert isinstance(updates[-1], StatusChanged)
    assert sum(len(update.data) for update in updates if isinstance(update, LogChunk)) == 3_000_000


def test_the_rest_of_one_attempt_comes_before_the_next_one(bench: Bench, play: Callable[..., None]) -> None:
    paths = bench.run(State.RUNNING, alive=True)

    def fail_and_try_again() -> None:
        add(paths, "first\n")
        bench.tell(paths, State.RUNNING, attempts=2)
        add(paths, "second\n", attempt=1)

    play(fail_and_try_again, lambda: bench.tell(paths, State.SUCCESS, attempts=2))
    lines = [word for word in words(bench.client.get(paths.id).watch()) if word.startswith("0:")]
    assert lines == ["0: 'first\\n'", "0: 'second\\n'"]


def test_a_run_that_had_ended_is_told_at_once(bench: Bench, play: Callable[..., None]) -> None:
    paths = bench.run(State.FAILED)
    add(paths, "all of it\n")
    play()
    assert words(bench.client.get(paths.id).watch()) == ["0: 'all of it\\n'", "None -> FAILED"]


def test_a_supervisor_that_dies_is_noticed_though_no_file_changes(bench: Bench, play: Callable[..., None]) -> None:
    paths = bench.run(State.RUNNING, alive=True)

    def die() -> None:
        os.close(bench.locks.pop())

    play(die, *[lambda: None] * 3)
    assert words(bench.client.get(paths.id).watch())[-1] == "RUNNING -> FAILED"
    assert paths.verdict.exists()


def test_logs_of_a_run_that_goes_on_follow_it_through_its_attempts(bench: Bench, play: Callable[..., None]) -> None:
    paths = bench.run(State.RUNNING, alive=True)
    add(paths, "a\nb\nc\n", node=1)

    def try_again() -> None:
        bench.tell(paths, State.RUNNING, attempts=2)
        add(paths, "e\nf\n", attempt=1, node=1)

    play(
        lambda: add(paths, "d\n", node=1),
        try_again,
        lambda: bench.tell(paths, State.SUCCESS, attempts=2),
        *[lambda: None] * 20,
    )
    run = bench.client.get(paths.id)
    assert b"".join(run.logs(node=1, tail=2)) == b"b\nc\nd\ne\nf\n"
    assert b"".join(run.logs(node=1, attempt=0)) == b"a\nb\nc\nd\n"


def test_logs_of_a_run_that_never_started_are_empty(bench: Bench, play: Callable[..., None]) -> None:
    paths = bench.run(alive=True)
    play(lambda: None, lambda: bench.tell(paths, State.CANCELED), *[lambda: None] * 5)
    assert b"".join(bench.client.get(paths.id).logs()) == b""

"""What a scheduler starts: which supervisor it becomes, or why it becomes none; backend and supervising are made up."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airlane.store import codec
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Cause, CauseKind, EnvironmentRecord, RunRecord, Status, Verdict
from airlane.store.runs import NewRun, RunContent, RunStore
from airlane.store.states import Phase, State
from airlane.store.supervisor_lock import hold, is_held
from airlane.supervise import batch
from airlane.supervise.batch import EXIT_FAILED, EXIT_NO_RUN

from .made_nodes import LIMITS, START
from .test_settle import DeadBackend


class Scheduler(DeadBackend):
    """Says whether the supervisor is the run's current one."""

    def __init__(self, *, current: bool = True) -> None:
        super().__init__()
        self.current = current
        self.warned_too_early: bool | None = None

    def take_over(self, run: RunRecord, paths: RunPaths) -> bool:
        assert run.id == paths.id
        self.warned_too_early = signal.getsignal(signal.SIGUSR1) is not signal.SIG_IGN
        return self.current


class Recorded:
    """Stands for the supervisor: keeps how it was called, and ends as it is told."""

    def __init__(self, state: State | None) -> None:
        self.state = state
        self.calls: list[dict[str, Any]] = []
        self.locked: list[bool | None] = []

    def __call__(self, record: RunRecord, paths: RunPaths, **rest: Any) -> State | None:
        self.calls.append({"record": record, **rest})
        self.locked.append(is_held(paths.lock))
        return self.state


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def new(tmp_path: Path) -> NewRun:
    record = RunRecord(
        "", "test", "me", START, str(tmp_path / "w.yaml"), "slurm", None, 1, 1, 1, "CPU_1xCORE", simulate=False,
        limits=LIMITS, environment=EnvironmentRecord("host", (), "3.11", None),
        backend_options={"partition": "gpu"},
    )  # fmt: skip
    store = RunStore(Home(tmp_path / "a 'home' ü\n"))
    made = store.create(record, RunContent("", "true", parameters="lr: 0.1\n"))
    os.close(made.lock)
    return made


def started(
    new: NewRun, monkeypatch: pytest.MonkeyPatch, state: State | None = State.SUCCESS, *, current: bool = True
) -> tuple[int, Recorded]:
    """The exit code, and what the supervisor was called with."""
    recorded, scheduler = Recorded(state), Scheduler(current=current)

    def make_backend(name: str, home: Home, options: dict[str, Any]) -> Scheduler:
        assert (name, options) == ("slurm", {"partition": "gpu"})
        assert home.runs in new.paths.root.parents
        return scheduler

    monkeypatch.setattr(batch, "make_backend", make_backend)
    monkeypatch.setattr(batch, "supervise", recorded)
    code = batch.main(["batch.py", str(new.paths.root)])
    assert scheduler.warned_too_early is False, "an early warning would end it"
    return code, recorded


@pytest.mark.parametrize(
    ("state", "code"),
    [(State.SUCCESS, 0), (None, 0), (State.FAILED, EXIT_FAILED), (State.CANCELED, EXIT_FAILED)],
)
def test_the_scheduler_sees_how_the_run_ended(
    new: NewRun, monkeypatch: pytest.MonkeyPatch, state: State | None, code: int
) -> None:
    assert started(new, monkeypatch, state)[0] == code


def test_the_supervisor_gets_what_stands_in_the_run_folder(new: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    _, recorded = started(new, monkeypatch)
    (call,) = recorded.calls
    assert (call["record"], call["params"], call["earlier"]) == (new.record, {"lr": 0.1}, None)
    assert call["plan"]().base == "host"
    assert recorded.locked == [True]
    assert is_held(new.paths.lock) is False


def test_a_run_without_parameters_has_none(new: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    new.paths.parameters.unlink()
    assert started(new, monkeypatch)[1].calls[0]["params"] == {}


def test_what_a_supervisor_before_it_left_is_read(new: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = Status(State.RUNNING, Phase.RUNNING, None, START, 1, "gpu-b0")
    new.paths.status.write_bytes(codec.encode(earlier))
    assert started(new, monkeypatch)[1].calls[0]["earlier"] == earlier


def test_what_a_supervisor_writes_that_was_taken_for_dead_is_waited_for(
    new: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    cause = Cause(CauseKind.COMPLETED, "done")
    end = Status(State.SUCCESS, None, None, START, 1, "gpu-b0", cause=cause, ended_at=START)

    def hold_late(path: Path, **patience: float) -> int:
        new.paths.status.write_bytes(codec.encode(end))  # its last word, before the kernel frees its lock
        return hold(path, **patience)

    monkeypatch.setattr(batch, "hold", hold_late)
    code, recorded = started(new, monkeypatch)
    assert (code, recorded.calls) == (0, [])


@pytest.mark.parametrize("told_by", ["its supervisor", "a reader"])
def test_a_run_that_has_ended_is_not_started_again(new: NewRun, monkeypatch: pytest.MonkeyPatch, told_by: str) -> None:
    cause = Cause(CauseKind.CANCELED, "canceled by the user")
    if told_by == "a reader":
        new.paths.verdict.write_bytes(codec.encode(Verdict(State.CANCELED, cause, START, "a reader")))
    else:
        end = Status(State.CANCELED, None, None, START, 1, "gpu-b0", cause=cause, ended_at=START)
        new.paths.status.write_bytes(codec.encode(end))
    code, recorded = started(new, monkeypatch)
    assert (code, recorded.calls) == (0, [])
    assert is_held(new.paths.lock) is False


def test_one_that_is_not_the_runs_current_supervisor_does_nothing(new: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    code, recorded = started(new, monkeypatch, current=False)
    assert (code, recorded.calls) == (0, [])


def test_a_folder_without_a_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a 'folder' ü"
    assert batch.main(["batch.py", str(folder)]) == EXIT_NO_RUN
    assert f"{folder} on {os.uname().nodename} holds no run" in capsys.readouterr().err

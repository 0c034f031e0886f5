"""The body of a supervisor's process: a fault of ours ends the run, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airlane import environment
from airlane.backends.base import Interruption, Liveness
from airlane.errors import EnvironmentBuildError
from airlane.store import codec
from airlane.store.paths import Home
from airlane.store.records import Attempt, Cause, CauseKind, EnvironmentRecord, NodeRecord, RunRecord, Status
from airlane.store.runs import NewRun, RunContent, RunStore
from airlane.store.states import Phase, State
from airlane.supervise import body
from airlane.supervise.supervisor import ReplacedError, Supervisor
from airlane.tracking.tracker import AttemptOutcome, NoTracker

from .made_nodes import LIMITS, START
from .test_settle import DeadBackend


@pytest.fixture(autouse=True)
def sigterm_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(Home(tmp_path / "a 'home' ü\n"))


@pytest.fixture
def new(store: RunStore) -> NewRun:
    record = RunRecord(
        "", "test", "me", START, "w.yaml", "made", None, 1, 1, 1, "CPU_1xCORE", simulate=False,
        limits=LIMITS, environment=EnvironmentRecord("host", (), "3.11", None), tracking_uri="none",
    )  # fmt: skip
    made = store.create(record, RunContent("", "true", secrets=b"{}"))
    os.close(made.lock)
    return made


def supervise(new: NewRun, store: RunStore, backend: DeadBackend) -> None:
    body.supervise(
        new.record,
        new.paths,
        home=store.home,
        backend=backend,
        plan=lambda: environment.plan("host", (), base_dir=store.home.root, home=store.home),
        params={},
        env={},
    )


def explode(*_: Any, **__: Any) -> Any:
    raise RuntimeError('a fault of "ours"')


def test_a_fault_in_the_supervisor_ends_the_run_and_says_where_to_look(
    new: NewRun, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Supervisor, "run", explode)
    backend = DeadBackend(Liveness.ALIVE)
    with pytest.raises(RuntimeError, match="a fault"):
        supervise(new, store, backend)
    view = store.view(new.paths)
    assert view.state is State.FAILED
    assert view.cause is not None
    assert view.cause.summary == 'Airlane itself failed: RuntimeError: a fault of "ours"'
    assert view.cause.hint == f"see {new.paths.supervisor_log}"
    assert backend.swept == [new.record.id], "what it had started is ended"
    assert not new.paths.secrets.exists()


def test_a_fault_before_the_first_status_ends_the_run_too(
    new: NewRun, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "make_tracker", explode)
    with pytest.raises(RuntimeError, match="a fault"):
        supervise(new, store, DeadBackend())
    assert store.view(new.paths).state is State.FAILED


def test_a_supervisor_that_was_replaced_leaves_the_run_to_the_other(
    new: NewRun, store: RunStore, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def stand_down(_self: Supervisor) -> State:
        raise ReplacedError

    monkeypatch.setattr(Supervisor, "run", stand_down)
    backend = DeadBackend(Liveness.ALIVE)
    supervise(new, store, backend)
    assert not new.paths.status.exists()
    assert new.paths.secrets.exists()
    assert backend.swept == []
    assert "this supervisor stands down" in capfd.readouterr().err


class Remembering(NoTracker):
    """Tracking that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def end_attempt(self, outcome: AttemptOutcome) -> None:
        self.told.append(outcome.state)

    def close(self, timeout_s: float) -> None:
        assert timeout_s > 0
        self.told.append("closed")


def _status(new: NewRun, state: State, *attempts: Attempt) -> None:
    cause = Cause(CauseKind.COMPLETED, "done") if state.terminal else None
    status = Status(state, None if state.terminal else Phase.RUNNING, None, START, 1, "here", attempts, cause)
    new.paths.status.write_bytes(codec.encode(status))


def _fails_after(status: Callable[[], None]) -> Callable[[Supervisor], State]:
    def run(_self: Supervisor) -> State:
        status()
        raise RuntimeError("a fault")

    return run


def test_a_fault_during_an_attempt_closes_it_here_and_in_mlflow(
    new: NewRun, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracking = Remembering()
    monkeypatch.setattr(body, "make_tracker", lambda *_, **__: tracking)
    monkeypatch.setattr(Supervisor, "run", _fails_after(lambda: _status(new, State.RUNNING, Attempt(0, START))))
    with pytest.raises(RuntimeError):
        supervise(new, store, DeadBackend())
    status = codec.read(Status, new.paths.status)
    assert status is not None
    assert (status.attempts[0].state, status.attempts[0].cause) == (State.FAILED, status.cause)
    assert tracking.told == [State.FAILED, "closed"]


def test_a_fault_after_the_end_does_not_change_it(
    new: NewRun, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Supervisor, "run", _fails_after(lambda: _status(new, State.SUCCESS)))
    with pytest.raises(RuntimeError):
        supervise(new, store, DeadBackend())
    assert store.view(new.paths).state is State.SUCCESS


def test_sigterm_is_a_request_to_cancel(new: NewRun, store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons: list[Interruption | None] = []

    def run(self: Supervisor) -> State:
        asked = self._tools.stop_requested
        reasons.append(asked())
        os.kill(os.getpid(), signal.SIGTERM)
        reasons.append(asked())
        return State.CANCELED

    monkeypatch.setattr(Supervisor, "run", run)
    supervise(new, store, DeadBackend())
    assert reasons == [None, Interruption(CauseKind.CANCELED, "the supervisor was asked to stop (SIGTERM)")]


def test_the_evidence_of_an_attempt_is_in_its_log(new: NewRun) -> None:
    new.paths.nodes(3).mkdir(parents=True)
    new.paths.log(attempt=3, node=0).write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB\n")
    found = body.log_evidence(new.paths, 3)(0, NodeRecord(0, "here", 1, "subreaper", START, exit_code=1))
    assert found is not None
    assert found[0] == "CUDA out of memory"


def test_a_clock_that_is_set_does_not_move_the_supervisors_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = body.SystemClock()
    before = clock.now()
    assert abs(before - time.time()) < 60
    monkeypatch.setattr(time, "time", lambda: before + 3600)
    assert 0 <= clock.now() - before < 60


def test_an_environment_that_cannot_be_planned_where_the_supervisor_is_ends_the_run_with_why(
    new: NewRun, store: RunStore
) -> None:
    def refuse() -> environment.EnvironmentPlan:
        raise EnvironmentBuildError("uv is not on this node", hint="air doctor")

    with pytest.raises(EnvironmentBuildError):
        body.supervise(new.record, new.paths, home=store.home, backend=DeadBackend(), plan=refuse, params={}, env={})
    cause = store.view(new.paths).cause
    assert cause is not None
    assert (cause.kind, cause.summary, cause.hint) == (CauseKind.SETUP, "uv is not on this node", "air doctor")

"""The body of a supervisor's process: the real tools, a SIGTERM that cancels, and an end for every run."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from airlane import environment
from airlane.backends.base import Backend
from airlane.environment import EnvironmentPlan
from airlane.store import codec
from airlane.store.disk import SystemDisk
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Cause, CauseKind, NodeRecord, RunRecord, Status
from airlane.store.states import Phase, State
from airlane.supervise.causes import Evidence
from airlane.supervise.ports import Tracking
from airlane.supervise.recording import attempt_outcome
from airlane.supervise.supervisor import TRACKING_CLOSE_S, Supervisor, Tools
from airlane.supervise.workshop import RunWorkshop
from airlane.tracking.tracker import make_tracker

MLFLOW_SERVER = "mlflow-server"


class SystemClock:
    """The machine's time when the supervisor began, and what has passed since: a clock that is set ends no run."""

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic() + self._offset_s

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def supervise(
    record: RunRecord,
    paths: RunPaths,
    *,
    home: Home,
    backend: Backend,
    plan: EnvironmentPlan,
    params: dict[str, Any],
    env: Mapping[str, str],
) -> None:
    """Supervise one run to its end, in this process."""
    asked: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append("the supervisor was asked to stop (SIGTERM)"))
    tracking: Tracking | None = None
    try:
        tracking = make_tracker(record.tracking_uri, home=home, python=mlflow_python(home), env=env)
        tools = Tools(
            backend=backend,
            workshop=RunWorkshop(record, paths, home, plan),
            tracking=tracking,
            disk=SystemDisk(),
            clock=SystemClock(),
            evidence=lambda attempt: log_evidence(paths, attempt),
            stop_requested=lambda: asked[0] if asked else None,
            params=params,
            pid=os.getpid(),
            host=os.uname().nodename,
        )
        Supervisor(record, paths, tools).run()
    except Exception as error:
        _end_by_own_fault(record, paths, error, backend=backend, tracking=tracking)
        raise


def mlflow_python(home: Home) -> Callable[[], Path]:
    """The interpreter that serves MLflow; its environment is built when it is first asked for."""

    def python() -> Path:
        plan = environment.plan(MLFLOW_SERVER, (), base_dir=home.root, home=home)
        return environment.build(plan, progress=lambda _words: None).python

    return python


def log_evidence(paths: RunPaths, attempt: int) -> Evidence:
    """What the logs of an attempt say about its end."""

    def evidence(node: int, record: NodeRecord) -> tuple[str | None, tuple[str, ...], str | None] | None:
        from airlane.logs.cause import find_cause

        log = paths.log(attempt=attempt, node=node)
        found = find_cause(log, exit_code=record.exit_code, signal=record.signal, oom_kill=record.oom_kill)
        return found.title, found.lines, found.hint

    return evidence


def _end_by_own_fault(
    record: RunRecord, paths: RunPaths, error: Exception, *, backend: Backend, tracking: Tracking | None
) -> None:
    """A fault of ours must leave neither processes nor secrets nor a run without an end.

    Whoever called prints the traceback to supervisor.log; what cannot be written here, readers work out.
    """
    backend.sweep(paths)
    with contextlib.suppress(OSError):
        paths.secrets.unlink(missing_ok=True)
    now = time.time()
    status = codec.read(Status, paths.status) or Status(
        State.PENDING, Phase.PREPARING, None, now, os.getpid(), os.uname().nodename
    )
    if status.state.terminal:
        return
    summary = f"Airlane itself failed: {type(error).__name__}: {error}"
    cause = Cause(CauseKind.SUPERVISOR_LOST, summary, hint=f"see {paths.supervisor_log}")
    attempts = status.attempts
    if attempts and attempts[-1].ended_at is None:
        last = replace(attempts[-1], ended_at=now, state=State.FAILED, cause=cause)
        attempts = (*attempts[:-1], last)
        if tracking is not None:
            tracking.end_attempt(attempt_outcome(record, paths, last))
    ended = replace(
        status,
        state=State.FAILED,
        phase=None,
        detail=None,
        attempts=attempts,
        cause=cause,
        ended_at=now,
        updated_at=now,
    )
    SystemDisk().replace(paths.status, codec.encode(ended), last=True)
    if tracking is not None:
        tracking.close(TRACKING_CLOSE_S)

"""The body of a supervisor's process: the real tools, a SIGTERM that cancels, and an end for every run."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from airlane import environment
from airlane.backends.base import Backend
from airlane.environment import EnvironmentPlan
from airlane.errors import AirError, TrackingError
from airlane.spec.profiles import NO_TRACKING
from airlane.store import codec
from airlane.store.disk import SystemDisk
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Attempt, Cause, CauseKind, NodeRecord, RunRecord, Status
from airlane.store.states import Phase, State
from airlane.supervise.causes import Evidence, refused_cause
from airlane.supervise.ports import Tracking
from airlane.supervise.recording import attempt_outcome
from airlane.supervise.supervisor import TRACKING_CLOSE_S, ReplacedError, Supervisor, Tools
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
    plan: Callable[[], EnvironmentPlan | None],
    params: dict[str, Any],
    env: Mapping[str, str],
    earlier: Status | None = None,
) -> State | None:
    """Supervise one run to its end, in this process; None if another supervisor goes on with it.

    `earlier` is the status that the supervisor before this one left.
    """
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    tracking: Tracking | None = None
    try:
        on_node = paths if backend.elsewhere else None
        python = cluster_mlflow if backend.has_environment else mlflow_python(home)
        tracking = make_tracker(record.tracking_uri, home=home, python=python, env=env, on_node=on_node)
        tools = Tools(
            backend=backend,
            workshop=RunWorkshop(record, paths, home, plan()),
            tracking=tracking,
            disk=SystemDisk(),
            clock=SystemClock(),
            evidence=lambda attempt: log_evidence(paths, attempt),
            stop_requested=lambda: backend.asked_to_stop() if asked else None,
            close_orphan=lambda attempt: close_attempt(home, record, paths, attempt, env),
            params=params,
            pid=os.getpid(),
            host=os.uname().nodename,
        )
        return Supervisor(record, paths, tools, earlier=earlier).run()
    except ReplacedError:
        os.write(2, b"airlane: the run was started elsewhere; this supervisor stands down\n")
        return None
    except Exception as error:
        _end_by_own_fault(record, paths, error, backend=backend, tracking=tracking)
        raise


def close_attempt(home: Home, record: RunRecord, paths: RunPaths, attempt: Attempt, env: Mapping[str, str]) -> None:
    """Close the MLflow run of an attempt whose supervisor was killed: it must not stay RUNNING."""
    if record.tracking_uri == NO_TRACKING or attempt.state is None or attempt.cause is None:
        return
    if attempt.mlflow_run_id is not None and attempt.mlflow_url is None:
        return  # it is kept in the run folder: tracking/upload.py closes it
    from airlane.supervise.recording import attempt_logs
    from airlane.tracking.orphans import Orphan, close_orphan

    orphan = Orphan(
        attempt.mlflow_run_id,
        record.tracking_uri,
        attempt.state,
        attempt.cause,
        attempt.ended_at or time.time(),
        artifacts={str(path): folder for path, folder in attempt_logs(record, paths, attempt.number)},
        experiment_name=record.experiment_name,
        run_id=record.id,
        attempt=attempt.number,
    )
    with contextlib.suppress(AirError):  # tracking never stands in the way of the truth about a run
        close_orphan(home, orphan, env)


def mlflow_python(home: Home) -> Callable[[], Path]:
    """The interpreter that serves MLflow; its environment is built when it is first asked for."""

    def python() -> Path:
        plan = environment.plan(MLFLOW_SERVER, (), base_dir=home.root, home=home)
        return environment.build(plan, progress=lambda _words: None).python

    return python


def cluster_mlflow() -> Path:
    """The interpreter that serves MLflow where nothing can be built: this one.

    Raises TrackingError when it has no MLflow, or not what its logins need.
    """
    from importlib.util import find_spec

    if find_spec("mlflow") is None or find_spec("flask_wtf") is None:
        raise TrackingError(f"there is no mlflow[auth] in {sys.executable}, with which metrics could be kept")
    return Path(sys.executable)


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
    if isinstance(error, AirError):
        cause = refused_cause(error)
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

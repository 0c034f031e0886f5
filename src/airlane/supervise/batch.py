"""The body of a supervisor that a scheduler starts: `python -I -m airlane.supervise.batch RUN_FOLDER`.

What the run is stands in its folder. A supervisor that was here before left its status, and this one goes on from it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from airlane import environment
from airlane.backends.base import Backend
from airlane.backends.registry import make_backend
from airlane.environment import EnvironmentPlan
from airlane.store import codec
from airlane.store.paths import Home, RunPaths
from airlane.store.records import RunRecord, Status
from airlane.store.states import State
from airlane.store.supervisor_lock import hold
from airlane.supervise.body import supervise

EXIT_FAILED = 1
LOCK_PATIENCE_S = 10.0
EXIT_NO_RUN = 78


def main(arguments: list[str]) -> int:
    """Supervise the run of a folder; the exit code is what the scheduler shows of it."""
    paths = RunPaths(Path(arguments[1]))
    record = codec.read(RunRecord, paths.record)
    if record is None:
        print(f"airlane: {paths.root} on {os.uname().nodename} holds no run", file=sys.stderr)  # noqa: T201
        return EXIT_NO_RUN
    home = Home(paths.root.parent.parent.parent)
    backend = make_backend(record.backend, home, record.backend_options)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # until the backend listens to it
    if not backend.take_over(record, paths):
        return 0
    try:
        return _go_on(record, paths, home, backend)
    finally:
        backend.leave(paths)


def _go_on(record: RunRecord, paths: RunPaths, home: Home, backend: Backend) -> int:
    # Of a supervisor that was taken for dead and lives, the end is waited for; one that hangs finds itself replaced.
    lock = hold(paths.lock, patience_s=LOCK_PATIENCE_S)
    earlier = codec.read(Status, paths.status)
    if paths.verdict.exists() or (earlier is not None and earlier.state.terminal):
        os.close(lock)
        return 0
    state = supervise(
        record,
        paths,
        home=home,
        backend=backend,
        plan=lambda: None if backend.has_environment else _plan(record, home),
        params=_parameters(paths),
        env=os.environ,
        earlier=earlier,
    )
    os.close(lock)
    return 0 if state in (None, State.SUCCESS) else EXIT_FAILED


def _plan(record: RunRecord, home: Home) -> EnvironmentPlan:
    recorded = record.environment
    return environment.plan(recorded.base, recorded.dependencies, base_dir=Path(record.workload_file).parent, home=home)


def _parameters(paths: RunPaths) -> dict[str, Any]:
    if not paths.parameters.exists():
        return {}
    import yaml

    return dict(yaml.safe_load(paths.parameters.read_text(encoding="utf-8")) or {})


if __name__ == "__main__":
    sys.exit(main(sys.argv))

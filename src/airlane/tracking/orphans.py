"""Closing the MLflow runs of supervisors that were killed, now or as soon as the tracking server is back.

What is owed is a file in `mlflow/owed/`, written before anything is tried: no closing is lost, any may be repeated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from airlane.errors import StoreError, TrackingError, TrackingRejectedError
from airlane.frozen import frozen
from airlane.store import codec
from airlane.store.disk import SystemDisk, make_private_folder
from airlane.store.paths import Home
from airlane.store.records import Cause
from airlane.store.states import State
from airlane.tracking import server
from airlane.tracking.artifacts import parts
from airlane.tracking.closing import close_run, log_params, upload
from airlane.tracking.login import variables
from airlane.tracking.rest import Mlflow


@frozen
class Orphan:
    """An attempt whose supervisor cannot close its MLflow run any more. `uri` is None for the embedded server's.

    Where the supervisor left no `mlflow_run_id`, the run, if there is one, is found by `experiment_name`, `run_id` and
    `attempt`. `artifacts` maps files to folders within the MLflow run; missing files are passed over.
    """

    mlflow_run_id: str | None
    uri: str | None
    state: State
    cause: Cause
    ended_at: float
    params: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)
    experiment_name: str | None = None
    run_id: str | None = None
    attempt: int | None = None

    @property
    def name(self) -> str:
        return self.mlflow_run_id or f"{self.run_id}.{self.attempt}"


def close_orphan(home: Home, orphan: Orphan, env: Mapping[str, str], *, timeout_s: float = 3.0) -> bool:
    """Close the run if its server answers now; otherwise it stays owed, and `settle` closes it later: False.

    Raises:
        TrackingError: what is owed could not even be written down.
    """
    folder = _folder(home)
    note = folder / f"{orphan.name}.json"
    try:
        make_private_folder(folder)
        SystemDisk().replace(note, codec.encode(orphan))
    except OSError as error:
        raise TrackingError(f"cannot note that the MLflow run of {orphan.name} must be closed: {error}") from error
    uri = orphan.uri
    if uri is None:
        running = server.find(home)
        if running is None:
            return False
        uri, env = running.uri, variables(home)
    try:
        with contextlib.closing(Mlflow(uri, env, timeout_s=timeout_s)) as mlflow:
            _close(mlflow, orphan)
    except TrackingRejectedError:
        note.unlink(missing_ok=True)  # deleted by the user, say: it will never be closed
        return True
    except TrackingError:
        return False
    note.unlink(missing_ok=True)
    return True


def settle(home: Home, mlflow: Mlflow, uri: str | None) -> int:
    """Close the runs that are owed to this server (None: the embedded one); how many.

    Raises:
        TrackingError: the server stopped answering; the rest stays owed.
    """
    closed = 0
    for note in sorted(_folder(home).glob("*.json")):
        orphan = _read(note)
        if orphan is None or orphan.uri != uri:
            continue
        with contextlib.suppress(TrackingRejectedError):
            _close(mlflow, orphan)
        note.unlink(missing_ok=True)
        closed += 1
    return closed


def _close(mlflow: Mlflow, orphan: Orphan) -> None:
    run_id = orphan.mlflow_run_id or _find(mlflow, orphan)
    if run_id is None:
        return
    close_run(mlflow, run_id, state=orphan.state, cause=orphan.cause, ended_at=orphan.ended_at)
    log_params(mlflow, run_id, orphan.params)
    artifact_uri = mlflow.get_run(run_id).artifact_uri
    for file, folder in orphan.artifacts.items():
        for part in parts(Path(file), folder):
            with contextlib.suppress(OSError):  # the run folder was removed meanwhile
                upload(mlflow, artifact_uri, part)


def _find(mlflow: Mlflow, orphan: Orphan) -> str | None:
    experiment = mlflow.find_experiment(orphan.experiment_name) if orphan.experiment_name else None
    if experiment is None:
        return None
    run = mlflow.find_run(experiment.id, {"airlane.run_id": f"{orphan.run_id}", "airlane.attempt": f"{orphan.attempt}"})
    return run.id if run is not None else None


def _read(note: Path) -> Orphan | None:
    try:
        return codec.read(Orphan, note)
    except StoreError:
        return None


def _folder(home: Home) -> Path:
    return home.mlflow / "owed"

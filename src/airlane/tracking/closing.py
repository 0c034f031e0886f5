"""The last words of an attempt's MLflow run: status, tags, parameters, logs. Each step may be repeated."""

from __future__ import annotations

import io
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from airlane.errors import TrackingRejectedError
from airlane.store.records import Cause, LastMetric
from airlane.store.states import State
from airlane.tracking.artifacts import Part, destination
from airlane.tracking.fields import STATUSES, flatten_parameters, outcome_tags
from airlane.tracking.rest import Mlflow, Run

_DESCRIPTION = "mlflow.note.content"


def close_run(mlflow: Mlflow, run_id: str, *, state: State, cause: Cause, ended_at: float) -> None:
    """Give the run its final status, whatever the user's own code made of it, and say why it ended."""
    mlflow.update_run(run_id, STATUSES[state], end_time_ms=int(ended_at * 1000))
    tags = outcome_tags(state, cause)
    if state is not State.SUCCESS and _DESCRIPTION not in mlflow.get_run(run_id).tags:
        tags[_DESCRIPTION] = f"{state}: {cause.summary}"
    mlflow.log_tags(run_id, tags)


def log_params(mlflow: Mlflow, run_id: str, params: Mapping[str, Any]) -> None:
    """Log the workload's parameters that the user's own code did not: MLflow refuses a second value."""
    if not params:
        return
    logged = mlflow.get_run(run_id).params
    flat = flatten_parameters(params)
    mlflow.log_params(run_id, {key: value for key, value in flat.items() if key not in logged})


def last_metric(run: Run) -> LastMetric | None:
    """The last value of the metric that says most: the shortest name with "loss" in it, else the first by name."""
    own = [m for m in run.metrics if not m.key.startswith("system/") and math.isfinite(m.value)]
    if not own:
        return None
    chosen = min(own, key=lambda m: ("loss" not in m.key, len(m.key) if "loss" in m.key else 0, m.key))
    return LastMetric(chosen.key, chosen.value, chosen.step)


def upload(mlflow: Mlflow, artifact_uri: str, part: Part) -> None:
    """Store one part.

    Raises:
        TrackingRejectedError: this experiment's artifacts are out of reach, see artifacts.destination.
        OSError: the file cannot be read.
    """
    content = part.note if part.note is not None else _read(part)
    _upload(mlflow, artifact_uri, part.name, io.BytesIO(content), len(content))


def upload_file(mlflow: Mlflow, artifact_uri: str, name: str, path: Path) -> None:
    """Store a whole file, of whatever size.

    Raises:
        TrackingRejectedError: as `upload`.
        OSError: as `upload`.
    """
    with path.open("rb") as file:
        _upload(mlflow, artifact_uri, name, file, path.stat().st_size)


def _upload(mlflow: Mlflow, artifact_uri: str, name: str, content: BinaryIO, length_bytes: int) -> None:
    where = destination(artifact_uri, mlflow.address)
    if isinstance(where, str):
        mlflow.upload(where, name, content, length_bytes)
        return
    try:
        _store(where / name, content)
    except OSError as error:
        raise TrackingRejectedError(f"{name} was not stored in MLflow: {error}") from error


def _read(part: Part) -> bytes:
    with part.path.open("rb") as file:
        file.seek(part.start)
        return file.read(part.length_bytes)


def _store(path: Path, content: BinaryIO) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.part")
    with scratch.open("wb") as file:
        shutil.copyfileobj(content, file)
    scratch.replace(path)

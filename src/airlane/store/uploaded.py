"""What became of the metrics that a run kept in its folder, because its node did not reach the home's MLflow server."""

from __future__ import annotations

import os
from dataclasses import replace

from airlane.frozen import frozen
from airlane.store import codec
from airlane.store.disk import SystemDisk, make_private_folder
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Attempt, Status


@frozen
class UploadedAttempt:
    """The MLflow run that an attempt became."""

    number: int
    mlflow_run_id: str
    mlflow_url: str


@frozen
class Uploaded:
    """uploaded.json: written once, when all is uploaded. `error` says what could not be.

    `stores_left` are the folders under tracking/ that stay: they hold what only MLflow's own tools can carry over.
    """

    attempts: tuple[UploadedAttempt, ...]
    uploaded_at: float
    error: str | None = None
    stores_left: tuple[str, ...] = ()


def with_uploaded(status: Status | None, paths: RunPaths) -> Status | None:
    """The status of a run with the MLflow runs that its attempts have by now."""
    if status is None or not any(map(_kept, status.attempts)):
        return status
    uploaded = codec.read(Uploaded, paths.uploaded)
    if uploaded is None:
        return status
    found = {each.number: each for each in uploaded.attempts}
    attempts = tuple(
        replace(attempt, mlflow_run_id=found[attempt.number].mlflow_run_id, mlflow_url=found[attempt.number].mlflow_url)
        if attempt.number in found
        else attempt
        for attempt in status.attempts
    )
    return replace(status, attempts=attempts, tracking_error=uploaded.error)


@frozen
class KeptNote:
    """That a run has something to upload. `folder` is relative to the home, which may be mounted elsewhere."""

    folder: str


def note_kept(home: Home, run: RunPaths) -> None:
    """Let whoever looks for something to upload find this run. Raises OSError."""
    make_private_folder(home.kept)
    SystemDisk().replace(home.kept / run.id, codec.encode(KeptNote(str(run.root.relative_to(home.root)))))


def upload_waits(home: Home) -> bool:
    """Whether some run has something to upload; costs microseconds."""
    try:
        with os.scandir(home.kept) as entries:
            return any(not entry.name.startswith(".") for entry in entries)
    except OSError:
        return False


def _kept(attempt: Attempt) -> bool:
    """An MLflow run without a page was made where nobody else can see it."""
    return attempt.mlflow_run_id is not None and attempt.mlflow_url is None

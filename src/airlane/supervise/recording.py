"""What an attempt looks like in MLflow, and the files that are kept with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airlane.store.paths import RunPaths
from airlane.store.records import Attempt, RunRecord
from airlane.tracking.fields import attempt_tags
from airlane.tracking.tracker import AttemptInfo, AttemptOutcome


def attempt_info(record: RunRecord, paths: RunPaths, attempt: Attempt, params: dict[str, Any]) -> AttemptInfo:
    """The MLflow run of an attempt, as it starts."""
    return AttemptInfo(
        run_id=record.id,
        attempt=attempt.number,
        experiment_name=record.experiment_name,
        run_name=record.mlflow_run_name or record.experiment_name,
        started_at=attempt.started_at,
        artifact_location=record.mlflow_artifact_location,
        tags=attempt_tags(record, attempt.number),
        params=params,
        artifacts=_present([(paths.workload, "airlane"), (paths.diff, "airlane")]),
    )


def attempt_outcome(record: RunRecord, paths: RunPaths, attempt: Attempt) -> AttemptOutcome:
    """The end of an attempt, with the files that MLflow keeps of it."""
    if attempt.state is None or attempt.cause is None or attempt.ended_at is None:
        raise AssertionError(f"attempt {attempt.number} has not ended")
    artifacts = attempt_logs(record, paths, attempt.number)
    return AttemptOutcome(state=attempt.state, cause=attempt.cause, ended_at=attempt.ended_at, artifacts=artifacts)


def attempt_logs(record: RunRecord, paths: RunPaths, attempt: int) -> tuple[tuple[Path, str], ...]:
    """The logs of an attempt that are there, each with its folder in MLflow."""
    logs = [(paths.log(attempt=attempt, node=node), f"logs/node_{node}") for node in range(record.nodes)]
    return _present([*logs, (paths.setup_log(attempt), "logs")])


def _present(files: list[tuple[Path, str]]) -> tuple[tuple[Path, str], ...]:
    return tuple((path, folder) for path, folder in files if path.exists())

"""What an attempt looks like in MLflow: names, tags, and the files kept with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airlane.store.paths import RunPaths
from airlane.store.records import Attempt, RunRecord
from airlane.tracking.tracker import AttemptInfo, AttemptOutcome


def attempt_info(record: RunRecord, paths: RunPaths, attempt: Attempt, params: dict[str, Any]) -> AttemptInfo:
    """The MLflow run of an attempt, as it starts."""
    tags = {
        "airlane.run_id": record.id,
        "airlane.attempt": str(attempt.number),
        "airlane.backend": record.backend,
        "airlane.accelerators": f"{record.accelerators} x {record.accelerator_type}",
        "airlane.nodes": str(record.nodes),
        "airlane.environment": record.environment.base,
        "airlane.run_folder": str(paths.root),
        "mlflow.user": record.user,
        "mlflow.source.name": record.workload_file,
        "mlflow.source.type": "LOCAL",
        **_git_tags(record),
    }
    if record.rerun_of is not None:
        tags["airlane.rerun_of"] = record.rerun_of
    return AttemptInfo(
        run_id=record.id,
        attempt=attempt.number,
        experiment_name=record.experiment_name,
        run_name=record.mlflow_run_name or record.experiment_name,
        artifact_location=record.mlflow_artifact_location,
        tags=tags,
        params=params,
        started_at=attempt.started_at,
    )


def attempt_outcome(record: RunRecord, paths: RunPaths, attempt: Attempt) -> AttemptOutcome:
    """The end of an attempt, with the files that MLflow keeps of it."""
    if attempt.state is None or attempt.cause is None or attempt.ended_at is None:
        raise AssertionError(f"attempt {attempt.number} has not ended")
    logs = [(paths.log(attempt=attempt.number, node=node), f"logs/node_{node}") for node in range(record.nodes)]
    files: list[tuple[Path, str]] = [
        *logs,
        (paths.setup_log(attempt.number), "logs"),
        (paths.workload, "airlane"),
        (paths.diff, "airlane"),
    ]
    return AttemptOutcome(
        state=attempt.state,
        cause=attempt.cause,
        ended_at=attempt.ended_at,
        artifacts=tuple((path, folder) for path, folder in files if path.exists()),
    )


def _git_tags(record: RunRecord) -> dict[str, str]:
    snapshot = record.snapshot
    if snapshot is None:
        return {}
    tags = {"airlane.snapshot": snapshot.digest}
    git = snapshot.git
    if git is None:
        return tags
    named = {
        "mlflow.source.git.commit": git.commit,
        "mlflow.source.git.branch": git.branch,
        "mlflow.source.git.repoURL": git.remote_url,
        "airlane.git.dirty": "true" if git.dirty else "false",
    }
    return tags | {key: value for key, value in named.items() if value is not None}

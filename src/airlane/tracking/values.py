"""What the supervisor tells tracking about an attempt, and what it gets back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from airlane.frozen import frozen
from airlane.store.records import Cause
from airlane.store.states import State


@frozen
class AttemptInfo:
    """An attempt that starts. Times are seconds since the epoch.

    `params` are the workload's parameters, nested or not. They are logged when the attempt ends, and only those that
    the user's own code did not log: MLflow refuses a second value for a parameter, and if ours came first, that
    refusal would stop the user's code. `artifacts` are (file, folder
    within the MLflow run) and go up at once.
    """

    run_id: str
    attempt: int
    experiment_name: str
    run_name: str
    started_at: float
    artifact_location: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    artifacts: tuple[tuple[Path, str], ...] = ()


@frozen
class TrackedRun:
    """The MLflow run of an attempt: `uri` is for the command's MLFLOW_TRACKING_URI, `url` is the page for people.

    `uri` holds credentials where the user's own URI does; `url` never does, and is None where no server that stays has
    the run. `login_file` holds the variables that sign the command in, in the form of a secrets file.
    """

    experiment_id: str
    run_id: str
    uri: str
    url: str | None
    login_file: str | None = None


@frozen
class AttemptOutcome:
    """An attempt that ended. `artifacts` are (file, folder within the MLflow run); missing files are passed over."""

    state: State
    cause: Cause
    ended_at: float
    artifacts: tuple[tuple[Path, str], ...] = ()

"""What an attempt looks like in MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from airlane.store.paths import RunPaths
from airlane.store.records import Attempt, Cause, CauseKind, EnvironmentRecord, RunRecord
from airlane.store.states import State
from airlane.supervise.recording import attempt_info, attempt_logs, attempt_outcome

from .made_nodes import LIMITS

RECORD = RunRecord(
    "7k2m9q4d", "sft", "me", 1.0, "w.yaml", "local", None, 2, 2, 1, "CPU_1xCORE", simulate=False,
    limits=LIMITS, environment=EnvironmentRecord("host", (), "3.11", None),
    mlflow_run_name="first try", mlflow_artifact_location="s3://b",
)  # fmt: skip


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    made = RunPaths(tmp_path / "a 'run' ü\n")
    made.nodes(1).mkdir(parents=True)
    return made


def test_an_attempt_begins_with_its_names_parameters_and_files_that_are_there(paths: RunPaths) -> None:
    paths.workload.touch()
    info = attempt_info(RECORD, paths, Attempt(1, 5.0), {"lr": 0.1})
    assert (info.run_id, info.attempt, info.experiment_name, info.run_name) == ("7k2m9q4d", 1, "sft", "first try")
    assert (info.started_at, info.params, info.artifact_location) == (5.0, {"lr": 0.1}, "s3://b")
    assert info.artifacts == ((paths.workload, "airlane"),)
    paths.diff.touch()
    assert attempt_info(RECORD, paths, Attempt(1, 5.0), {}).artifacts[1] == (paths.diff, "airlane")


def test_an_attempt_ends_with_the_logs_that_are_there(paths: RunPaths) -> None:
    paths.log(attempt=1, node=1).touch()
    paths.log(attempt=1, node=0).touch()
    paths.log(attempt=1, node=7).touch()  # not a node of this run
    cause = Cause(CauseKind.EXIT_CODE, "node 0 exited with code 1")
    outcome = attempt_outcome(RECORD, paths, Attempt(1, 5.0, 9.0, State.FAILED, cause))
    assert (outcome.state, outcome.cause, outcome.ended_at) == (State.FAILED, cause, 9.0)
    logs = tuple((paths.log(attempt=1, node=node), f"logs/node_{node}") for node in range(2))
    assert outcome.artifacts == logs
    paths.setup_log(1).touch()
    assert attempt_logs(RECORD, paths, 1) == (*logs, (paths.setup_log(1), "logs"))
    assert attempt_logs(RECORD, paths, 0) == ()


def test_an_attempt_that_has_not_ended_has_no_outcome(paths: RunPaths) -> None:
    with pytest.raises(AssertionError, match="attempt 1 has not ended"):
        attempt_outcome(RECORD, paths, Attempt(1, 5.0))

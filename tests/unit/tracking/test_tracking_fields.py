from __future__ import annotations

import posixpath

from hypothesis import given
from hypothesis import strategies as st

from airlane.store.records import Cause, CauseKind, EnvironmentRecord, GitState, Limits, RunRecord, SnapshotRecord
from airlane.store.states import State
from airlane.tracking.fields import STATUSES, attempt_tags, fit_param, fit_tag, flatten_parameters, outcome_tags

RUN = RunRecord(
    id="7k2m9q4d",
    experiment_name="e",
    user="ann",
    submitted_at=1.0,
    workload_file="/home/ann/train.yaml",
    backend="local",
    profile=None,
    nodes=2,
    accelerators=4,
    accelerators_per_node=2,
    accelerator_type="CPU_2xCORE",
    simulate=False,
    limits=Limits(3, None, 30.0, 300.0),
    environment=EnvironmentRecord("AI5", (), "3.11", "51ac03"),
    snapshot=SnapshotRecord("a1f3", "code", 3, 10, GitState("4be2d10", None, "https://git.example/x", True, 3)),
)


def test_attempts_of_a_run_are_linked_and_its_commit_is_shown() -> None:
    tags = attempt_tags(RUN, 1)
    assert tags["airlane.run_id"] == "7k2m9q4d"
    assert tags["airlane.attempt"] == "1"
    assert tags["mlflow.user"] == "ann"
    assert tags["mlflow.source.git.commit"] == "4be2d10"
    assert tags["airlane.git.dirty"] == "true"
    assert "mlflow.source.git.branch" not in tags, "a detached head has no branch"
    assert "airlane.profile" not in tags


def test_the_cause_becomes_tags() -> None:
    cause = Cause(CauseKind.SIGNAL, "node 1 was killed", node=1, host="gpu-b17", signal="SIGKILL")
    assert outcome_tags(State.FAILED, cause) == {
        "airlane.state": "FAILED",
        "airlane.cause": "node 1 was killed",
        "airlane.cause.kind": "signal",
        "airlane.cause.node": "1",
        "airlane.cause.host": "gpu-b17",
        "airlane.cause.signal": "SIGKILL",
    }


def test_every_terminal_state_has_a_status_in_mlflow() -> None:
    assert set(STATUSES) == {state for state in State if state.terminal}


def test_parameters_are_flattened_with_dots() -> None:
    parameters = {"optim": {"lr": 1e-3, "betas": [0.9, 0.95]}, "name": "a b", "on": True, "none": None, "empty": {}}
    assert flatten_parameters(parameters) == {
        "optim.lr": "0.001",
        "optim.betas": "[0.9, 0.95]",
        "name": "a b",
        "on": "true",
        "none": "null",
        "empty": "{}",
    }


def test_parameters_whose_names_become_equal_stay_apart() -> None:
    assert flatten_parameters({"a": {"b": 1}, "a.b": 2, "x*": 3, "x+": 4}) == {
        "a.b": "1",
        "a.b_": "2",
        "x_": "3",
        "x__": "4",
    }


def test_what_is_too_long_is_cut_visibly() -> None:
    key, value = fit_param(("k" * 300, "v" * 7000))
    assert (len(key), len(value), value[-3:]) == (250, 6000, "...")
    assert len(fit_tag(("k", "v" * 9000))[1]) == 5000


@given(st.text(max_size=300))
def test_any_key_becomes_one_that_mlflow_takes(key: str) -> None:
    fitted = fit_param((key, ""))[0]
    assert 0 < len(fitted) <= 250
    assert posixpath.normpath(fitted) == fitted
    assert fitted != "."
    assert not fitted.startswith(("..", "/"))

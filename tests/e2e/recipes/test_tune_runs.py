"""A search as its first lines tell a newcomer to run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Recipes, assert_generates


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_file_runs_as_it_is(recipes: Recipes, python: Path) -> None:
    lines = recipes.watch("recipes/tune/train.yaml", timeout_s=1700)
    run_id = recipes.view("@last")["run_id"]
    folder = recipes.checkpoints(run_id)
    trials = json.loads((folder / "trials.json").read_text(encoding="utf-8"))
    assert len(trials) == 6
    assert {trial["status"] for trial in trials} <= {"completed", "pruned"}
    assert trials[0]["best"]
    assert any(line.startswith("train with these settings: python -m recipes.sft ") for line in lines)
    assert_generates(python, folder / "model")
    run = recipes.tracked(run_id, "runs/get")["run"]
    params = {param["key"]: param["value"] for param in run["data"]["params"]}
    assert params["best.trial"] == str(trials[0]["number"])
    children = [recipes.tracked(run_id, "runs/get", run_id=trial["mlflow_run"])["run"]["info"] for trial in trials]
    assert {child["status"] for child in children} == {"FINISHED"}

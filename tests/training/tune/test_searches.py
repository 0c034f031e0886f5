"""Whole searches on a Ray cluster, as a user sees them: stopped, broken off, taken up again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Run
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # of MLflow, where it reads a file
SMALL = (
    "data.limit=300", "data.pack_tokens=256", "data.max_tokens=256", "data.packs=2", "training.log_every=5",
    "architecture.layers=1", "architecture.hidden=32", "architecture.vocabulary=400", "cluster.workers=2",
    "training.steps=64", "tune.evaluations=4",
)  # fmt: skip
OPEN = {"RAY_AUTH_MODE": "disabled"}  # no token to hand on
MARK = f"SEARCHES_OF_{os.getpid()}"  # a variable of all processes of the cluster
NAN = "1e+30"  # a learning rate with which the second step is no number any more


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray of the tests' own, with two CPUs; a process that holds it open ends it."""
    script = (
        "import ray, sys; ray.init(address='local', num_cpus=2, include_dashboard=False, logging_level='error');"
        "print(ray.get_runtime_context().gcs_address, flush=True); sys.stdin.read()"
    )
    with (tmp_path_factory.mktemp("ray") / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            env={**os.environ, **OPEN, MARK: "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


class Search:
    """One attempt of a search, in a process of its own; MLflow is a file."""

    def __init__(self, address: str, folder: Path, *words: str) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIR_", "MLFLOW_", "RAY_"))}
        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        self.client = mlflow.MlflowClient()
        known = self.client.get_experiment_by_name("searches")
        made = known.experiment_id if known else None
        self.experiment = made or self.client.create_experiment("searches", artifact_location=str(folder / "artifacts"))
        self.run: Run = self.client.create_run(self.experiment)
        environment = kept | {
            "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "RAY_ADDRESS": address, **OPEN,
            "AIR_CHECKPOINT_DIR": str(folder), "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
            "MLFLOW_RUN_ID": self.run.info.run_id, "XDG_CACHE_HOME": str(folder / "cache"),
        }  # fmt: skip
        self.output = folder / f"output-{self.run.info.run_id}"
        command = [sys.executable, "-m", "recipes.tune", *SMALL, *words]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, cwd=folder)

    def wait(self) -> int:
        return self.process.wait(240)

    @property
    def text(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def wait_for(self, pattern: str) -> None:
        deadline = time.monotonic() + 200
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline, self.text
            assert self.process.poll() is None, self.text
            time.sleep(0.05)

    @property
    def children(self) -> dict[str, Run]:
        """The MLflow runs of its trials, by their names."""
        found = self.client.search_runs([self.experiment], f"tags.mlflow.parentRunId = '{self.run.info.run_id}'")
        return {run.info.run_name: run for run in found}

    @property
    def results(self) -> dict[int, dict[str, Any]]:
        """What the report says of each trial."""
        return {one["number"]: one for one in json.loads((self.folder / "trials.json").read_text(encoding="utf-8"))}


@pytest.mark.timeout(900)
def test_a_search_that_is_stopped_goes_on_and_gives_the_model_that_evaluates_best(cluster: str, tmp_path: Path) -> None:
    words = [f"search.optimizer.learning_rate=[{NAN}, 1e-3, 2e-2]"]
    first = Search(cluster, tmp_path, *words)
    first.wait_for(r"trial 1/3  failed: The loss is no finite number in step 2\. Its batch: \w")
    first.wait_for(r"step 16/64")
    first.process.send_signal(signal.SIGTERM)
    assert first.wait() == 143, first.text
    assert "asked to end (SIGTERM): trials save after this step" in first.text
    assert "Traceback" not in first.text
    before = first.results
    assert {one["status"] for one in before.values()} >= {"failed", "stopped"}
    assert not (tmp_path / "model").exists()
    statuses = {name: run.info.status for name, run in first.children.items()}
    assert statuses["trial 1"] == "FAILED"
    assert "RUNNING" not in statuses.values()

    second = Search(cluster, tmp_path, *words)
    assert second.wait() == 0, second.text
    assert "of them ended in an earlier attempt" in second.text
    assert "trial 1/3  " not in second.text
    assert re.search(r"trial \d/3  continuing after step (\d+)", second.text)
    results = second.results
    completed = {number: one for number, one in results.items() if one["status"] == "completed"}
    best = min(completed, key=lambda number: completed[number]["loss"])
    assert [number for number, one in results.items() if one["best"]] == [best]
    for number, one in before.items():
        assert results[number]["evaluations"][: len(one["evaluations"])] == one["evaluations"]
    assert [one["number"] for one in results[best]["evaluations"]] == [1, 2, 3, 4]
    assert f"optimizer.learning_rate={results[best]['settings']['optimizer.learning_rate']}" in second.text
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "model").config.hidden_size == 32
    assert {file.name for folder in (tmp_path / "trials").iterdir() for file in folder.iterdir()} == {"trial.json"}

    parent = second.client.get_run(second.run.info.run_id)
    assert parent.data.params["best.trial"] == str(best)
    assert parent.data.params["search.optimizer.learning_rate"] == "[1e+30, 0.001, 0.02]"
    assert parent.data.metrics["eval/loss"] == pytest.approx(results[best]["loss"])
    files = {file.path for file in second.client.list_artifacts(second.run.info.run_id)}
    assert files == {"trials.md", "trials.json", "trials.png"}
    child = second.children[f"trial {best}"]
    assert child.info.status == "FINISHED"
    assert child.data.tags["mlflow.note.content"].startswith("optimizer.learning_rate=")
    history = second.client.get_metric_history(child.info.run_id, "eval/loss")
    assert sorted(point.step for point in history) == [16, 32, 48, 64]
    assert "train/loss" in child.data.metrics


@pytest.mark.long
@pytest.mark.timeout(600)
def test_when_every_trial_fails_the_search_fails_and_says_why(cluster: str, tmp_path: Path) -> None:
    search = Search(cluster, tmp_path, f"search.optimizer.learning_rate=[{NAN}, 1e31]", "cluster.workers=1")
    assert search.wait() == 1, search.text
    assert search.text.count("failed: The loss is no finite number in step 2. Its batch: ") == 2
    assert "no trial came to its end" in search.text
    assert {run.info.status for run in search.children.values()} == {"FAILED"}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_workers_and_a_killed_driver_cost_no_trial_and_change_no_loss(cluster: str, tmp_path: Path) -> None:
    words = ["search.optimizer.learning_rate=[1e-3, 3e-3]", "tune.grace=3", "checkpoints.every=8", "tune.keep=all"]
    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
    whole = Search(cluster, tmp_path / "whole", *words)
    assert whole.wait() == 0, whole.text

    first = Search(cluster, tmp_path / "broken", *words)
    first.wait_for(r"step 16/64")
    os.kill(a_worker(), signal.SIGKILL)
    first.wait_for("again, its worker was lost")
    first.wait_for(r"step 48/64")
    first.process.kill()
    first.wait()
    second = Search(cluster, tmp_path / "broken", *words)
    assert second.wait() == 0, second.text
    for number in (1, 2):
        found, expected = (search.results[number]["evaluations"] for search in (second, whole))
        common = min(len(found), len(expected))  # who comes first to an evaluation decides whom ASHA ends there
        assert common >= 3
        assert found[:common] == expected[:common]


def a_worker() -> int:
    """A process of the cluster that trains."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                variables, line = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"{MARK}=1".encode() in variables.split(b"\0") and line.startswith(b"ray::ImplicitFunc"):
                return int(entry.name)
    raise AssertionError("no worker trains")

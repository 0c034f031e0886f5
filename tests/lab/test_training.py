"""Trainings on two nodes of the lab: the example, bare and in the image that images/ builds for it, and a recipe."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from house.repository import ROOT
from lab.cluster import Lab
from lab.contained_runs import containers_of, temporary_folders
from lab.docker_engine import DockerEngine
from lab.ray_runs import RayRuns
from lab.slurm_runs import SlurmRuns, ends_of, wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]

EXAMPLE = ROOT / "examples" / "ray-train" / "train.yaml"
RECIPE = ROOT / "recipes" / "sft" / "train.yaml"
FEWER_STEPS = ("parameters.training.steps=40", "parameters.training.eval_every=20", "parameters.data.limit=2000")
BUILD = [sys.executable, str(ROOT / "images" / "build.py"), "ray-cpu", "--base", "debootstrap"]


@pytest.fixture(scope="session")
def ray_cpu() -> Path:
    """The image's archive, built unless an earlier session left it."""
    digest = subprocess.run([*BUILD, "--digest"], check=True, capture_output=True, text=True).stdout.strip()
    archive = Path("~/.cache/airlane-tests").expanduser() / f"ray-cpu-{digest}.tar.gz"
    if not archive.exists():
        subprocess.run([*BUILD, "--archive", str(archive)], check=True)
    return archive


def trained(runs: SlurmRuns, *changes: str, file: Path = EXAMPLE) -> str:
    """The id of a run that has learned, on two nodes of two cores each."""
    changes = ("compute.num_accelerators=4", *changes)
    done = runs.air("run", "-p", "lab", "-f", file, "--watch", "--override", *changes, timeout_s=2000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": 2 nodes, 4 CPUs" in done.stdout
    losses = [float(loss) for loss in re.findall(r"^step +\d+/\d+  loss ([\d.]+)", done.stdout, re.MULTILINE)]
    assert losses[-1] < losses[0]
    run = str(runs.facts("@last")["run_id"])
    assert runs.ended(run, within_s=30)["status"] == "SUCCESS"
    assert temporary_folders(run) == []
    return run


def test_the_training_example_learns_in_an_environment(lab: Lab, ray_folder: Path) -> None:
    trained(RayRuns(lab, ray_folder))


def test_the_training_example_learns_in_containers_from_an_archive(
    lab: Lab, tmp_path: Path, engines: dict[str, DockerEngine], ray_cpu: Path
) -> None:
    runs = SlurmRuns(lab, tmp_path)
    runs.profile("lab", silence_s=30, container="docker")
    image = f"environment.docker_image.url={ray_cpu}"
    run = trained(runs, "environment.version=null", "environment.dependencies=null", image)
    assert runs.facts(run)["image"]["runtime"] == "docker"
    assert containers_of(run, engines) == []


def test_the_recipe_learns_on_four_workers_and_leaves_its_model(lab: Lab, ray_folder: Path) -> None:
    runs = RayRuns(lab, ray_folder)
    run = trained(runs, *FEWER_STEPS, file=RECIPE)
    checkpoints = runs.paths(run).checkpoints
    summary = json.loads((checkpoints / "checkpoints" / "summary.json").read_text(encoding="utf-8"))
    assert (summary["reason"], summary["step"], summary["workers"]) == ("completed", 40, 4)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        file.name for file in (checkpoints / "model").iterdir()
    }


def test_the_recipe_goes_on_from_its_last_checkpoint_when_its_job_is_requeued(lab: Lab, ray_folder: Path) -> None:
    # This Slurm (proctrack/linuxproc) signals Ray's processes, too: nothing can be saved any more.
    runs = RayRuns(lab, ray_folder)
    words = (*FEWER_STEPS, "parameters.training.log_every=1", "parameters.checkpoints.every=5")
    changes = ("compute.num_accelerators=4", *words)
    done = runs.air("run", "-p", "lab", "-f", RECIPE, "--json", "--override", *changes, timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    run = str(json.loads(done.stdout)["data"]["run_id"])
    history = runs.paths(run).checkpoints / "checkpoints" / "history.jsonl"

    def told(kind: str) -> list[int]:
        lines = history.read_text(encoding="utf-8").splitlines(keepends=True) if history.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith("\n")]
        return [entry["facts"]["step"] for entry in entries if entry["kind"] == kind]

    wait_until(lambda: len(told("step")) >= 14, within_s=300, what="the training is under way")
    lab.run(["scontrol", "requeue", runs.job(run)])
    assert runs.ended(run, within_s=600)["status"] == "SUCCESS"
    assert [end for _, end in ends_of(runs.facts(run))] == ["preempted", "completed"]
    (resumed,) = told("resumed")
    assert resumed in range(10, 40, 5)
    assert told("step") == list(range(1, 41))

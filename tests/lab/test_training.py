"""The training example on two nodes of the lab: bare, and in the image that images/ builds for it."""

from __future__ import annotations

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
from lab.slurm_runs import SlurmRuns

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]

EXAMPLE = ROOT / "examples" / "ray-train" / "train.yaml"
BUILD = [sys.executable, str(ROOT / "images" / "build.py"), "ray-cpu", "--base", "debootstrap"]


@pytest.fixture(scope="session")
def ray_cpu() -> Path:
    """The image's archive, built unless an earlier session left it."""
    digest = subprocess.run([*BUILD, "--digest"], check=True, capture_output=True, text=True).stdout.strip()
    archive = Path("~/.cache/airlane-tests").expanduser() / f"ray-cpu-{digest}.tar.gz"
    if not archive.exists():
        subprocess.run([*BUILD, "--archive", str(archive)], check=True)
    return archive


def trained(runs: SlurmRuns, *changes: str) -> str:
    """The id of a run of the example that has learned, on two nodes of two cores each."""
    changes = ("compute.num_accelerators=4", *changes)
    done = runs.air("run", "-p", "lab", "-f", EXAMPLE, "--watch", "--override", *changes, timeout_s=2000)
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

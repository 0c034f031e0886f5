"""Runs in containers on the lab's real Slurm, with a Docker engine of its own on each node."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lab.cluster import Lab
from lab.docker_engine import DockerEngine
from lab.processes import PROC
from lab.slurm_runs import SlurmRuns, wait_until

pytestmark = pytest.mark.timeout(600)

GONE_WITHIN_S = 15
STUBBORN = 'trap "" TERM; (trap "" TERM; setsid sleep 1000) & echo up; sleep 1000'


@pytest.fixture
def runs(lab: Lab, engines: dict[str, DockerEngine], tmp_path: Path) -> SlurmRuns:  # noqa: ARG001 - they are to run
    made = SlurmRuns(lab, tmp_path)
    made.profile("lab", container="docker")
    return made


@pytest.fixture
def image(small_image: Path) -> dict[str, object]:
    return {"docker_image": {"url": str(small_image)}}


def left(engines: dict[str, DockerEngine], run_id: str) -> list[str]:
    """The containers of a run that are still there, on any node whose engine answers."""
    listed = [engine.docker("ps", "--all", "--format", "{{.Names}}", check=False) for engine in engines.values()]
    return [name for names in listed for name in names.split() if run_id in name]


def inside(run_id: str) -> list[str]:
    """What runs in the containers of a run, on all machines of the lab."""
    found = []
    for entry in PROC.iterdir():
        try:
            if entry.name.isdecimal() and f"AIR_RUN_ID={run_id}" in (entry / "environ").read_text(errors="replace"):
                found.append(entry.name)
        except OSError:
            continue
    return found


def gone(engines: dict[str, DockerEngine], run_id: str) -> None:
    since = time.monotonic()
    wait_until(lambda: not inside(run_id), within_s=GONE_WITHIN_S, what=lambda: "the processes are gone")
    wait_until(lambda: not left(engines, run_id), within_s=GONE_WITHIN_S, what=lambda: "the containers are gone")
    assert time.monotonic() - since < GONE_WITHIN_S


def test_a_sigkill_of_the_whole_job_ends_the_containers(
    runs: SlurmRuns, engines: dict[str, DockerEngine], image: dict[str, object]
) -> None:
    run_id = runs.submit(STUBBORN, environment=image)
    runs.await_log(run_id, "up", within_s=60)
    # Batch script, srun, agents and clients at once; the containers are children of the engines and hear nothing.
    runs.lab.run(["scancel", "--signal=KILL", "--full", str(runs.job(run_id))])
    gone(engines, run_id)
    assert runs.ended(run_id, within_s=120)["status"] in ("FAILED", "CANCELED")


@pytest.mark.long
def test_the_time_limit_ends_the_containers(
    runs: SlurmRuns, engines: dict[str, DockerEngine], image: dict[str, object]
) -> None:
    run_id = runs.submit(STUBBORN, environment=image, timeout_minutes=1)
    runs.await_log(run_id, "up", within_s=60)
    assert runs.ended(run_id, within_s=150)["status"] == "TIMEDOUT"
    gone(engines, run_id)


def test_a_runtime_that_the_nodes_do_not_have_is_named(runs: SlurmRuns) -> None:
    runs.profile("lab", container="apptainer")
    facts = runs.ended(runs.submit("true", environment={"docker_image": {"url": "a/b:1"}}), within_s=90)
    assert facts["cause"]["kind"] == "setup"
    assert "apptainer is not installed on" in facts["cause"]["summary"]

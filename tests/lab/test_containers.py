"""Runs in containers on the lab's real Slurm, with a Docker engine of its own on each node."""

from __future__ import annotations

import json
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


def test_a_run_of_two_nodes_is_in_two_containers(
    runs: SlurmRuns, engines: dict[str, DockerEngine], image: dict[str, object]
) -> None:
    program = "import os, sys; print('node', os.environ['NODE_RANK'], 'prefix', sys.prefix)"
    command = f'python3 -c "{program}"; touch "$AIR_CHECKPOINT_DIR/from-$NODE_RANK"; cat /proc/1/comm'
    run_id = runs.submit(command, environment=image)
    facts = runs.ended(run_id, within_s=90)
    assert facts["status"] == "SUCCESS", facts["cause"]
    assert facts["image"]["runtime"] == "docker"
    for node in (0, 1):
        assert f"node {node} prefix /usr\nbash\n" in runs.log(run_id, node=node)
        assert "[airlane] loading" in runs.log(run_id, node=node), "each engine has to get the image"
        record = json.loads(runs.paths(run_id).node_record(attempt=0, node=node).read_text())
        assert record["containment"] == "docker"
    assert sorted(path.name for path in runs.paths(run_id).checkpoints.iterdir()) == ["from-0", "from-1"]
    gone(engines, run_id)
    again = runs.submit("true", environment=image)
    assert runs.ended(again, within_s=60)["status"] == "SUCCESS"
    assert "loading" not in runs.log(again)


def test_one_node_that_fails_ends_the_containers_of_all(
    runs: SlurmRuns, engines: dict[str, DockerEngine], image: dict[str, object]
) -> None:
    run_id = runs.submit('echo up; [ "$NODE_RANK" = 0 ] || exit 7; sleep 1000', environment=image)
    facts = runs.ended(run_id, within_s=90)
    assert (facts["cause"]["node"], facts["cause"]["exit_code"]) == (1, 7)
    gone(engines, run_id)


def test_a_cancel_ends_the_containers(
    runs: SlurmRuns, engines: dict[str, DockerEngine], image: dict[str, object]
) -> None:
    run_id = runs.submit(STUBBORN, environment=image)
    runs.await_log(run_id, "up", within_s=60)
    assert len(left(engines, run_id)) == 2
    assert runs.air("cancel", run_id, "-p", "lab", "--yes").returncode == 0
    assert runs.ended(run_id, within_s=60)["status"] == "CANCELED"
    gone(engines, run_id)


def test_scancel_by_someone_else_ends_the_containers(
    runs: SlurmRuns, engines: dict[str, DockerEngine], image: dict[str, object]
) -> None:
    run_id = runs.submit(STUBBORN, environment=image)
    runs.await_log(run_id, "up", within_s=60)
    runs.lab.run(["scancel", str(runs.job(run_id))])
    assert runs.ended(run_id, within_s=90)["status"] == "CANCELED"
    gone(engines, run_id)


def test_a_sigkill_of_the_whole_job_ends_the_containers(
    runs: SlurmRuns, engines: dict[str, DockerEngine], image: dict[str, object]
) -> None:
    run_id = runs.submit(STUBBORN, environment=image)
    runs.await_log(run_id, "up", within_s=60)
    # Batch script, srun, agents and clients at once; the containers are children of the engines and hear nothing.
    runs.lab.run(["scancel", "--signal=KILL", "--full", str(runs.job(run_id))])
    gone(engines, run_id)
    assert runs.ended(run_id, within_s=120)["status"] in ("FAILED", "CANCELED")


def test_a_container_that_is_killed_is_the_cause(
    runs: SlurmRuns, engines: dict[str, DockerEngine], image: dict[str, object]
) -> None:
    run_id = runs.submit(STUBBORN, environment=image)
    runs.await_log(run_id, "up", within_s=60)
    host = runs.hosts(run_id)[1]
    engines[host].docker("kill", f"air-{run_id}-0-1")
    facts = runs.ended(run_id, within_s=90)
    assert (facts["status"], facts["cause"]["node"], facts["cause"]["signal"]) == ("FAILED", 1, "SIGKILL")
    gone(engines, run_id)


def test_the_time_limit_ends_the_containers(
    runs: SlurmRuns, engines: dict[str, DockerEngine], image: dict[str, object]
) -> None:
    run_id = runs.submit(STUBBORN, environment=image, timeout_minutes=1)
    runs.await_log(run_id, "up", within_s=60)
    assert runs.ended(run_id, within_s=150)["status"] == "TIMEDOUT"
    gone(engines, run_id)


def test_an_image_that_cannot_be_pulled_is_told_soon(runs: SlurmRuns) -> None:
    # Nothing listens on the discard port of a node.
    run_id = runs.submit("true", environment={"docker_image": {"url": "127.0.0.1:9/none/such:1"}})
    facts = runs.ended(run_id, within_s=90)
    assert facts["cause"]["kind"] == "setup"
    assert "the image 127.0.0.1:9/none/such:1 could not be pulled" in facts["cause"]["summary"]
    assert len(facts["attempts"]) == 1


def test_a_runtime_that_the_nodes_do_not_have_is_named(runs: SlurmRuns) -> None:
    runs.profile("lab", container="apptainer")
    facts = runs.ended(runs.submit("true", environment={"docker_image": {"url": "a/b:1"}}), within_s=90)
    assert facts["cause"]["kind"] == "setup"
    assert "apptainer is not installed on" in facts["cause"]["summary"]

"""Parts of a run's Ray cluster on Slurm are killed, bare and in containers: what is named, and the attempt after it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Lab
from lab.contained_runs import containers_of, pids_with, temporary_folders
from lab.docker_engine import DockerEngine
from lab.ray_runs import BOXED, RayRuns
from lab.slurm_runs import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

READY_WITHIN_S = 180
NOTICED_WITHIN_S = 20
# Waits in the attempts before the last; that one counts the nodes on which its tasks ran.
PROGRAM = """
if [ "$AIR_ATTEMPT" -lt {failures} ]; then echo begun; exec sleep 1000; fi
python - <<'END'
import time
import ray
ray.init(logging_level="error")

@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def place():
    time.sleep(0.5)
    return ray.get_runtime_context().get_node_id()

print("ran on", len(set(ray.get([place.remote() for _ in range(4)]))), "nodes")
END
"""


@pytest.fixture
def runs(lab: Lab, ray_folder: Path) -> RayRuns:
    return RayRuns(lab, ray_folder)


def kill_part(run: str, part: str, *, attempt: int, node: int) -> None:
    """SIGKILLs one of Ray's own processes."""
    nodes = set(pids_with(f"NODE_RANK={node}")) & set(pids_with(f"AIR_ATTEMPT={attempt}"))
    (pid,) = (pid for pid in pids_with(f"AIR_RUN_ID={run}", f"/{part}\0") if pid in nodes)
    os.kill(pid, signal.SIGKILL)


def attempt_after(runs: RayRuns, run: str, attempt: int) -> dict[str, Any]:
    """The attempt that has just been struck, once it has ended; it does so soon."""
    struck = time.monotonic()

    def over() -> bool:
        attempts = runs.facts(run)["attempts"]
        return bool(attempts[attempt]["cause"])

    wait_until(over, within_s=NOTICED_WITHIN_S, what=lambda: f"attempt {attempt} ends: {runs.facts(run)}")
    assert time.monotonic() - struck < NOTICED_WITHIN_S
    return dict(runs.facts(run)["attempts"][attempt])


@pytest.mark.long
def test_a_raylet_of_a_worker_is_killed_and_the_next_attempt_has_a_whole_cluster(runs: RayRuns) -> None:
    run = runs.submit_ray(PROGRAM.format(failures=1), max_retries=1)
    runs.await_log(run, "begun", nodes=1, within_s=READY_WITHIN_S)
    kill_part(run, "raylet", attempt=0, node=1)
    first = attempt_after(runs, run, 0)
    assert (first["status"], first["cause"]["node"]) == ("FAILED", 1)
    assert first["cause"]["finding"].startswith(f"the raylet on node 1 ({first['hosts'][1]}) has ended")
    facts = runs.ended(run, within_s=READY_WITHIN_S)
    assert facts["status"] == "SUCCESS", runs.log(run, attempt=1)
    assert "ran on 2 nodes" in runs.log(run, attempt=1)
    assert temporary_folders(run) == []


@pytest.mark.long
def test_in_containers_a_node_and_a_head_are_killed_and_the_third_attempt_succeeds(
    runs: RayRuns, engines: dict[str, DockerEngine], small_image: Path
) -> None:
    image = {"docker_image": {"url": str(small_image)}}
    run = runs.submit_ray(PROGRAM.format(failures=2), profile=BOXED, environment=image, max_retries=2)

    runs.await_log(run, "begun", nodes=1, within_s=READY_WITHIN_S)
    engines[runs.hosts(run)[1]].docker("kill", f"air-{run}-0-1")
    first = attempt_after(runs, run, 0)
    assert (first["cause"]["kind"], first["cause"]["node"], first["cause"]["signal"]) == ("signal", 1, "SIGKILL")

    runs.await_log(run, "begun", attempt=1, nodes=1, within_s=READY_WITHIN_S)
    assert [name.partition("-1-")[0] for name in containers_of(run, engines)] == [f"air-{run}"] * 2
    kill_part(run, "gcs_server", attempt=1, node=0)
    second = attempt_after(runs, run, 1)
    assert second["cause"]["finding"].startswith(f"the head's gcs_server on node 0 ({second['hosts'][0]}) has ended")

    facts = runs.ended(run, within_s=READY_WITHIN_S)
    assert facts["status"] == "SUCCESS", runs.log(run, attempt=2)
    assert "ran on 2 nodes" in runs.log(run, attempt=2)
    assert containers_of(run, engines) == []
    assert temporary_folders(run) == []

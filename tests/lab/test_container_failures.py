"""However a container run on Slurm ends: the right cause, soon, and no container on any node."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lab.cluster import Lab
from lab.contained_runs import ContainedRuns, temporary_folders
from lab.docker_engine import DockerEngine
from lab.slurm_runs import wait_until

pytestmark = pytest.mark.slow

# Deaf to SIGTERM, with a daemon in a session of its own.
STUBBORN = 'trap "" TERM; (trap "" TERM; setsid sleep 1000) & echo up; sleep 1000'
# Saves when it is asked to end; the next attempt finds that.
SAVES = """
if [ "$AIR_ATTEMPT" != 0 ]; then cat "$AIR_CHECKPOINT_DIR"/*; exit 0; fi
trap 'echo "saved by node $NODE_RANK" > "$AIR_CHECKPOINT_DIR/$NODE_RANK"; exit 1' TERM
echo up
while :; do sleep 0.1; done
"""
ENDS_WITHIN_S = 20


@pytest.fixture
def runs(lab: Lab, tmp_path: Path, engines: dict[str, DockerEngine], small_image: Path) -> ContainedRuns:
    return ContainedRuns(lab, tmp_path, engines, small_image)


def kill_container(runs: ContainedRuns, run: str) -> None:
    runs.engine_of(run, node=1).docker("kill", runs.container(run, node=1))


def remove_container(runs: ContainedRuns, run: str) -> None:
    runs.engine_of(run, node=1).docker("rm", "--force", runs.container(run, node=1))


def kill_client(runs: ContainedRuns, run: str) -> None:
    for process in runs.lab.processes(runs.hosts(run)[1]):
        if process.argv[:2] == ("docker", "run") and runs.container(run, node=1) in process.argv:
            os.kill(process.pid, signal.SIGKILL)


def kill_agent(runs: ContainedRuns, run: str) -> None:
    runs.kill(run, runs.hosts(run)[1], what="agent")


def kill_supervisor(runs: ContainedRuns, run: str) -> None:
    runs.kill(run, runs.hosts(run)[0], what="supervisor")


def cancel_in_slurm(runs: ContainedRuns, run: str) -> None:
    runs.lab.run(["scancel", str(runs.job(run))])


def kill_everything(runs: ContainedRuns, run: str) -> None:
    """Batch script, srun, agents and clients at once; the containers are children of the engines and hear nothing."""
    runs.lab.run(["scancel", "--signal=KILL", "--full", str(runs.job(run))])


def cancel(runs: ContainedRuns, run: str) -> None:
    runs.air("cancel", run, "-p", "lab")


BLOWS: dict[Callable[[ContainedRuns, str], None], tuple[str, str, int | None, str | None]] = {
    kill_container: ("FAILED", "signal", 1, "SIGKILL"),
    remove_container: ("FAILED", "signal", 1, "SIGKILL"),
    kill_client: ("FAILED", "signal", 1, "SIGKILL"),
    kill_agent: ("FAILED", "node_lost", 1, None),
    kill_supervisor: ("FAILED", "supervisor_lost", None, "SIGKILL"),
    cancel_in_slurm: ("CANCELED", "canceled", None, None),
    kill_everything: ("CANCELED", "canceled", None, None),
    cancel: ("CANCELED", "canceled", None, None),
}


def test_whatever_is_killed_the_containers_are_gone_and_the_cause_is_told(runs: ContainedRuns) -> None:
    submitted = {blow: runs.submit(STUBBORN) for blow in BLOWS}
    for run in submitted.values():
        runs.await_log(run, "up", within_s=60)
    struck = {}
    for blow, run in submitted.items():
        struck[blow] = time.monotonic()
        blow(runs, run)
    found = {}
    for blow, run in submitted.items():
        facts = runs.ended(run, within_s=ENDS_WITHIN_S)
        assert time.monotonic() - struck[blow] < 3 * ENDS_WITHIN_S
        cause = facts["cause"]
        assert temporary_folders(run) == []
        found[blow] = (facts["status"], cause["kind"], cause["node"], cause["signal"])
    assert found == BLOWS


def test_a_machine_with_a_container_dies_and_the_run_goes_on_without_it(runs: ContainedRuns) -> None:
    run = runs.submit(SAVES)
    runs.await_log(run, "up", within_s=60)
    hosts = runs.hosts(run)
    runs.lab.kill(hosts[1])
    facts = runs.ended(run, within_s=60)
    first, second = facts["attempts"]
    assert (first["cause"]["kind"], first["cause"]["host"]) == ("node_failed", hosts[1])
    assert facts["status"] == "SUCCESS"
    assert hosts[1] not in second["hosts"]
    assert "saved by node 0" in runs.log(run, attempt=1)
    for folder in temporary_folders(run):  # on the disk of a machine that has died, they stay
        shutil.rmtree(folder)


def test_an_engine_is_killed_and_nothing_of_the_run_outlives_it(
    runs: ContainedRuns, engines: dict[str, DockerEngine]
) -> None:
    run = runs.submit(STUBBORN)
    runs.await_log(run, "up", within_s=60)
    host = runs.hosts(run)[1]
    for process in runs.lab.processes(host):
        with suppress(ProcessLookupError):  # containerd ends by itself once dockerd is gone
            if Path(process.argv[0]).name in ("dockerd", "containerd"):
                os.kill(process.pid, signal.SIGKILL)
    facts = runs.ended(run, within_s=ENDS_WITHIN_S)
    cause = facts["cause"]
    assert (facts["status"], cause["kind"], cause["node"]) == ("FAILED", "signal", 1)
    engines[host].start()
    wait_until(lambda: not runs.left(run), within_s=ENDS_WITHIN_S, what=lambda: str(runs.left(run)))


def test_preempted_runs_go_on_in_new_containers(runs: ContainedRuns) -> None:
    profiles = [runs.profile(name, container="docker", partition=name) for name in ("requeued", "canceled")]
    submitted = [runs.submit(SAVES, profile=profile) for profile in profiles]
    for run in submitted:
        runs.await_log(run, "up", within_s=60)
    runs.lab.run(["srun", "--partition=urgent", "--nodes=3", "--exclusive", "sleep", "1"])
    for run in submitted:
        facts = runs.ended(run, within_s=90)
        assert [attempt["cause"]["kind"] for attempt in facts["attempts"]] == ["preempted", "completed"]
        assert facts["status"] == "SUCCESS"
        assert all(f"saved by node {node}" in runs.log(run, attempt=1) for node in range(2))

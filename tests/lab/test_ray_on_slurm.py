"""Ray clusters on the lab's real Slurm: reached by three ways, ended whole, side by side with others."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from lab.cluster import Lab
from lab.contained_runs import containers_of, pids_with, temporary_folders
from lab.docker_engine import DockerEngine
from lab.ray_runs import BOXED, DRIVER, RayRuns
from lab.slurm_runs import processes_of, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

COMMAND_S = 180


@pytest.fixture
def runs(lab: Lab, ray_folder: Path) -> Iterator[RayRuns]:
    made = RayRuns(lab, ray_folder)
    yield made
    made.air("ray", "down", "-p", "lab", "--all", "--yes", timeout_s=120)
    made.air("cancel", "-p", "lab", "--all", "--yes")


Start = Callable[[list[str], Mapping[str, str], str | None], subprocess.Popen[str]]


@pytest.fixture
def start(runs: RayRuns) -> Iterator[Start]:
    """Starts a command on a node, or here, outside of Slurm and of Airlane; its variables may tell of a cluster."""
    processes = []

    def start(words: list[str], variables: Mapping[str, str], node: str | None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            words if node is None else runs.lab.command(node, words),
            env={**runs.env, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


def output(process: subprocess.Popen[str]) -> str:
    """What a command said, on both streams, once it has ended well."""
    said, errors = process.communicate(timeout=COMMAND_S)
    assert process.returncode == 0, errors
    return said + errors


def refused(process: subprocess.Popen[str]) -> bool:
    said, errors = process.communicate(timeout=COMMAND_S)
    assert "cpus" not in said + errors
    return process.returncode != 0


def shared_memory(lab: Lab) -> list[str]:
    return [lab.exec(node, ["ls", "/dev/shm"]).stdout for node in lab.nodes]


@pytest.mark.long
def test_a_cluster_is_reached_in_three_ways_with_its_token_alone_and_leaves_nothing(
    runs: RayRuns, start: Start, tmp_path: Path
) -> None:
    memory, was_there = shared_memory(runs.lab), Path("/tmp/ray").exists()
    said = runs.air("ray", "up", "-p", "lab", "--nodes", "3", "--cpus-per-node", "1", timeout_s=600).stdout
    (cluster,) = runs.answer("ray", "list")["clusters"]
    run, head, driver = cluster["run_id"], cluster["head_host"], [str(runs.python), "-c", DRIVER]
    assert f"Ray cluster ready at {runs.lab.address(head)}:" in said
    assert sorted(node["host"] for node in cluster["nodes"]) == sorted(runs.lab.nodes)

    from_here = runs.answer("ray", "env")["variables"]
    assert from_here["RAY_ADDRESS"] == cluster["client_address"]  # the submit host is no node of it
    token = from_here["RAY_AUTH_TOKEN_PATH"]
    on_head = {
        **from_here,
        "RAY_ADDRESS": cluster["address"],
        "RAY_API_SERVER_ADDRESS": f"http://{cluster['dashboard_address']}",
    }
    submit = [str(runs.python.with_name("ray")), "job", "submit", "--", "python", "-c", f"exec({DRIVER!r})"]
    worker = next(node for node in runs.lab.nodes if node != head)

    assert "cpus 3" in output(start(driver, on_head, worker))
    assert "cpus 3" in output(start(driver, from_here, None))
    assert "cpus 3" in runs.air("ray", "exec", "-p", "lab", "--", *submit, timeout_s=COMMAND_S).stdout
    job = runs.air("ray", "job", "submit", "-p", "lab", "--", "python", "-c", f"{DRIVER}; exit(3)", timeout_s=COMMAND_S)
    assert (job.returncode, "cpus 3" in job.stdout) == (3, True), job.stderr

    wrong = tmp_path / "token"
    wrong.write_text("0" * len(Path(token).read_text()))
    # All at once: Ray lets them try for half a minute.
    tries = [
        start(words, {**variables, **lacking}, node)
        for lacking in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_TOKEN_PATH": str(wrong)})
        for words, variables, node in ((driver, on_head, worker), (driver, from_here, None), (submit, on_head, head))
    ]
    assert [refused(process) for process in tries] == [True] * 6

    assert runs.answer("ray", "down")["down"] == [run]
    wait_until(lambda: not runs.queue(run), within_s=30, what="the job leaves the queue")
    wait_until(lambda: processes_of(run) == [], within_s=10, what="nothing of it runs")
    assert temporary_folders(run) == []
    assert shared_memory(runs.lab) == memory
    assert Path("/tmp/ray").exists() == was_there


def test_a_head_that_is_killed_ends_the_cluster_with_that_as_the_cause(runs: RayRuns) -> None:
    run = runs.up("--nodes", "2", "--cpus-per-node", "1")["run_id"]
    (server,) = pids_with(f"AIR_RUN_ID={run}", "/gcs_server\0")
    os.kill(server, signal.SIGKILL)
    facts = runs.ended(run, within_s=60)
    assert facts["status"] == "FAILED"
    assert facts["cause"]["finding"].startswith("the head's gcs_server on node 0")
    assert temporary_folders(run) == []


@pytest.mark.long
def test_clusters_and_runs_with_ray_share_nodes_beside_a_ray_of_another_origin(runs: RayRuns, start: Start) -> None:
    foreign = Foreign(runs.python, start, runs.lab.nodes[0])
    try:
        clusters = [runs.up("--nodes", "2", "--cpus-per-node", "1", "--name", name) for name in ("one", "two")]
        submitted = [runs.submit_ray(f"python -c '{DRIVER}'") for _ in range(2)]
        for run in submitted:
            assert runs.ended(run, within_s=600)["status"] == "SUCCESS", runs.log(run)
            assert "cpus 2" in runs.log(run)
        for cluster in clusters:
            assert runs.answer("ray", "status", cluster["name"])["resources"]["CPU"]["total"] == 2
            runs.answer("ray", "down", cluster["name"])
            assert processes_of(cluster["run_id"]) == []
        assert "cpus 5" in foreign.driven()
    finally:
        foreign.end()


def test_a_cluster_in_containers_is_used_through_its_heads_container_and_none_is_left(
    runs: RayRuns, engines: dict[str, DockerEngine], small_image: Path
) -> None:
    words = ("--nodes", "2", "--cpus-per-node", "1", "--image", str(small_image))
    run = runs.up(*words, profile=BOXED)["run_id"]
    assert len(containers_of(run, engines)) == 2
    assert "cpus 2" in runs.air("ray", "exec", "-p", BOXED, "--", "python", "-c", DRIVER, timeout_s=COMMAND_S).stdout
    assert runs.air("ray", "exec", "-p", BOXED, "--", "sh", "-c", "exit 9").returncode == 9
    runs.answer("ray", "down")
    wait_until(lambda: not containers_of(run, engines), within_s=15, what="no container")
    assert processes_of(run) == []
    assert temporary_folders(run) == []


class Foreign:
    """A `ray start` on a node that Airlane knows nothing of; found and ended by its pids alone."""

    def __init__(self, python: Path, start: Start, node: str) -> None:
        self._python, self._start, self._node = python, start, node
        self._temp = f"/tmp/foreign-{os.getpid()}"
        self._env = {"FOREIGN_RAY": self._temp, "SPT_NOENV": "1", "RAY_AUTH_MODE": "disabled"}
        words = ["start", "--head", "--num-cpus=5", f"--temp-dir={self._temp}", "--disable-usage-stats"]
        line = ["sh", "-c", '"$0" "$@" > /dev/null 2>&1', str(python.with_name("ray")), *words]
        output(start(line, self._env, node))

    def driven(self) -> str:
        env = {**self._env, "RAY_ADDRESS": "127.0.0.1:6379"}
        return output(self._start([str(self._python), "-c", DRIVER], env, self._node))

    def end(self) -> None:
        for pid in pids_with(f"FOREIGN_RAY={self._temp}"):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not pids_with(f"FOREIGN_RAY={self._temp}"), within_s=10, what="the foreign Ray ends")
        subprocess.run(["rm", "-rf", self._temp], check=True)

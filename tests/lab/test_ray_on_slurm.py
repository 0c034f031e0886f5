"""Ray clusters on the lab's real Slurm: reached by three ways, ended whole, side by side with others."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Lab
from lab.docker_engine import DockerEngine
from lab.processes import PROC
from lab.slurm_runs import SlurmRuns, processes_of, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

DRIVER = 'import ray; ray.init(logging_level="error"); print("cpus", int(ray.cluster_resources()["CPU"]))'
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for this file, so that the environment is built once. Ray cannot start workers from below a space."""
    return tmp_path_factory.mktemp("ray-lab")


@pytest.fixture
def runs(lab: Lab, folder: Path) -> Iterator[SlurmRuns]:
    made = SlurmRuns(lab, folder)
    made.home = folder / "home"
    made.profile("lab", silence_s=30)
    yield made
    made.air("ray", "down", "-p", "lab", "--all", "--yes", timeout_s=120)
    made.air("cancel", "-p", "lab", "--all", "--yes")


def answer(runs: SlurmRuns, *words: str, timeout_s: float = 120) -> dict[str, Any]:
    done = runs.air(*words, "-p", "lab", "--json", timeout_s=timeout_s)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout)["data"])


def up(runs: SlurmRuns, *words: str) -> dict[str, Any]:
    return answer(runs, "ray", "up", *words, timeout_s=900)


def python_of(runs: SlurmRuns) -> str:
    """The Python of the clusters' environment."""
    return str(next(runs.home.glob("environments/*/bin/python")))


def temporary_folders(run_id: str) -> list[str]:
    return [str(path) for path in Path("/tmp").glob(f"*{run_id}*")]


def on_node(runs: SlurmRuns, node: str, *words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A command on a node, outside of Slurm and of Airlane."""
    line = runs.lab.command(node, list(words))
    return subprocess.run(
        line,
        env={**runs.env, **env},
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
        stdin=subprocess.DEVNULL,
    )


def test_a_cluster_of_three_nodes_is_reached_with_its_token_alone_and_leaves_nothing(runs: SlurmRuns) -> None:
    cluster = up(runs, "--nodes", "3", "--cpus-per-node", "1")
    run_id, head = cluster["run_id"], cluster["head_host"]
    assert sorted(node["host"] for node in cluster["nodes"]) == sorted(runs.lab.nodes)
    assert cluster["cpus"] == 3
    variables = answer(runs, "ray", "env")["variables"]
    assert variables["RAY_ADDRESS"] == cluster["client_address"]  # the submit host is no node of it

    assert "cpus 3" in runs.air("ray", "exec", "-p", "lab", "--", "python", "-c", DRIVER, timeout_s=180).stdout
    here = {**runs.env, **variables}
    line = [python_of(runs), "-c", DRIVER]
    through_client = subprocess.run(line, env=here, check=False, capture_output=True, text=True, timeout=180)
    assert "cpus 3" in through_client.stdout, through_client.stderr
    job = ["ray", "exec", "-p", "lab", "--", "ray", "job", "submit", "--", "python", "-c", f"exec({DRIVER!r})"]
    assert "cpus 3" in runs.air(*job, timeout_s=240).stdout

    direct = on_node(runs, head, *line, env={"RAY_ADDRESS": cluster["address"]})
    without = {name: value for name, value in here.items() if not name.startswith("RAY_AUTH")}
    client = subprocess.run(line, env=without, check=False, capture_output=True, text=True, timeout=180)
    dashboard = f"http://{cluster['dashboard_address']}/api/jobs/"
    asked = on_node(
        runs, head, python_of(runs), "-c", f"from urllib.request import urlopen; urlopen({dashboard!r})", env={}
    )
    assert [done.returncode != 0 for done in (direct, client, asked)] == [True, True, True]
    assert "cpus" not in direct.stdout + client.stdout
    assert "401" in asked.stderr

    assert answer(runs, "ray", "down")["down"] == [run_id]
    wait_until(lambda: not runs.queue(run_id), within_s=30, what="the job leaves the queue")
    wait_until(lambda: processes_of(run_id) == [], within_s=10, what="nothing of it runs")
    assert temporary_folders(run_id) == []


def test_a_head_that_is_killed_ends_the_cluster_with_that_as_the_cause(runs: SlurmRuns) -> None:
    cluster = up(runs, "--nodes", "2")
    run_id = cluster["run_id"]
    assert cluster["gpus"] == 4  # whole nodes of the lab, whose GPUs are not real
    os.kill(_pid_of(run_id, "gcs_server"), signal.SIGKILL)
    facts = runs.ended(run_id, within_s=60)
    assert facts["status"] == "FAILED"
    assert facts["cause"]["finding"].startswith("the head's gcs_server on node 0")
    assert temporary_folders(run_id) == []


def test_clusters_and_runs_with_ray_share_nodes_beside_a_ray_of_another_origin(runs: SlurmRuns, tmp_path: Path) -> None:
    answer(runs, "env", "build", str(_needs_ray(tmp_path)), timeout_s=600)
    foreign = Foreign(runs, runs.lab.nodes[0])
    try:
        clusters = [up(runs, "--nodes", "2", "--cpus-per-node", "1", "--name", name) for name in ("one", "two")]
        fields: dict[str, Any] = {"environment": {"version": "AI5"}, "ray": {}, "nodes": 2}
        submitted = [runs.submit(f"python -c '{DRIVER}'", **fields) for _ in range(2)]
        for run_id in submitted:
            assert runs.ended(run_id, within_s=600)["status"] == "SUCCESS", runs.log(run_id)
            assert "cpus 2" in runs.log(run_id)
        for cluster in clusters:
            assert answer(runs, "ray", "status", cluster["name"])["resources"]["CPU"]["total"] == 2
            answer(runs, "ray", "down", cluster["name"])
        left = [process for cluster in clusters for process in processes_of(cluster["run_id"])]
        assert left == []
        assert "cpus 5" in foreign.driven()
    finally:
        foreign.end()


def test_a_cluster_in_containers_is_used_through_its_heads_container_and_none_is_left(
    runs: SlurmRuns, engines: dict[str, DockerEngine], small_image: Path, tmp_path: Path
) -> None:
    answer(runs, "env", "build", str(_needs_ray(tmp_path)), timeout_s=600)
    # Ray, and the Python it is for, are mounted into the small image: one that brings them takes minutes to load.
    environment = Path(python_of(runs)).parents[1]
    mounts = [f"{folder}:{folder}:ro" for folder in (environment, sys.base_prefix)]
    path = f"PATH={environment / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    runs.profile("lab", silence_s=30, container="docker", mounts=mounts, container_args=["-e", path])
    try:
        run_id = up(runs, "--nodes", "2", "--cpus-per-node", "1", "--image", str(small_image))["run_id"]
        assert sum(len(engine.containers()) for engine in engines.values()) == 2
        assert "cpus 2" in runs.air("ray", "exec", "-p", "lab", "--", "python", "-c", DRIVER, timeout_s=180).stdout
        assert runs.air("ray", "exec", "-p", "lab", "--", "sh", "-c", "exit 9").returncode == 9
        answer(runs, "ray", "down")
        wait_until(
            lambda: not any(engine.containers() for engine in engines.values()), within_s=15, what="no container"
        )
        assert processes_of(run_id) == []
        assert temporary_folders(run_id) == []
    finally:
        runs.profile("lab", silence_s=30, container="none", mounts=[], container_args=[])


@pytest.mark.timeout(1800)
def test_the_training_example_learns_on_two_nodes_of_two_cores(runs: SlurmRuns) -> None:
    sizes = ("compute.num_accelerators=4", "compute.accelerator_type=CPU_2xCORE", "parameters.steps=10")
    words = ("run", "-p", "lab", "-f", str(EXAMPLES / "ray-train/train.yaml"), "--watch", "--override", *sizes)
    done = runs.air(*words, timeout_s=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": 2 nodes, 4 CPUs" in done.stdout
    assert re.search(r"^step +10/10  loss ", done.stdout, re.MULTILINE)


class Foreign:
    """A `ray start` on a node that Airlane knows nothing of; found and ended by its pids alone."""

    def __init__(self, runs: SlurmRuns, node: str) -> None:
        self._runs, self._node = runs, node
        self._temp = f"/tmp/foreign-{os.getpid()}"
        self._env = {"FOREIGN_RAY": self._temp, "SPT_NOENV": "1", "RAY_AUTH_MODE": "disabled"}
        ray = str(Path(python_of(runs)).with_name("ray"))
        words = ("start", "--head", "--num-cpus=5", f"--temp-dir={self._temp}", "--disable-usage-stats")
        done = on_node(runs, node, "sh", "-c", '"$0" "$@" > /dev/null 2>&1', ray, *words, env=self._env)
        assert done.returncode == 0

    def driven(self) -> str:
        env = {**self._env, "RAY_ADDRESS": "127.0.0.1:6379"}
        return on_node(self._runs, self._node, python_of(self._runs), "-c", DRIVER, env=env).stdout

    def end(self) -> None:
        for pid in _pids(f"FOREIGN_RAY={self._temp}"):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not _pids(f"FOREIGN_RAY={self._temp}"), within_s=10, what="the foreign Ray ends")
        subprocess.run(["rm", "-rf", self._temp], check=True)


def _pid_of(run_id: str, part: str) -> int:
    (pid,) = (
        pid for pid in _pids(f"AIR_RUN_ID={run_id}") if part.encode() in (PROC / str(pid) / "cmdline").read_bytes()
    )
    return pid


def _pids(variable: str) -> list[int]:
    """The processes whose environment has a variable, on every node: they are all on this machine."""
    found = []
    for entry in PROC.iterdir():
        try:
            if entry.name.isdigit() and variable.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _needs_ray(folder: Path) -> Path:
    compute = {"num_accelerators": 1, "accelerator_type": "CPU_1xCORE"}
    content = {"experiment_name": "x", "command": "true", "compute": compute, "environment": {"version": "AI5"}}
    file = folder / "env.yaml"
    file.write_text(json.dumps(content))
    return file

"""Clusters that `air ray` starts: real Ray, several at once, beside one of another origin."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from .conftest import AIR, Bench, left_of, pids_of, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DRIVER = """
import ray, sys
ray.init(logging_level="error")
print("cpus", int(ray.cluster_resources()["CPU"]))
"""


def driven(bench: Bench, variables: dict[str, str], *, token: bool = True) -> subprocess.CompletedProcess[str]:
    """A driver of a cluster, in its environment's Python."""
    env = {**bench.env, **variables}
    if not token:
        del env["RAY_AUTH_MODE"], env["RAY_AUTH_TOKEN_PATH"]
    python = str(bench.environment() / "bin" / "python")
    return subprocess.run([python, "-c", DRIVER], check=False, env=env, capture_output=True, text=True, timeout=120)


def submitted(bench: Bench, variables: dict[str, str], *, token: bool = True) -> subprocess.CompletedProcess[str]:
    """A job, submitted with Ray's own command."""
    env = {**bench.env, **variables}
    if not token:
        del env["RAY_AUTH_MODE"], env["RAY_AUTH_TOKEN_PATH"]
    folder = bench.environment() / "bin"
    line = [str(folder / "ray"), "job", "submit", "--", str(folder / "python"), "-c", f"exec({DRIVER!r})"]
    return subprocess.run(line, check=False, env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.long
def test_a_cluster_is_reached_by_its_three_ports_with_its_token_alone_and_leaves_nothing(bench: Bench) -> None:
    cluster = bench.up("--nodes", "2", "--cpus-per-node", "1", "--name", "three-ports")
    assert [(node["node"], node["cpus"]) for node in cluster["nodes"]] == [(0, 1), (1, 1)]
    variables = bench.answer("ray", "env", "three-ports")["variables"]
    through_client = {**variables, "RAY_ADDRESS": cluster["client_address"]}

    assert "cpus 2" in driven(bench, variables).stdout
    assert "cpus 2" in driven(bench, through_client).stdout
    assert "cpus 2" in submitted(bench, variables).stdout
    for refused in (
        driven(bench, variables, token=False),
        driven(bench, through_client, token=False),
        submitted(bench, variables, token=False),
    ):
        assert refused.returncode != 0
        assert "cpus" not in refused.stdout

    token = Path(variables["RAY_AUTH_TOKEN_PATH"])
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    secret = token.read_bytes()
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids_of(cluster["run_id"])]
    assert lines
    assert not any(secret in line for line in lines)

    assert bench.air("ray", "down", "three-ports").returncode == 0
    assert left_of(cluster["run_id"]) == []
    assert not token.exists()
    assert bench.view(cluster["run_id"])["status"] == "CANCELED"
    assert not Path("/tmp/ray").exists()


@pytest.mark.long
def test_two_clusters_and_a_foreign_one_live_side_by_side_and_end_alone(bench: Bench, tmp_path: Path) -> None:
    bench.air("env", "build", str(_workload(tmp_path)), timeout_s=600)
    foreign = Foreign(bench, tmp_path)
    try:
        one = bench.up("--cpus-per-node", "1", "--name", "one")
        two = bench.up("--cpus-per-node", "1", "--name", "two")
        assert one["address"] != two["address"]
        assert {c["name"] for c in bench.answer("ray", "list")["clusters"]} == {"one", "two"}
        for name in ("one", "two"):
            assert "cpus 1" in driven(bench, bench.answer("ray", "env", name)["variables"]).stdout
        assert bench.air("ray", "down", "one").returncode == 0
        assert left_of(one["run_id"]) == []
        assert bench.answer("ray", "status", "two")["resources"]["CPU"]["total"] == 1
        assert bench.air("ray", "down", "two").returncode == 0
        assert left_of(two["run_id"]) == []
        assert "cpus 3" in foreign.driven()
    finally:
        foreign.end()


class Foreign:
    """A `ray start` that Airlane knows nothing of, with Ray's own ports; found and ended by its pids alone."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench = bench
        temp = f"/tmp/foreign-{os.getpid()}"
        self._mark = f"FOREIGN_RAY={temp}".encode()
        self._env = {**bench.env, "FOREIGN_RAY": temp, "SPT_NOENV": "1", "RAY_AUTH_MODE": "disabled"}
        ray = bench.environment() / "bin" / "ray"
        line = [str(ray), "start", "--head", "--num-cpus=3", f"--temp-dir={temp}", "--disable-usage-stats"]
        with (folder / "foreign.log").open("wb") as log:
            subprocess.run(line, check=True, env=self._env, stdout=log, stderr=log, timeout=120)
        self.temp = temp

    def driven(self) -> str:
        return driven(self._bench, {"RAY_ADDRESS": "127.0.0.1:6379", **self._env}).stdout

    def end(self) -> None:
        for pid in self._pids():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self._pids(), within_s=10, what="the foreign Ray ends")
        subprocess.run(["rm", "-rf", self.temp], check=True)

    def _pids(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self._mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found


def _workload(folder: Path) -> Path:
    content = {
        "experiment_name": "x",
        "command": "true",
        "compute": {"num_accelerators": 1, "accelerator_type": "CPU_1xCORE"},
        "environment": {"version": "AI5"},
    }
    file = folder / "env.yaml"
    file.write_text(json.dumps(content))
    return file


def test_a_cluster_can_be_looked_at_and_used_through_its_head(bench: Bench) -> None:
    cluster = bench.up("--nodes", "2", "--cpus-per-node", "1")
    run_id = cluster["run_id"]
    assert bench.air("list", "-q").stdout.split()[0] == run_id

    status = bench.answer("ray", "status")
    assert [(node["name"], node["state"], node["head"]) for node in _ranked(status["ray_nodes"])] == [
        ("node-0", "ALIVE", True),
        ("node-1", "ALIVE", False),
    ]
    assert status["resources"]["CPU"] == {"used": 0, "total": 2}
    # 0.3 s, and where the machine is busy, as many times longer as Python takes to start.
    assert min(_seconds(bench, "ray", "status") for _ in range(5)) < max(0.3, 3 * _seconds(bench, "-h"))

    done = bench.air("ray", "exec", "--", "sh", "-c", "cat; exit 7", input="from stdin\n")
    assert (done.stdout, done.returncode) == ("from stdin\n", 7)
    done = bench.air("ray", "exec", "--cluster", run_id, "--", "python", "-c", DRIVER)
    assert "cpus 2" in done.stdout
    assert bench.air("ray", "exec", "--", "no-such-program").returncode == 1

    assert "raylet.out" in bench.air("ray", "logs", "--node", "1").stdout.splitlines()
    assert "node-1" not in bench.air("ray", "logs", "--node", "1", "--file", "raylet.out", "--tail", "3").stderr
    assert "Ray cluster ready at" in bench.log(run_id)


def _ranked(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(nodes, key=lambda node: str(node["name"]))


def _seconds(bench: Bench, *words: str) -> float:
    started = time.monotonic()
    assert bench.air(*words).returncode == 0
    return time.monotonic() - started


@pytest.mark.long
def test_the_time_of_a_cluster_ends_it(bench: Bench) -> None:
    cluster = bench.up("--cpus-per-node", "1", "--time", "1m")
    assert cluster["ends_at"] is not None
    assert bench.ended(cluster["run_id"], within_s=100)["status"] == "TIMEDOUT"
    assert left_of(cluster["run_id"]) == []


def test_ctrl_c_stops_waiting_and_not_the_cluster(bench: Bench) -> None:
    line = [str(AIR), "ray", "up", "--cpus-per-node", "1", "--name", "patient"]
    with subprocess.Popen(line, env=bench.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        wait_until(lambda: bool(bench.answer("ray", "list")["clusters"]), within_s=60, what="a cluster is listed")
        waiting.send_signal(signal.SIGINT)
        _, said = waiting.communicate(timeout=30)
    assert waiting.returncode == 130
    assert "The cluster goes on" in said
    wait_until(lambda: bool(bench.answer("ray", "list")["clusters"][0]["ready"]), within_s=120, what="it is ready")


def test_a_public_cluster_says_what_that_means(bench: Bench) -> None:
    done = bench.air("ray", "up", "--cpus-per-node", "1", "--public", timeout_s=600)
    assert done.returncode == 0, done.stderr
    assert "! The dashboard listens on every address" in done.stdout
    cluster = bench.answer("ray", "list")["clusters"][0]
    assert not cluster["dashboard_address"].startswith("127.")
    assert bench.answer("ray", "status")["resources"]["CPU"]["total"] == 1

"""`ray:` in a workload: the cluster around a command, and what happens when a part of either fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airlane.launch import ray_node
from airlane.launch.ray_settings import SETTINGS, TOKEN, RaySettings
from airlane.launch.sweep import sweep

from .conftest import Bench, left_of, pids_of, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SPREAD = """
python - <<'END'
import ray
ray.init(logging_level="error")

@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def place():
    import time
    time.sleep(0.5)
    return ray.get_runtime_context().get_node_id()

print("ran on", len(set(ray.get([place.remote() for _ in range(4)]))), "nodes")
END
"""
WAIT = "echo begun; exec sleep 600"


def test_the_command_runs_once_with_every_node_and_the_others_leave_at_once(bench: Bench) -> None:
    run_id = bench.submit(f'echo "on node $NODE_RANK: $RAY_AUTH_MODE $RAY_DEDUP_LOGS"\n{SPREAD}')
    run = bench.ended(run_id, within_s=400)
    assert run["status"] == "SUCCESS", bench.log(run_id)
    lines = bench.log(run_id).splitlines()
    assert lines[0].startswith("Ray cluster ready at ")
    assert lines[0].endswith(": 2 nodes, 2 CPUs")
    assert lines[1:] == ["on node 0: token 0", "ran on 2 nodes"]
    assert bench.log(run_id, 1).startswith("joined the Ray cluster at ")
    assert left_of(run_id) == []
    assert not (bench.cluster_folder(run_id) / TOKEN).exists()


@pytest.mark.long
def test_the_exit_code_is_that_of_the_command(bench: Bench) -> None:
    run_id = bench.submit("exit 7")
    run = bench.ended(run_id, within_s=400)
    assert run["status"] == "FAILED"
    assert (run["cause"]["node"], run["cause"]["exit_code"]) == (0, 7)
    assert left_of(run_id) == []


@pytest.mark.parametrize(
    ("part", "node", "words"),
    [
        ("gcs_server", 0, "the head's gcs_server on node 0"),
        ("/raylet/raylet", 0, "the head's raylet on node 0"),
        ("/raylet/raylet", 1, "the raylet on node 1"),
    ],
)
def test_a_part_of_ray_that_dies_fails_the_attempt_in_seconds_and_is_named(
    bench: Bench, part: str, node: int, words: str
) -> None:
    run_id = bench.submit(WAIT)
    wait_until(lambda: "begun" in bench.log(run_id), within_s=400, what="the command begins")
    (victim,) = pids_of(run_id, part, node)
    os.kill(victim, signal.SIGKILL)
    run = bench.ended(run_id, within_s=20)
    assert run["status"] == "FAILED"
    assert run["cause"]["node"] == node
    assert words in run["cause"]["finding"]
    assert left_of(run_id) == []


@pytest.mark.parametrize("start", ["exec python", "python"])  # Bash answers the request, or ends of it
def test_a_driver_that_is_asked_to_stop_can_still_use_every_node(bench: Bench, start: str) -> None:
    driver = """
import ray, signal, sys, time
ray.init(logging_level="error")

@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def save():
    time.sleep(2)
    return ray.get_runtime_context().get_node_id()

def stop(*_):
    print("saved on", len(set(ray.get([save.remote(), save.remote()]))), "nodes", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, stop)
print("begun", flush=True)
while True:
    time.sleep(0.1)
"""
    run_id = bench.submit(f"cat > driver.py <<'END'\n{driver}\nEND\n{start} driver.py")
    wait_until(lambda: "begun" in bench.log(run_id), within_s=400, what="the driver begins")
    assert bench.air("cancel", run_id).returncode == 0
    assert bench.ended(run_id, within_s=20)["status"] == "CANCELED"
    assert bench.log(run_id).endswith("saved on 2 nodes\n")
    assert left_of(run_id) == []


def test_a_supervisor_that_is_killed_leaves_no_ray(bench: Bench) -> None:
    run_id = bench.submit(WAIT)
    wait_until(lambda: "begun" in bench.log(run_id), within_s=400, what="the command begins")
    status = json.loads((bench.cluster_folder(run_id).parents[2] / "status.json").read_text())
    os.kill(status["supervisor_pid"], signal.SIGKILL)
    assert bench.ended(run_id, within_s=30)["status"] == "FAILED"
    wait_until(lambda: left_of(run_id) == [], within_s=10, what="nothing of the run is left")


def test_an_environment_without_ray_is_named(bench: Bench) -> None:
    run_id = bench.submit("true", environment={"version": "host"})
    run = bench.ended(run_id, within_s=60)
    assert run["cause"]["finding"].startswith("there is no `ray` in the environment")


@pytest.mark.long
def test_a_node_that_does_not_join_is_named_when_the_time_is_over(bench: Bench, tmp_path: Path) -> None:
    bench.ended(bench.submit("true"), within_s=400)  # the environment is there
    folder = tmp_path / "ray"
    folder.mkdir()
    (folder / TOKEN).write_text("a" * 64)
    (folder / TOKEN).chmod(0o600)
    settings = RaySettings(
        folder=str(folder),
        command_file="/dev/null",
        hosts=("alpha", "beta"),
        addresses=("127.0.0.1", "127.0.0.1"),
        gpus_per_node=0,
        cpus_per_node=1,
        object_store_bytes=None,
        ready_timeout_s=25,
        public=False,
    )
    (folder / SETTINGS).write_text(settings.to_json())
    (folder / "start-1.log").write_text("Unable to connect to GCS\n")
    temp = tmp_path_short()
    own = {"NODE_RANK": "0", "RAY_TMPDIR": str(temp), "AIR_RUN_ID": temp.name, "SPT_NOENV": "1"}
    env = {**bench.env, **own, "PATH": f"{bench.environment() / 'bin'}:{os.environ['PATH']}"}
    line = [sys.executable, "-I", "-S", str(ray_node.__file__), str(folder / SETTINGS)]
    try:
        done = subprocess.run(line, check=False, env=env, capture_output=True, text=True, timeout=120)
    finally:
        sweep(temp.name)
        subprocess.run(["rm", "-rf", str(temp)], check=True)
    assert done.returncode == 1
    assert "Ray cluster failed: not ready within 25 s: node 1 (beta) has not joined" in done.stdout
    assert "Unable to connect to GCS" in done.stdout


def tmp_path_short() -> Path:
    """A folder with a path short enough for Ray's sockets."""
    folder = Path(f"/tmp/airtest-{os.getpid()}")
    folder.mkdir(mode=0o700)
    return folder


@pytest.mark.long
def test_a_command_starts_ranks_on_the_cluster_around_it(bench: Bench) -> None:
    run_id = bench.submit("air-ranks --no-python /bin/sh -c 'echo \"I am $RANK of $WORLD_SIZE\"'")
    view = bench.ended(run_id, within_s=240)
    assert view["status"] == "SUCCESS", bench.log(run_id)
    for rank in range(2):
        assert f"[rank {rank}] I am {rank} of 2" in bench.log(run_id)
    assert left_of(run_id) == []

"""Runs on a Ray cluster that is there already: real Ray, three raylets, a token."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from airlane.cluster.rest import Dashboard
from airlane.launch.processes import all_pids, environment_text
from ray_runs_home import RayRunsHome, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SHOW = 'echo "node $NODE_RANK of $NUM_NODES at $MASTER_ADDR:$MASTER_PORT in $(basename "$CODE_SOURCE_PATH")"'


def processes_of(run_id: str) -> list[int]:
    return [pid for pid in all_pids() if f"AIR_RUN_ID={run_id}".encode() in environment_text(pid).split(b"\0")]


def test_a_run_is_on_as_many_nodes_as_it_asks_for_and_its_logs_come_home(runs: RayRunsHome, tmp_path: Path) -> None:
    code = tmp_path / "my code"
    code.mkdir()
    (code / "hello.py").write_text("import os, ray\nprint('ray', ray.__version__, os.environ['NODE_RANK'])\n")
    source = {"type": "snapshot", "snapshot": {"root_path": str(code)}}
    file = runs.workload(f"{SHOW}; python hello.py", nodes=3, code_source=source)
    done = runs.air("run", str(file), "--watch")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("node 0 of 3 at 127.0.0.")
    first = done.stdout.splitlines()[0]
    assert first.endswith(" in my code")
    for node in range(3):
        said = runs.air("logs", "@last", "--node", str(node)).stdout
        assert said.splitlines() == [first.replace("node 0", f"node {node}"), f"ray 2.60.0 {node}"]
    view = runs.view("@last")
    assert view["status"] == "SUCCESS"
    assert processes_of(view["run_id"]) == []


def test_the_first_failing_node_is_named_the_others_are_stopped_and_the_retry_is_on_the_same_nodes(
    runs: RayRunsHome,
) -> None:
    command = (
        'echo "attempt $AIR_ATTEMPT on $MASTER_ADDR"; [ "$AIR_ATTEMPT" = 1 ] && exit 0; '
        '[ "$NODE_RANK" = 1 ] && { sleep 1; echo "ValueError: bad batch" >&2; exit 7; }; exec sleep 600'
    )
    run_id = runs.submit(command, max_retries=1)
    view = runs.ended(run_id)
    assert view["status"] == "SUCCESS"
    first = view["attempts"][0]
    assert (first["status"], first["cause"]["node"], first["cause"]["exit_code"]) == ("FAILED", 1, 7)
    assert first["cause"]["stopped_nodes"] == [0]
    assert runs.log(run_id, 0, 0).split("on ")[1].split()[0] == runs.log(run_id, 0, 1).split("on ")[1].split()[0]


def test_more_than_the_cluster_has_is_refused_at_once_with_the_numbers(runs: RayRunsHome) -> None:
    for nodes, kind, count in ((4, "CPU_1xCORE", 4), (1, "GPU_8xANY", 8)):
        file = runs.workload("true", compute={"num_accelerators": count, "accelerator_type": kind})
        took_s = []
        for _ in range(3):  # the quickest: the machine may be busy with other tests
            begun = time.monotonic()
            done = runs.air("run", str(file))
            took_s.append(time.monotonic() - begun)
        assert min(took_s) < 2, took_s
        assert done.returncode != 0
        assert "3 nodes" in done.stderr
        assert str(nodes if kind.startswith("CPU") else 8) in done.stderr
    assert runs.answer("list", "--all-status")["runs"] == []


@pytest.mark.long
def test_a_canceled_run_stops_in_order_and_leaves_nothing(runs: RayRunsHome) -> None:
    run_id = runs.submit('trap "echo saved; exit 0" TERM; echo up; while :; do sleep 0.1; done')
    runs.await_log(run_id, "up")
    assert runs.air("cancel", run_id).returncode == 0
    view = runs.ended(run_id, within_s=40)
    assert (view["status"], view["cause"]["kind"]) == ("CANCELED", "canceled")
    assert "saved" in runs.log(run_id)
    assert processes_of(run_id) == []


def test_who_watched_may_be_killed_and_the_logs_still_come_home(runs: RayRunsHome) -> None:
    file = runs.workload("for i in $(seq 40); do echo line $i; sleep 0.2; done")
    watching = runs.start("run", str(file), "--watch")
    wait_until(lambda: bool(list(runs.home.glob("runs/*/*/ray/mirror.log"))), within_s=60, what="submitted")
    watching.kill()
    watching.communicate()
    (folder,) = runs.home.glob("runs/*/*")
    run_id = folder.name
    runs.await_log(run_id, "line 40")
    assert runs.ended(run_id)["status"] == "SUCCESS"
    assert runs.log(run_id, 1).splitlines() == [f"line {number}" for number in range(1, 41)]


@pytest.mark.long
def test_a_run_is_followed_from_another_terminal_while_it_runs(runs: RayRunsHome) -> None:
    run_id = runs.submit("for i in 1 2 3; do echo tick $i; sleep 1; done", nodes=1)
    done = runs.air("logs", run_id)
    assert done.stdout.splitlines()[-3:] == ["tick 1", "tick 2", "tick 3"], done.stderr
    assert runs.view(run_id)["status"] == "SUCCESS"


@pytest.mark.long
def test_the_same_file_runs_here_and_there(runs: RayRunsHome) -> None:
    file = runs.workload("echo same $NUM_NODES")
    for profile in ("ray", "here"):
        done = runs.air("run", str(file), "--watch", "-p", profile, "--override", "environment.version=host")
        assert done.returncode == 0, done.stderr
        assert "same 2" in done.stdout


@pytest.mark.long
def test_a_ray_section_starts_a_cluster_of_the_runs_own_within_its_bundles(runs: RayRunsHome, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "nodes.py").write_text(
        "import ray\n"
        "ray.init(logging_level='error')\n"
        "alive = [node for node in ray.nodes() if node['Alive']]\n"
        "print('own cluster', len(alive), int(ray.cluster_resources()['CPU']))\n"
    )
    source = {"type": "snapshot", "snapshot": {"root_path": str(code)}}
    run_id = runs.submit("python nodes.py", ray={}, code_source=source)
    view = runs.ended(run_id, within_s=240)
    assert view["status"] == "SUCCESS", runs.log(run_id)
    assert "own cluster 2 2" in runs.log(run_id)
    assert "joined the Ray cluster" in runs.log(run_id, 1)
    assert processes_of(run_id) == []


def test_a_secret_reaches_the_command_and_is_found_nowhere_else(runs: RayRunsHome) -> None:
    value = f"sesame-{os.urandom(8).hex()}"
    fed = runs.air("secrets", "set", "hub/token", input=value)
    assert fed.returncode == 0, fed.stderr
    run_id = runs.submit('echo "it is $TOKEN, ${#TOKEN} long"; sleep 20', secrets={"TOKEN": "hub/token"}, nodes=1)
    runs.await_log(run_id, "long")
    assert f"{len(value)} long" in runs.log(run_id)
    raw = value.encode()
    commands = [pid for pid in all_pids() if raw in _file(f"/proc/{pid}/environ")]
    assert commands, "the command does not have it"
    assert not [pid for pid in all_pids() if raw in _file(f"/proc/{pid}/cmdline")]
    asked = Dashboard(runs.lab.url, runs.lab.token, timeout_s=60)
    for path in (
        f"/api/jobs/air-{run_id}",
        "/api/jobs/",
        "/api/v0/actors?detail=1",
        "/api/v0/tasks?detail=1",
        "/api/v0/runtime_envs",
        "/nodes?view=summary",
        f"/nodes/{runs.lab.node_id(0)}",
        "/logical/actors",
        "/events",
        "/api/cluster_status",
        "/api/v0/workers?detail=1",
        "/api/v0/placement_groups?detail=1",
    ):
        assert raw not in asked.get(path), path
    runs.ended(run_id)
    for folder in (runs.folder(run_id), runs.lab.sessions):
        assert [path for path in folder.rglob("*") if path.is_file() and raw in _file(str(path))] == []


def _supervises(pid: int, run_id: str) -> bool:
    line = _file(f"/proc/{pid}/cmdline")
    return b"airlane.supervise.batch" in line and run_id.encode() in line


def _file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("token", ["none", "wrong"])
def test_without_its_token_a_cluster_is_not_entered_and_the_way_in_is_told(
    runs: RayRunsHome, tmp_path: Path, token: str
) -> None:
    (tmp_path / "wrong").write_text("0" * 64)
    runs.configure(token_file=None if token == "none" else str(tmp_path / "wrong"))  # noqa: S105 - not one
    done = runs.air("run", str(runs.workload("true")))
    assert done.returncode != 0
    assert "token" in done.stderr
    assert "token_file" in done.stderr
    assert not list(runs.home.glob("runs/*/*"))


@pytest.mark.long
def test_dependencies_are_there_for_the_command_though_the_cluster_lacks_them(runs: RayRunsHome) -> None:
    environment = {"version": "AI5", "dependencies": ["iniconfig==2.1.0", "cowsay==6.1"]}
    command = "python -c 'import cowsay, ray, sys; print(cowsay.__version__, ray.__version__, sys.prefix)'"
    run_id = runs.submit(command, nodes=1, environment=environment)
    view = runs.ended(run_id, within_s=300)
    assert view["status"] == "SUCCESS", view
    assert "6.1 2.60.0" in runs.log(run_id)


def test_a_driver_that_is_killed_leaves_nothing_and_is_named(runs: RayRunsHome) -> None:
    run_id = runs.submit("echo up; exec sleep 600")
    runs.await_log(run_id, "up")
    (driver,) = [pid for pid in all_pids() if _supervises(pid, run_id)]
    os.kill(driver, signal.SIGKILL)
    view = runs.ended(run_id, within_s=60)
    assert (view["status"], view["cause"]["kind"]) == ("FAILED", "supervisor_lost")
    assert "SIGKILL" in json.dumps(view["cause"])
    wait_until(lambda: processes_of(run_id) == [], within_s=20, what="nothing is left of the run")

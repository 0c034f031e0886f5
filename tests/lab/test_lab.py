"""The lab does what it says, and leaves nothing on the machine."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from airlane.spec.profiles import load_profile
from house.repository import ROOT
from lab.cluster import KEEPER, Lab
from lab.docker_engine import DockerEngine
from lab.machine import MachineError
from lab.processes import PROC
from lab.remains import CGROUPS, HOSTS, bridge_of, cgroup_of, folder_of, state_lock, sweep
from lab.slurm_conf import SLURMD_PORT, ClusterShape
from lab.small_image import TAG

NOBODY = 65534


def hold(lab: Lab, *options: str) -> str:
    """Submits a batch job that stays until it is ended, and waits until it runs; its id."""
    job = lab.run(["sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=exec sleep 1000"]).stdout.strip()
    lab.wait_until(lambda: state_of(lab, job) == "RUNNING", timeout_s=20)
    return job


def state_of(lab: Lab, job: str) -> str:
    return lab.run(["squeue", "-h", "-t", "all", "-j", job, "-o", "%T"]).stdout.strip()


def sleepers(lab: Lab, node: str) -> list[int]:
    return [process.pid for process in lab.processes(node) if Path(process.argv[0]).name == "sleep"]


def test_a_step_runs_on_every_node_under_its_name_and_address(lab: Lab) -> None:
    words = ["srun", "-N3", "-n3", "sh", "-c", "echo $(hostname) $(getent hosts $(hostname))"]
    lines = sorted(lab.run(words).stdout.splitlines())
    assert lines == [f"{node} {lab.address(node)} {node}" for node in lab.nodes]


def test_a_node_has_the_gpus_of_its_grant(lab: Lab) -> None:
    words = ["srun", "-N2", "--ntasks-per-node=1", "--gpus-per-node=h100:1", "printenv", "CUDA_VISIBLE_DEVICES"]
    assert lab.run(words).stdout.split() == ["0", "0"]


def test_a_node_reaches_the_machine_that_people_submit_from(lab: Lab) -> None:
    name = os.uname().nodename
    assert lab.exec(lab.nodes[0], ["getent", "hosts", name]).stdout.split() == [lab.gateway, name]


def test_another_user_can_submit(lab: Lab) -> None:
    done = subprocess.run(
        ["srun", "id", "-u"],
        env={**os.environ, **lab.env},
        cwd="/",
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(NOBODY)


@pytest.mark.long
def test_slurm_finds_nodes_down_that_were_killed_or_hang_or_are_cut_off(lab: Lab) -> None:
    killed, hung, cut = lab.nodes
    jobs = [hold(lab, "--no-requeue", f"--nodelist={node}") for node in lab.nodes]
    lab.kill(killed)
    lab.hang(hung)
    lab.cut(cut)
    for node in lab.nodes:
        lab.wait_for_state(node, "down")
    lab.wait_until(lambda: {state_of(lab, job) for job in jobs} == {"NODE_FAIL"}, timeout_s=10)
    lab.start(killed)
    lab.wait_for_state(killed, "idle")


def test_nothing_runs_on_a_killed_node_until_it_is_started(lab: Lab) -> None:
    victim = lab.nodes[1]
    lab.kill(victim)
    assert lab.processes(victim) == []
    lab.start(victim)
    assert lab.run(["srun", f"--nodelist={victim}", "hostname"]).stdout == f"{victim}\n"


def test_everything_on_a_hung_node_stands_still_and_goes_on(lab: Lab) -> None:
    victim = lab.nodes[2]
    hold(lab, f"--nodelist={victim}")
    lab.wait_until(lambda: bool(sleepers(lab, victim)), timeout_s=10)
    (sleeper,) = sleepers(lab, victim)
    lab.hang(victim)
    assert all(process.stopped for process in lab.processes(victim))
    lab.resume(victim)
    assert not any(process.stopped for process in lab.processes(victim))
    assert sleepers(lab, victim) == [sleeper]


def test_a_node_that_is_cut_off_goes_on_unreached_until_it_is_joined_again(lab: Lab) -> None:
    victim = lab.nodes[0]
    lab.cut(victim)
    with pytest.raises(OSError, match="timed out"):
        socket.create_connection((lab.address(victim), SLURMD_PORT), timeout=0.5)
    assert lab.processes(victim)
    lab.join(victim)
    socket.create_connection((lab.address(victim), SLURMD_PORT), timeout=10).close()


def test_jobs_outlive_a_restart_of_the_controller(lab: Lab) -> None:
    job = hold(lab)
    lab.restart_controller()
    assert state_of(lab, job) == "RUNNING"


def test_without_a_controller_nothing_is_answered_and_jobs_go_on(lab: Lab) -> None:
    hold(lab, f"--nodelist={lab.nodes[0]}")
    lab.stop_controller()
    assert lab.run(["scontrol", "ping"], check=False).returncode != 0
    lab.wait_until(lambda: bool(sleepers(lab, lab.nodes[0])), timeout_s=10)


@pytest.mark.parametrize(("partition", "state"), [("requeued", "PENDING"), ("canceled", "PREEMPTED")])
def test_a_job_of_the_urgent_partition_preempts(lab: Lab, partition: str, state: str) -> None:
    job = hold(lab, f"--partition={partition}", "--nodes=3", "--exclusive")
    lab.run(["srun", "--partition=urgent", "--nodes=3", "--exclusive", "true"])
    assert state_of(lab, job) == state


def test_accounting_remembers_what_a_job_came_to(accounting_lab: Lab) -> None:
    accounting_lab.run(["srun", "sh", "-c", "exit 3"], check=False)
    words = ["sacct", "-n", "-X", "-P", "-o", "State,ExitCode"]
    accounting_lab.wait_until(lambda: accounting_lab.run(words).stdout == "FAILED|3:0\n", timeout_s=20)


def test_without_accounting_sacct_has_no_answer(lab: Lab) -> None:
    done = lab.run(["sacct"], check=False)
    assert done.returncode != 0
    assert "accounting storage is disabled" in done.stderr


def test_a_folder_can_be_one_that_the_nodes_do_not_share(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with lab.unshared(tmp_path, lab.nodes[0]):
        here, there = (lab.run(["srun", f"--nodelist={node}", "ls", str(tmp_path)]).stdout for node in lab.nodes[:2])
    assert (here, there) == ("", "file\n")
    assert lab.exec(lab.nodes[0], ["ls", str(tmp_path)]).stdout == "file\n"


def test_what_runs_on_the_login_machine_ends_with_it(lab: Lab) -> None:
    lab.start(lab.login)
    waiting = lab.popen(lab.login, ["srun", "-n1", "sleep", "1000"])
    lab.wait_until(lambda: any(sleepers(lab, node) for node in lab.nodes), timeout_s=20)
    lab.kill(lab.login)
    assert waiting.wait(timeout=10) != 0


def test_docker_on_a_node_is_that_nodes_own(lab: Lab, engines: dict[str, DockerEngine], small_image: Path) -> None:
    first, second = lab.nodes[:2]
    for node in (first, second):
        assert f"Loaded image: {TAG}" in engines[node].docker("load", "--input", str(small_image))
    program = "import platform, ssl, sqlite3; print(platform.node())"
    words = ["docker", "run", "--rm", "--net=host", TAG, "python3", "-c", program]
    done = lab.run(["srun", "-N2", "-n2", f"--nodelist={first},{second}", *words])
    assert sorted(done.stdout.split()) == [first, second]
    engines[first].docker("run", "--detach", "--net=host", "--name=alone", TAG, "sleep", "1000")
    assert (engines[first].containers(), engines[second].containers()) == (["alone"], [])


def test_a_container_hangs_and_ends_with_its_node(
    lab: Lab, engines: dict[str, DockerEngine], small_image: Path
) -> None:
    node = lab.nodes[0]
    engines[node].docker("load", "--input", str(small_image))
    engines[node].docker("run", "--detach", "--net=host", "--user=nobody", TAG, "sleep", "1000")
    (sleeper,) = sleepers(lab, node)
    lab.hang(node)
    assert {process.pid: process.stopped for process in lab.processes(node)}[sleeper]
    lab.kill(node)
    lab.wait_until(lambda: not (PROC / str(sleeper)).exists(), timeout_s=10)


def test_a_mended_lab_is_as_good_as_new(lab: Lab) -> None:
    first, second, third = lab.nodes
    hold(lab, "--nodes=3")
    lab.hang(first)
    lab.cut(second)
    lab.kill(third)
    lab.stop_controller()
    lab.mend()
    assert lab.run(["squeue", "-h"]).stdout == ""
    assert lab.states() == dict.fromkeys(lab.nodes, "idle")


def tool(*words: str) -> str:
    command = [sys.executable, str(ROOT / "tools" / "slurm_lab.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_tool_starts_a_lab_that_outlives_it_and_takes_it_down() -> None:
    lines = tool("up", "--nodes=1", "--gpus=1", "--docker").splitlines()
    number = re.findall(r"--lab (\d+) down", lines[-1])[0]
    lab = Lab.attach(int(number))
    try:
        env = dict(line.removeprefix("export ").split("=", 1) for line in lines[:-1])
        assert env["SLURM_CONF"] == str(lab.conf)
        assert load_profile(env=env).backend == "slurm"
        assert tool("--lab", number, "exec", lab.nodes[0], "hostname") == f"{lab.nodes[0]}\n"
        assert tool("--lab", number, "exec", lab.nodes[0], "docker", "ps", "--quiet") == ""
        tool("--lab", number, "kill", lab.nodes[0])
        assert lab.processes(lab.nodes[0]) == []
        tool("--lab", number, "start", lab.nodes[0])
        assert lab.run(["srun", "hostname"]).stdout == f"{lab.nodes[0]}\n"
    finally:
        tool("--lab", number, "down")
    assert traces_of(lab) == []


SMALL = ClusterShape(nodes=1, gpus=0)


def commands() -> list[str]:
    """The command lines of all processes of this machine."""
    found = []
    for folder in PROC.iterdir():
        with suppress(FileNotFoundError, NotADirectoryError, ProcessLookupError):
            found.append((folder / "cmdline").read_text(encoding="utf-8", errors="replace"))
    return found


def traces_of(lab: Lab) -> list[str]:
    """What there is of a lab on this machine, by whatever it can be found."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    texts = {
        "link": links.split(),
        "hosts": HOSTS.read_text(encoding="utf-8").splitlines(),
        "process": commands(),
        "mount": Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines(),
        "folder": [str(folder) for folder in folder_of(lab.number).parent.iterdir()],
        "cgroup": [str(folder) for folder in CGROUPS.glob(f"**/{cgroup_of(lab.number)}")],
    }
    mark = re.compile(rf"\b(?:air)?lab{lab.number}(?!\d)|{folder_of(lab.number)}(?!\d)")
    return [f"{kind}: {line}" for kind, lines in texts.items() for line in lines if mark.search(line)]


def test_nothing_is_left_of_a_lab_that_was_taken_down() -> None:
    lab = Lab.up(SMALL)
    DockerEngine(lab, lab.nodes[0]).start()
    hold(lab)
    lab.hang(lab.nodes[0])
    assert {trace.split(":")[0] for trace in traces_of(lab)} >= {"link", "hosts", "process", "folder"}
    lab.down()
    assert traces_of(lab) == []


def test_two_labs_stand_side_by_side(lab: Lab) -> None:
    other = Lab.up(SMALL)
    try:
        names = [each.run(["srun", "hostname"]).stdout.strip() for each in (lab, other)]
        assert names == [lab.nodes[0], other.nodes[0]]
    finally:
        other.down()
    assert lab.run(["srun", "hostname"]).stdout.strip() == lab.nodes[0]


STARTER = """
import os, signal
from lab.cluster import Lab
from lab.slurm_conf import SLURMD_PORT, ClusterShape
print(Lab.up(ClusterShape(nodes=1, gpus=0)).number, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_lab_goes_with_the_process_that_started_it_even_if_that_was_killed(lab: Lab) -> None:
    env = {**os.environ, "PYTHONPATH": str(KEEPER.parents[1])}
    done = subprocess.run([sys.executable, "-c", STARTER], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    orphan = Lab(int(done.stdout), SMALL)
    lab.wait_until(lambda: traces_of(orphan) == [], timeout_s=30)


def test_the_next_lab_removes_what_a_killed_keeper_left(lab: Lab) -> None:
    broken = Lab.up(SMALL)
    os.kill(broken._keeper, signal.SIGKILL)
    lab.wait_until(lambda: not broken.processes(broken.nodes[0]), timeout_s=10)
    assert bridge_of(broken.number) in " ".join(traces_of(broken))
    with state_lock():
        sweep()
    assert traces_of(broken) == []
    broken.down()


def test_a_command_that_fails_on_a_node_says_how(lab: Lab) -> None:
    with pytest.raises(MachineError, match=r"exited with 2: .*nowhere"):
        lab.exec(lab.nodes[0], ["ls", "/nowhere"])

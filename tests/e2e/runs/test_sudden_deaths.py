"""SIGKILL of the supervisor, of an agent, and of both, at random moments: the next look tells the truth."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airlane.api import Run
from airlane.backends.slots import Pool
from airlane.store.states import State

from .conftest import AIR, Lane, ended, kill, processes_of, supervisor_pid

DEATHS = 50
UNPRIVILEGED_DEATHS = 15
# A child in another session, a daemon, and a command that ends by itself within the time in which we strike.
COMMAND = "setsid sleep 605 & (sleep 606 &) & sleep 0.$((RANDOM % 9))\necho finished\nsleep 0.3"


def agents_of(run: Run) -> list[int]:
    """The agents (and the first processes of their namespaces), found by the order on their command line."""
    found = []
    mark = os.fsencode(run.view().paths.attempts)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(argument.startswith(mark) for argument in arguments):
                found.append(int(entry.name))
    return found


def strike(run: Run, victim: str) -> None:
    paths = run.view().paths
    if victim in ("supervisor", "both"):
        kill(supervisor_pid(paths))
    if victim in ("agent", "both"):
        for pid in agents_of(run):
            kill(pid)


def check_truth(lane: Lane, run: Run) -> None:
    begun = time.monotonic()
    shown = json.loads(lane.air("get", run.id, "--json").stdout)["data"]
    while shown["status"] in ("PENDING", "RUNNING"):
        assert time.monotonic() - begun < 10, f"{run.id} has no end"
        shown = json.loads(lane.air("get", run.id, "--json").stdout)["data"]
    view = ended(run, within_s=1)
    assert view.cause is not None
    assert view.cause.summary
    assert processes_of(run.id) == [], "something was left running"
    assert Pool(lane.client.home.slots / "cpu", tuple(str(n) for n in range(64))).busy() == 0, "a slot is still held"
    finished = b"finished" in b"".join(run.logs())
    if view.state is State.SUCCESS:
        assert finished, "a success that did not happen"


def submit_as(lane: Lane, prefix: list[str], workload: Path) -> Run:
    done = subprocess.run(
        [*prefix, AIR, "run", "-f", workload, "--json"], env=lane.env, capture_output=True, check=True, timeout=60
    )
    return lane.client.get(json.loads(done.stdout)["data"]["run_id"])


@pytest.mark.slow
@pytest.mark.parametrize("privileged", [True, False], ids=["as-is", "without-namespaces"])
def test_whatever_is_killed_the_next_look_tells_the_truth(lane: Lane, *, privileged: bool) -> None:
    if sys.platform != "linux":
        pytest.skip("needs Linux: agents are found through /proc")
    prefix: list[str] = []
    if not privileged:
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            pytest.skip("needs root and setpriv to take the right to make namespaces away")
        # Without CAP_SYS_ADMIN the kernel refuses a PID namespace, as it does to ordinary users.
        prefix = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", "--"]
    chance = random.Random(20261130)
    workload = lane.workload(COMMAND)
    states = []
    for number in range(DEATHS if privileged else UNPRIVILEGED_DEATHS):
        victim = ("supervisor", "agent", "both")[number % 3]
        run = submit_as(lane, prefix, workload)
        time.sleep(chance.uniform(0, 0.9))
        strike(run, victim)
        check_truth(lane, run)
        states.append(run.view().state)
    assert State.FAILED in states, "no death ever hit a run: the test strikes too late"
    after = submit_as(lane, prefix, lane.workload("echo well"))
    assert ended(after).state is State.SUCCESS

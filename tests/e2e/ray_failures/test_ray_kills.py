"""Killed at a random moment of a short run: who submitted it, its driver, an agent or its actor, a raylet.

Each round is one run with a secret. Its first attempt fails after a second, its second succeeds; what is killed when,
a seed decides, which is printed: AIR_TEST_SEED=N repeats it. With AIR_LONG_TESTS=1 there are twenty rounds of each.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airlane.cluster.jobs import Jobs
from airlane.cluster.rest import Dashboard
from airlane.launch.processes import read_stat
from e2e.ray_failures.remains import actors_on, agents_of, assert_nothing_is_left, drivers_of, living
from ray_lab import RayLab
from ray_runs_home import RayRunsHome

pytestmark = [pytest.mark.slow]

WORK = (
    'echo "up $AIR_ATTEMPT ${#TOKEN}"; sleep 1; [ "$AIR_ATTEMPT$NODE_RANK" = 01 ] && exit 7; '
    'sleep 1; echo "done $AIR_ATTEMPT"'
)
ENDS_WITHIN_S = 150.0
NOTHING = "nothing"  # was killed: the run had ended before
OWN_FAILURE = ("exit_code", "FAILED")
FEW_AND_MANY = pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(2, marks=[pytest.mark.long, pytest.mark.timeout(600)]),
        pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)


class Rounds:
    """Runs one after the other, and what became of each."""

    def __init__(self, runs: RayRunsHome, life_s: float) -> None:
        """`life_s`: how long a run takes that nobody harms."""
        self.seed = int(os.environ.get("AIR_TEST_SEED") or random.SystemRandom().randrange(10**9))
        print(f"AIR_TEST_SEED={self.seed}")
        self.random = random.Random(self.seed)
        self.runs = runs
        self.life_s = life_s
        self.ends: Counter[str] = Counter()

    def submit(self) -> str:
        return self.runs.submit(WORK, secrets={"TOKEN": "hub/token"}, max_retries=3)

    def moment(self) -> float:
        """Seconds, anywhere in a life."""
        return self.random.uniform(0.0, self.life_s)

    def check(self, run_id: str, begun: float, killed: object) -> dict[str, Any]:
        """The run's end, once nothing is left of it."""
        view = self.runs.ended(run_id, within_s=ENDS_WITHIN_S)
        took_s = time.monotonic() - begun
        if killed == NOTHING:
            self.life_s = min(self.life_s, 0.9 * took_s)  # the machine has become quicker
        end = f"{view['status']} {view['cause']['kind']}"
        self.ends[end] += 1
        attempts = [f"{a['status']} {a['cause']['kind']}" for a in view["attempts"] if a["cause"]]
        print(f"{run_id}: {killed}: {end} after {took_s:.1f} s: {view['cause']['summary']}; attempts: {attempts}")
        assert_nothing_is_left(self.runs, run_id)
        return view

    def is_done(self, view: dict[str, Any]) -> bool:
        """Whether the command said on both nodes that it has done its work."""
        last = len(view["attempts"]) - 1
        return all(f"done {last}" in self.runs.log(view["run_id"], node, last) for node in range(2))


def kinds_before_the_last(view: dict[str, Any]) -> set[str]:
    return {attempt["cause"]["kind"] for attempt in view["attempts"][:-1]}


# How long a run takes that nobody harms, and how long it is submitted.
LIVES: list[float] = []
SUBMISSIONS: list[float] = []


@pytest.fixture
def rounds_of(runs: RayRunsHome) -> Iterator[Rounds]:
    if not LIVES:
        begun = time.monotonic()
        run_id = runs.submit(WORK, secrets={"TOKEN": "hub/token"}, max_retries=3)
        SUBMISSIONS.append(time.monotonic() - begun)
        assert runs.ended(run_id)["status"] == "SUCCESS"
        LIVES.append(time.monotonic() - begun)
        assert_nothing_is_left(runs, run_id)
    made = Rounds(runs, LIVES[0])
    yield made
    print(f"of {LIVES[0]:.1f} s: {dict(made.ends)}")


@FEW_AND_MANY
def test_a_run_whose_submitter_is_killed_has_reached_the_cluster_or_says_that_it_has_not(
    rounds_of: Rounds, rounds: int
) -> None:
    runs = rounds_of.runs
    jobs = Jobs(Dashboard(runs.lab.url, runs.lab.token, timeout_s=60))
    for number in range(rounds):
        before = {folder.name for folder in runs.home.glob("runs/*/*")}
        file = str(runs.workload(WORK, secrets={"TOKEN": "hub/token"}, max_retries=3))
        watches = bool(number % 2)  # otherwise it ends when the run is submitted
        after_s = rounds_of.moment() if watches else rounds_of.random.uniform(0.0, SUBMISSIONS[0])
        begun = time.monotonic()
        with runs.start("run", file, *(["--watch"] if watches else [])) as submitting:
            _wait_or_end(submitting, after_s)
            submitting.kill()
            submitting.communicate()
        new = [folder for folder in runs.home.glob("runs/*/*") if folder.name not in before]
        if not any((folder / "run.json").exists() for folder in new):
            rounds_of.ends["nothing begun"] += 1
            continue
        view = rounds_of.check(new[0].name, begun, f"submitter after {after_s:.2f} s")
        if jobs.get(f"air-{new[0].name}") is None:
            assert (view["status"], view["cause"]["kind"]) == ("FAILED", "supervisor_lost")
            assert "did not reach" in view["cause"]["summary"]
        else:
            assert view["status"] == "SUCCESS"
            assert rounds_of.is_done(view)


@FEW_AND_MANY
def test_a_run_whose_driver_is_killed_says_so_or_how_it_had_ended(rounds_of: Rounds, rounds: int) -> None:
    for _ in range(rounds):
        begun, run_id = time.monotonic(), rounds_of.submit()
        after_s = rounds_of.moment()
        driver = _first(lambda run_id=run_id: drivers_of(run_id))  # type: ignore[misc]
        time.sleep(after_s)
        killed = _kill(driver)
        view = rounds_of.check(run_id, begun, f"driver after {after_s:.2f} s" if killed else NOTHING)
        summary = view["cause"]["summary"]
        if view["status"] == "SUCCESS":
            assert rounds_of.is_done(view)
        elif view["cause"]["kind"] == "supervisor_lost":
            assert killed
            assert "SIGKILL" in summary
        else:  # between the two attempts, or while the first one was being stopped
            assert (view["cause"]["kind"], view["status"]) == OWN_FAILURE
            assert killed
            assert "its supervisor ended without a word" in summary


@FEW_AND_MANY
def test_a_run_that_loses_an_agent_is_tried_again(rounds_of: Rounds, rounds: int) -> None:
    lab = rounds_of.runs.lab
    for number in range(rounds):
        begun, run_id = time.monotonic(), rounds_of.submit()
        _first(lambda run_id=run_id: drivers_of(run_id))  # type: ignore[misc]
        after_s = rounds_of.moment()
        time.sleep(after_s)
        victim = _victim(rounds_of, run_id, lab, actor=bool(number % 2))
        holds = victim is not None and _parent_of(victim) in agents_of(run_id)
        killed = victim is not None and _kill(victim)
        what = "an actor" if number % 2 else "what holds the command" if holds else "an agent"
        view = rounds_of.check(run_id, begun, f"{what} after {after_s:.2f} s" if killed else NOTHING)
        assert view["status"] == "SUCCESS"
        assert rounds_of.is_done(view)
        # With the first process of its PID namespace, a fork of the agent, the command itself is killed.
        assert kinds_before_the_last(view) <= {"exit_code", *(["signal"] if holds else ["node_lost", "node_failed"])}


def _victim(rounds_of: Rounds, run_id: str, lab: RayLab, *, actor: bool) -> int | None:
    """One of those that are there now, or of the next; None when the run ends first."""
    driver = drivers_of(run_id)
    while driver and drivers_of(run_id):
        if found := sorted(actors_on(lab) if actor else agents_of(run_id)):
            return rounds_of.random.choice(found)
        time.sleep(0.02)
    return None


@FEW_AND_MANY
def test_a_run_that_loses_a_raylet_goes_on_without_its_node(rounds_of: Rounds, rounds: int) -> None:
    lab = rounds_of.runs.lab
    for _ in range(rounds):
        workers = living(lab, at_least=3)[1:]  # the head is another matter
        begun, run_id = time.monotonic(), rounds_of.submit()
        after_s, node = rounds_of.moment(), rounds_of.random.choice(workers)
        time.sleep(after_s)
        lab.kill_raylet(node)
        view = rounds_of.check(run_id, begun, f"raylet {node} after {after_s:.2f} s")
        assert view["status"] == "SUCCESS"
        assert rounds_of.is_done(view)
        assert kinds_before_the_last(view) <= {"exit_code", "node_failed"}
        lab.wait_until_dead(node, within_s=60)


def _wait_or_end(process: subprocess.Popen[str], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _first(found: Callable[[], list[int]], *, within_s: float = 60.0) -> int:
    """The first process that is found."""
    deadline = time.monotonic() + within_s
    while not (pids := found()):
        assert time.monotonic() < deadline, "it did not start"
        time.sleep(0.02)
    return pids[0]


def _parent_of(pid: int) -> int | None:
    try:
        return int(read_stat(pid)[1])
    except OSError:
        return None


def _kill(pid: int) -> bool:
    """Whether there was something to kill."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True

"""Machines that die, hang or are cut off, and the end of time: all at once, for each takes Slurm a while to notice.

Every run has two machines to itself, and saves when it is asked to end. Its second attempt finds that and succeeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from lab.cluster import Lab
from lab.slurm_conf import ClusterShape
from lab.slurm_runs import (
    DEAF,
    SAVES,
    SILENCE_S,
    SlurmRuns,
    cause_of,
    ends_of,
    processes_of,
    seconds_from,
)

# The lab's Slurm notices a dead machine in 15 to 30 s, and starts a job again 15 s after that.
AGAIN_WITHIN_S = 90
# What we notice ourselves, with a second of delay before the next attempt, and the start of a job.
ON_WITHIN_S = 20
SUCCESS = ("SUCCESS", "completed")
NODE_FAILED = ("FAILED", "node_failed")
TIMED_OUT = ("TIMEDOUT", "timeout")
GPU_LESS = ClusterShape(nodes=20, gpus=0)


@dataclass
class Disaster:
    """One run, and what happened to one of its machines, or to its time."""

    runs: SlurmRuns
    run: str
    hosts: list[str]
    struck_at: float = field(default_factory=time.time)
    victim: str = ""

    def ended(self, within_s: float = AGAIN_WITHIN_S) -> dict[str, Any]:
        return self.runs.ended(self.run, within_s=within_s)

    def seconds_to(self, moment: str) -> float:
        return seconds_from(self.struck_at, moment)


@pytest.fixture(scope="module")
def disasters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Disaster]]:
    """Everything that goes wrong, by name; it begins when the first test asks for it."""
    lab = Lab.up(GPU_LESS)
    try:
        runs = SlurmRuns(lab, tmp_path_factory.mktemp("disasters"))
        yield _begin(lab, runs)
    finally:
        lab.down()


def _begin(lab: Lab, runs: SlurmRuns) -> dict[str, Disaster]:
    alone = runs.profile("alone", sbatch=["--exclusive"])
    patient = runs.profile("patient", sbatch=["--exclusive"], silence_s=120)
    minute = runs.profile("minute", time="1", warn_s=10)
    machines: dict[str, tuple[Callable[[str], None], int, str]] = {
        "killed": (lab.kill, 1, alone),
        "first killed": (lab.kill, 0, alone),
        "cut": (lab.cut, 1, alone),
        "first cut": (lab.cut, 0, alone),
        "hung": (lab.hang, 1, alone),
        "first hung": (lab.hang, 0, alone),
        "noticed by Slurm": (lab.kill, 1, patient),
    }
    runs.profile("hour", time="60")
    times: dict[str, dict[str, Any]] = {
        "time, and a retry": {"command": SAVES, "max_retries": 1},
        "time": {"command": SAVES},
        "time, unheard": {"command": DEAF},
        "own time": {"command": SAVES, "profile": "hour", "timeout_minutes": 1},
        "more time": {"command": SAVES.replace("while", "(sleep 75; touch over) &\nwhile [ ! -e over ] &&")},
    }
    submitted = {name: runs.submit(SAVES, profile=profile) for name, (_, _, profile) in machines.items()}
    submitted |= {name: runs.submit(**{"profile": minute, "nodes": 1, **fields}) for name, fields in times.items()}
    for name, run in submitted.items():
        runs.await_log(run, nodes=2 if name in machines else 1)
    disasters = {name: Disaster(runs, run, runs.hosts(run)) for name, run in submitted.items()}
    lab.run(["scontrol", "update", f"JobId={runs.job(submitted['more time'])}", "TimeLimit=5"])
    for name, (strike, rank, _) in machines.items():
        disaster = disasters[name]
        disaster.victim = disaster.hosts[rank]
        disaster.struck_at = time.time()
        strike(disaster.victim)
    return disasters


@pytest.mark.parametrize("what", ["killed", "cut", "hung"])
def test_a_run_goes_on_without_the_machine_that_is_lost(disasters: dict[str, Disaster], what: str) -> None:
    disaster = disasters[what]
    facts = disaster.runs.told_end(disaster.run, within_s=AGAIN_WITHIN_S)
    assert ends_of(facts) == [NODE_FAILED, SUCCESS]
    cause = facts["attempts"][0]["cause"]
    assert (cause["node"], cause["host"]) == (1, disaster.victim)
    assert cause["summary"] == f"node 1 ({disaster.victim}) was lost: no sign of life for {SILENCE_S} s"
    assert disaster.victim not in facts["attempts"][1]["hosts"]
    assert disaster.seconds_to(facts["attempts"][1]["started_at"]) < ON_WITHIN_S
    assert "found: attempt 0, node 0\n" in disaster.runs.log(disaster.run, attempt=1), "the others had time to save"


def test_of_a_machine_that_is_cut_off_nothing_goes_on(disasters: dict[str, Disaster]) -> None:
    disaster = disasters["cut"]
    facts = disaster.ended()
    assert processes_of(disaster.run) == [], "the machine is cut off still"
    assert (disaster.runs.paths(disaster.run).checkpoints / "saved").read_text() == "attempt 0, node 0\n"
    alive = (disaster.runs.paths(disaster.run).checkpoints / "1.alive").stat().st_mtime
    assert alive < disaster.struck_at + seconds_from(disaster.struck_at, facts["attempts"][1]["started_at"])


@pytest.mark.parametrize("what", ["first killed", "first cut", "first hung"])
def test_slurm_starts_a_run_again_whose_first_machine_is_lost(disasters: dict[str, Disaster], what: str) -> None:
    disaster = disasters[what]
    runs = disaster.runs
    if what == "first killed":  # the first of them that is looked at
        queued = runs.await_phase(disaster.run, "queued", within_s=60)
        assert queued["detail"].startswith("Slurm has put it back into the queue and starts it again")
    facts = runs.told_end(disaster.run, within_s=AGAIN_WITHIN_S)
    assert cause_of(facts, 0) == ("node_failed", disaster.victim)
    assert facts["attempts"][0]["status"] == "FAILED"
    assert disaster.victim not in facts["attempts"][1]["hosts"]
    assert disaster.seconds_to(facts["attempts"][1]["started_at"]) < AGAIN_WITHIN_S
    assert len(runs.jobs(disaster.run)) == 1, "it is the same job"


def test_a_supervisor_that_is_cut_off_stands_down_when_the_run_is_started_elsewhere(
    disasters: dict[str, Disaster],
) -> None:
    disaster = disasters["first cut"]
    facts = disaster.ended()
    assert facts["status"] == "SUCCESS"
    log = disaster.runs.paths(disaster.run).supervisor_log.read_text(encoding="utf-8")
    assert "this supervisor stands down" in log
    saved = disaster.runs.paths(disaster.run).checkpoints / "saved"
    assert not saved.exists(), "what was cut off saved nothing over what comes after it"


@pytest.mark.parametrize("what", ["hung", "first hung"])
def test_of_a_machine_that_hung_nothing_goes_on_when_it_wakes_up(disasters: dict[str, Disaster], what: str) -> None:
    disaster = disasters[what]
    runs = disaster.runs
    assert runs.told_end(disaster.run, within_s=AGAIN_WITHIN_S)["status"] == "SUCCESS"
    runs.lab.resume(disaster.victim)
    facts = disaster.ended(within_s=20)
    assert ends_of(facts) == [NODE_FAILED, SUCCESS], "it wrote nothing that is not so"


def test_a_machine_that_slurm_finds_dead_first_is_named_too(disasters: dict[str, Disaster]) -> None:
    disaster = disasters["noticed by Slurm"]
    facts = disaster.ended()
    assert ends_of(facts) == [NODE_FAILED, SUCCESS]
    assert cause_of(facts, 0) == ("node_failed", disaster.victim)
    assert disaster.victim not in facts["attempts"][1]["hosts"]


def test_slurms_time_limit_moves_a_run_with_retries_left_to_a_new_job(disasters: dict[str, Disaster]) -> None:
    disaster = disasters["time, and a retry"]
    facts = disaster.ended()
    assert ends_of(facts) == [TIMED_OUT, SUCCESS]
    assert "found: attempt 0, node 0\n" in disaster.runs.log(disaster.run, attempt=1), "it was warned in time to save"
    assert len(disaster.runs.jobs(disaster.run)) == 2


def test_slurms_time_limit_ends_a_run_without_retries(disasters: dict[str, Disaster]) -> None:
    facts = disasters["time"].ended()
    assert ends_of(facts) == [TIMED_OUT]
    assert facts["status"] == "TIMEDOUT"
    assert facts["cause"]["summary"].startswith("Slurm's time limit is about to be reached (Slurm job ")
    assert disasters["time, unheard"].ended()["status"] == "TIMEDOUT"


def test_a_command_that_takes_too_long_is_timed_out_by_the_run_itself(disasters: dict[str, Disaster]) -> None:
    facts = disasters["own time"].ended()
    assert ends_of(facts) == [TIMED_OUT]
    assert facts["cause"]["summary"] == "the command was still running after 1 min (timeout_minutes)"


def test_a_time_limit_that_was_moved_is_the_one_that_counts(disasters: dict[str, Disaster]) -> None:
    facts = disasters["more time"].ended()
    assert ends_of(facts) == [SUCCESS]
    assert facts["duration_seconds"] > 70

"""Whether supervisors live, by recorded answers of Slurm: absence in one of them is no evidence."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pytest

from airlane.backends.base import Liveness
from airlane.backends.slurm.ledger import JobRecord, add_record
from airlane.backends.slurm.liveness import LONGEST_SUBMISSION_S, SECOND_LOOK_S, last_record, liveness
from airlane.backends.slurm.programs import Completed
from airlane.backends.slurm.scheduler import Slurm
from airlane.store.paths import Home, RunPaths
from airlane.store.runs import NewRun, RunContent, RunStore
from airlane.store.supervisor_lock import hold

from .answers import NO_ACCOUNTING, NO_SUCH_JOB, QUEUE, REFUSED, Played, failed, said
from .conftest import MADE

ACCOUNT = "99|COMPLETED|0:0|1796068143|1796068143|scan1|00:05:00\n"
EMPTY, NONE = failed(NO_SUCH_JOB), failed(NO_ACCOUNTING)


class Changing(Played):
    """squeue answers otherwise each time."""

    def __init__(self, *answers: Completed, sacct: Completed = NONE) -> None:
        super().__init__(squeue=answers[0], sacct=sacct)
        self._next = list(answers)

    def __call__(self, command: Sequence[str], timeout_s: float, env: Mapping[str, str]) -> Completed:
        if command[0] == "squeue" and self._next:
            self._answers["squeue"] = self._next.pop(0)
        return super().__call__(command, timeout_s, env)


def run_of(home: Home, job: int | None, *, held: bool = False) -> RunPaths:
    new = RunStore(home).create(MADE, RunContent("", "true"))
    os.close(new.lock)
    if job is not None:
        add_record(new.paths, JobRecord(job, 1.0, held=held))
    return new.paths


def ask(played: Played, *runs: RunPaths) -> tuple[list[Liveness], list[float]]:
    """What is told of each run, and how long was waited."""
    slept: list[float] = []
    found = liveness(runs, Slurm(played, {}), sleep=slept.append)
    assert set(found) == {run.id for run in runs}
    return [found[run.id] for run in runs], slept


def test_all_runs_cost_one_question(home: Home) -> None:
    played = Played(squeue=said(QUEUE))
    runs = [run_of(home, job) for job in (17, 26, 37, 40, 29)]
    states, slept = ask(played, *runs)
    assert states == [Liveness.DEAD, Liveness.WAITING, Liveness.WAITING, Liveness.ALIVE, Liveness.DEAD]
    assert (len(played.commands), slept) == (1, [])


def test_of_a_run_that_went_on_the_last_job_counts(home: Home) -> None:
    run = run_of(home, 17)
    add_record(run, JobRecord(40, 2.0))
    assert ask(Played(squeue=said(QUEUE)), run)[0] == [Liveness.ALIVE]


def test_a_job_that_the_accounting_knows_needs_no_second_look(home: Home) -> None:
    states, slept = ask(Played(squeue=EMPTY, sacct=said(ACCOUNT)), run_of(home, 99))
    assert (states, slept) == ([Liveness.DEAD], [])


def test_a_job_that_one_answer_lacks_is_looked_for_again(home: Home) -> None:
    states, slept = ask(Changing(EMPTY, said(QUEUE)), run_of(home, 40))
    assert (states, slept) == ([Liveness.ALIVE], [SECOND_LOOK_S])


def test_a_job_that_nobody_knows_twice_has_ended(home: Home) -> None:
    played = Changing(EMPTY, EMPTY)
    states, slept = ask(played, run_of(home, 99))
    assert (states, slept) == ([Liveness.DEAD], [SECOND_LOOK_S])


@pytest.mark.parametrize("answers", [[failed(REFUSED)], [EMPTY, failed(REFUSED)]])
def test_a_controller_that_does_not_answer_is_no_evidence(home: Home, answers: list[Completed]) -> None:
    assert ask(Changing(*answers), run_of(home, 40))[0] == [Liveness.UNKNOWN]


@pytest.mark.parametrize(("lives", "expected"), [(True, Liveness.ALIVE), (False, Liveness.DEAD)])
def test_in_the_users_allocation_the_lock_tells(home: Home, lives: bool, expected: Liveness) -> None:
    run = run_of(home, 40, held=True)
    lock = hold(run.lock)
    if not lives:
        os.close(lock)
    assert ask(Played(), run)[0] == [expected]
    if lives:
        os.close(lock)


def aged(run: RunPaths) -> RunPaths:
    then = run.record.stat().st_mtime - LONGEST_SUBMISSION_S - 1
    os.utime(run.record, (then, then))
    return run


def test_a_run_that_is_being_submitted_is_left_alone(new: NewRun) -> None:
    assert ask(Played(), aged(new.paths))[0] == [Liveness.UNKNOWN], "its submitter holds the lock"
    os.close(new.lock)


def test_a_run_without_a_job_is_left_alone_for_as_long_as_sbatch_may_take(home: Home) -> None:
    assert ask(Played(), run_of(home, None))[0] == [Liveness.UNKNOWN]


def test_a_run_whose_submitter_died_before_it_had_a_job_is_dead(home: Home) -> None:
    assert ask(Played(), aged(run_of(home, None)))[0] == [Liveness.DEAD]


def test_a_damaged_record_is_no_evidence(home: Home) -> None:
    run = aged(run_of(home, 40))
    run.slurm_record(0).write_bytes(b"{")
    assert last_record(run) is None
    assert ask(Played(), run)[0] == [Liveness.UNKNOWN]


def test_no_runs_cost_nothing() -> None:
    assert liveness([], Slurm(Played(), {})) == {}

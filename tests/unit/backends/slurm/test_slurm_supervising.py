"""What a supervisor knows of its job and where its run goes on, by made answers of Slurm and a clock that stands."""

from __future__ import annotations

import errno
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from airlane.backends.base import Interruption
from airlane.backends.slurm import supervising
from airlane.backends.slurm.ledger import JobRecord, Start, add_record, claim, job_records
from airlane.backends.slurm.options import read_options
from airlane.backends.slurm.programs import Completed
from airlane.backends.slurm.scheduler import Slurm
from airlane.backends.slurm.supervising import Supervising
from airlane.errors import CapacityError, ConfigError, SlurmUnavailableError
from airlane.store.paths import RunPaths
from airlane.store.records import Attempt, Cause, CauseKind, RunRecord
from airlane.store.states import State

from .answers import PARTITIONS, Played, failed, said

NOW = 1_796_070_000.0


@dataclass
class Bench:
    """A supervisor in job 17, on scan1 and scan2. `job` is what scontrol shows of it."""

    run: RunRecord
    paths: RunPaths
    options: dict[str, Any] = field(default_factory=lambda: {"partition": "gpu"})
    env: dict[str, str] = field(default_factory=dict)
    job: dict[str, object] = field(default_factory=dict)
    now: float = 0.0
    allocation: Interruption | None = None
    said_why: str = ""

    def __post_init__(self) -> None:
        self.slurm = Played(
            scontrol_partition=said(PARTITIONS), sbatch=said("18\n"), scancel=said(""), scontrol=said("")
        )
        self.env = {
            "SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "scan[1-2]", "SLURM_CONF": "/etc/slurm.conf",
            "HOME": "/home/ada", "SLURM_NTASKS": "2", **self.env,
        }  # fmt: skip

    def supervising(self, *, held: bool = False) -> Supervising:
        add_record(self.paths, JobRecord(17, 1.0, held=held))
        return Supervising(self.run, self.paths, read_options(self.options), Slurm(self.slurm, {}), self.env)

    def with_allocation(self, *, held: bool = False) -> Supervising:
        """In the midst of an attempt, which is made up."""
        made = self.supervising(held=held)
        made._allocation = SimpleNamespace(  # type: ignore[assignment]
            interruption=lambda: self.allocation, said_why=self.said_why
        )
        return made

    def shows(self, **fields: object) -> None:
        words = {"JobId": 17, "JobState": "RUNNING", "Reason": "None", "Restarts": 0, "NodeList": "scan[1-2]", **fields}
        self.slurm._answers["scontrol_job"] = said(" ".join(f"{name}={value}" for name, value in words.items()))

    def asked(self, program: str) -> list[tuple[str, ...]]:
        return [command for command in self.slurm.commands if command[0] == program]

    def looks(self) -> int:
        return len([command for command in self.asked("scontrol") if "job" in command])


@pytest.fixture
def bench(run: RunRecord, paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(run, paths)
    made.shows()
    clocks = SimpleNamespace(time=lambda: NOW + made.now, monotonic=lambda: 5000 + made.now)
    monkeypatch.setattr(supervising, "time", clocks)

    def slurm(env: Mapping[str, str]) -> Slurm:
        made.slurm.envs.append(env)
        return Slurm(made.slurm, env)

    monkeypatch.setattr(supervising, "Slurm", slurm)
    return made


def ended(number: int, kind: CauseKind, host: str | None = None) -> Attempt:
    return Attempt(number, 1.0, 2.0, State.FAILED, Cause(kind, "as it is", host=host))


# The time limit.


def test_a_job_without_a_time_limit_is_never_out_of_time(bench: Bench) -> None:
    made = bench.supervising()
    assert made.time_is_up() is None


def test_a_time_limit_that_is_nearer_than_the_warning_is_told(bench: Bench) -> None:
    bench.shows(EndTime=int(NOW) + 100)
    made = bench.supervising()
    assert made.time_is_up() is None
    bench.now += 40  # the warning is 60 s before: the grace of 30 s and a margin
    assert made.time_is_up() == "Slurm's time limit is about to be reached (Slurm job 17)"


def test_a_time_limit_that_was_moved_away_is_not_told(bench: Bench) -> None:
    bench.shows(EndTime=int(NOW) + 100)
    made = bench.supervising()
    made.time_is_up()
    bench.shows(EndTime=int(NOW) + 7200)
    bench.now += 50
    assert made.time_is_up() is None


def test_a_time_limit_that_was_moved_nearer_is_told_when_slurm_warns(bench: Bench) -> None:
    bench.shows(EndTime=int(NOW) + 7200)
    made = bench.supervising()
    assert made.time_is_up() is None
    bench.now += 10
    bench.shows(EndTime=int(NOW) + 30)
    assert made.time_is_up() is None
    made.warned(signal.SIGUSR1, None)
    assert made.time_is_up() is not None


def test_slurm_is_not_asked_about_the_limit_at_each_look(bench: Bench) -> None:
    bench.shows(EndTime=int(NOW) + 7200)
    made = bench.supervising()
    for _ in range(10):
        bench.now += 10
        made.time_is_up()
    assert bench.looks() == 1


def test_near_the_end_slurm_is_asked_once_a_second(bench: Bench) -> None:
    bench.shows(EndTime=int(NOW) + 30)
    made = bench.supervising()
    for _ in range(20):
        made.time_is_up()
        bench.now += 0.2
    assert 4 <= bench.looks() <= 5


def test_a_controller_that_does_not_answer_changes_nothing(bench: Bench) -> None:
    bench.slurm._answers["scontrol_job"] = SlurmUnavailableError("scontrol gave no answer in 10 s")
    made = bench.supervising()
    assert made.time_is_up() is None
    assert made.move(()) is None


# Being asked to stop.


def test_a_sigterm_is_explained_by_what_srun_says(bench: Bench) -> None:
    made = bench.with_allocation()
    bench.allocation = Interruption(CauseKind.PREEMPTED, "preempted")
    assert made.asked_to_stop() == bench.allocation
    bench.allocation = None
    assert made.asked_to_stop() == Interruption(CauseKind.PREEMPTED, "preempted")


@pytest.mark.parametrize(
    ("fields", "kind", "summary"),
    [
        ({"Reason": "TimeLimit"}, CauseKind.TIMEOUT, "Slurm's time limit was reached: Slurm job 17"),
        (
            {"PreemptTime": int(NOW)},
            CauseKind.PREEMPTED,
            "Slurm gave the nodes to a run that goes first: Slurm job 17",
        ),
        ({"Restarts": 1}, CauseKind.PREEMPTED, "Slurm put the run back into the queue: Slurm job 17"),
        ({}, CauseKind.CANCELED, "canceled with scancel (Slurm job 17)"),
    ],
)
def test_a_sigterm_that_srun_does_not_explain_is_explained_by_slurm_a_moment_later(
    bench: Bench, fields: dict[str, object], kind: CauseKind, summary: str
) -> None:
    made = bench.with_allocation()
    bench.shows(**fields)
    assert made.asked_to_stop() is None
    assert bench.looks() == 0
    bench.now += 1.1
    assert made.asked_to_stop() == Interruption(kind, summary)


def test_a_start_before_this_one_explains_nothing(bench: Bench) -> None:
    bench.env["SLURM_RESTART_COUNT"] = "2"
    made = bench.supervising()
    bench.shows(Restarts=2)
    made.asked_to_stop()
    bench.now += 2
    found = made.asked_to_stop()
    assert found is not None
    assert found.kind is CauseKind.CANCELED


def test_a_sigterm_that_nobody_explains_is_asked_about_once_a_second(bench: Bench) -> None:
    bench.slurm._answers["scontrol_job"] = SlurmUnavailableError("scontrol gave no answer in 10 s")
    made = bench.supervising()
    for _ in range(30):
        assert made.asked_to_stop() is None
        bench.now += 0.2
    assert 4 <= bench.looks() <= 6


# Where the run goes on.


def test_an_attempt_that_failed_is_tried_again_here(bench: Bench) -> None:
    made = bench.with_allocation()
    assert made.move(()) is None
    assert made.move((ended(0, CauseKind.EXIT_CODE),)) is None
    assert bench.asked("sbatch") == []


def submitted(bench: Bench) -> str:
    """The script of the second job; it is the only one."""
    ((_, *options, script),) = bench.asked("sbatch")
    assert script == str(bench.paths.slurm_script(1))
    assert job_records(bench.paths)[1].job == 18
    assert f"--chdir={bench.paths.root}" in options
    return bench.paths.slurm_script(1).read_text()


def test_without_a_machine_that_failed_the_run_goes_on_as_another_job_at_once(bench: Bench) -> None:
    made = bench.with_allocation()
    attempts = (ended(0, CauseKind.NODE_FAILED, "scan2"),)
    assert made.move(attempts) == "goes on as Slurm job 18, without scan2"
    assert "#SBATCH --exclude=scan2\n" in submitted(bench)
    assert not [word for word in bench.asked("sbatch")[0] if word.startswith("--dependency")]
    assert job_records(bench.paths)[1].excluded == ("scan2",)
    assert made.move(attempts) == "goes on as Slurm job 18, without scan2", "asked twice, it moves once"


def test_machines_that_failed_are_each_excluded_once_and_from_then_on(bench: Bench) -> None:
    made = bench.with_allocation()
    failures = [ended(n, CauseKind.NODE_FAILED, host) for n, host in enumerate(("scan3", "scan2", "scan3", None))]
    made.move(failures)
    assert "#SBATCH --exclude=scan3,scan2\n" in submitted(bench)


def test_a_machine_that_failed_in_a_job_before_this_one_is_no_reason_to_move(bench: Bench) -> None:
    made = bench.with_allocation()
    assert made.move((ended(0, CauseKind.NODE_FAILED, "scan3"),)) is None


@pytest.mark.parametrize("fields", [{"Restarts": 1}, {"JobState": "PENDING", "Restarts": 0}])
def test_a_job_that_slurm_has_put_back_is_not_submitted_again(bench: Bench, fields: dict[str, object]) -> None:
    made = bench.with_allocation()
    bench.allocation = Interruption(CauseKind.PREEMPTED, "preempted")
    bench.shows(**fields)
    assert made.move((ended(0, CauseKind.PREEMPTED),)) == "Slurm starts job 17 again"
    assert bench.asked("sbatch") == []


def test_a_job_of_which_srun_says_that_it_is_requeued_is_not_submitted_again(bench: Bench) -> None:
    bench.said_why = "JOB REQUEUE"
    made = bench.with_allocation()
    bench.allocation = Interruption(CauseKind.PREEMPTED, "requeued")
    assert made.move((ended(0, CauseKind.PREEMPTED),)) == "Slurm starts job 17 again"


def test_without_the_machines_that_failed_the_others_may_be_too_few(bench: Bench) -> None:
    class TooFew(Played):
        """A partition that has no more nodes than the run needs."""

        def __call__(self, command: Sequence[str], timeout_s: float, env: Mapping[str, str]) -> Completed:
            if command[0] == "sbatch" and "--exclude" in bench.paths.slurm_script(1).read_text():
                return failed(
                    "sbatch: error: Batch job submission failed: Requested node configuration is not available"
                )
            return super().__call__(command, timeout_s, env)

    bench.slurm = TooFew(scontrol_partition=said(PARTITIONS), sbatch=said("18\n"))
    made = bench.with_allocation()
    assert made.move((ended(0, CauseKind.NODE_FAILED, "scan2"),)) == "goes on as Slurm job 18"
    assert "--exclude" not in bench.paths.slurm_script(1).read_text()
    assert job_records(bench.paths)[1].excluded == ()


def test_a_job_that_slurm_ends_is_followed_by_another(bench: Bench) -> None:
    made = bench.with_allocation()
    bench.allocation = Interruption(CauseKind.PREEMPTED, "preempted")
    assert made.move((ended(0, CauseKind.PREEMPTED),)) == "goes on as Slurm job 18"
    assert "--dependency=afterany:17" in bench.asked("sbatch")[0]
    assert "--exclude" not in submitted(bench)


def test_the_next_job_knows_nothing_of_this_ones_variables(bench: Bench) -> None:
    made = bench.with_allocation()
    made.move((ended(0, CauseKind.NODE_FAILED, "scan2"),))
    assert bench.slurm.envs[-1] == {"HOME": "/home/ada", "SLURM_CONF": "/etc/slurm.conf"}


@pytest.mark.parametrize(("left_s", "moves"), [(150, True), (151, False)])
def test_an_attempt_for_which_the_time_is_short_is_made_in_another_job(bench: Bench, left_s: int, moves: bool) -> None:
    bench.run = replace(bench.run, limits=replace(bench.run.limits, timeout_s=60.0))
    bench.shows(EndTime=int(NOW) + left_s)
    made = bench.with_allocation()
    made._refresh()
    # It needs 60 s, the grace of 30 s, and what the warning takes, 60 s.
    assert (made.move((ended(0, CauseKind.EXIT_CODE),)) is not None) is moves


def test_the_first_attempt_of_a_job_is_made_there_however_short_its_time(bench: Bench) -> None:
    bench.run = replace(bench.run, limits=replace(bench.run.limits, timeout_s=6000.0))
    bench.shows(EndTime=int(NOW) + 90)
    made = bench.supervising()
    made._refresh()
    assert made.move((ended(0, CauseKind.EXIT_CODE),)) is None


def test_the_users_own_allocation_is_never_left(bench: Bench) -> None:
    made = bench.with_allocation(held=True)
    bench.allocation = Interruption(CauseKind.PREEMPTED, "preempted")
    assert made.move((ended(0, CauseKind.NODE_FAILED, "scan2"),)) is None


def test_the_users_own_allocation_without_a_node_that_works_is_refused(bench: Bench) -> None:
    made = bench.with_allocation(held=True)
    made.move((ended(0, CauseKind.NODE_FAILED, "scan2"), ended(1, CauseKind.NODE_FAILED, "elsewhere")))
    with pytest.raises(CapacityError) as caught:
        made.allocate(2)
    assert caught.value.message == ("your allocation (Slurm job 17) has 1 nodes that work (asked for: 2; scan2 failed)")


def test_a_submission_that_slurm_refuses_is_told_in_words(bench: Bench) -> None:
    bench.slurm._answers["sbatch"] = failed("sbatch: error: Batch job submission failed: Invalid account\n")
    made = bench.with_allocation()
    with pytest.raises(ConfigError, match="does not know this account"):
        made.move((ended(0, CauseKind.NODE_FAILED, "scan2"),))
    assert len(job_records(bench.paths)) == 1


def test_a_job_that_cannot_be_written_down_is_taken_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    made = bench.with_allocation()
    monkeypatch.setattr(supervising, "add_record", refuse)
    with pytest.raises(OSError, match="No space left"):
        made.move((ended(0, CauseKind.NODE_FAILED, "scan2"),))
    assert bench.asked("scancel") == [("scancel", "18")]


# Being replaced.


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ((), False),
        ((Start(17, 0),), False),
        ((Start(17, 0), Start(17, 1)), True),
        ((Start(17, 0), Start(18, 0)), True),
    ],
)
def test_another_start_of_the_run_replaces_this_one(bench: Bench, starts: Sequence[Start], expected: bool) -> None:
    made = bench.supervising()
    for start in starts:
        claim(bench.paths, start)
        made.replaced()
    assert made.replaced() is expected


def test_a_claim_is_read_again_only_when_it_has_changed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench.supervising()
    claim(bench.paths, Start(17, 0))
    assert not made.replaced()
    monkeypatch.setattr(supervising, "claimed_by", lambda _paths: pytest.fail("read again"))
    assert not made.replaced()


def test_a_damaged_claim_replaces_nobody(bench: Bench) -> None:
    made = bench.supervising()
    bench.paths.slurm_start.write_bytes(b"{")
    assert not made.replaced()


def test_in_the_users_own_allocation_nobody_is_replaced(bench: Bench) -> None:
    made = bench.supervising(held=True)
    claim(bench.paths, Start(99, 0))
    assert not made.replaced()

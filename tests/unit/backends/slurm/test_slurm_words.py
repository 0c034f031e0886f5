from __future__ import annotations

import pytest

from airlane.backends.slurm.jobs import EndKind, JobEnd, JobState, SlurmJob, job_end, read_queue, read_shown
from airlane.backends.slurm.words import end_words, pending_words, reason_words, start_words
from unit.backends.slurm.answers import QUEUE, SHOWN_EXIT_3, SHOWN_NO_OUTPUT

NOW = 1_796_068_000


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (None, "in Slurm's queue"),
        ("Priority", "other runs go first"),
        ("Resources", "waiting for nodes to become free"),
        (
            "ReqNodeNotAvail, UnavailableNodes:gpu[1-2]",
            "the nodes that it needs are down, drained or reserved: gpu[1-2]",
        ),
        ("ReqNodeNotAvail, UnavailableNodes:", "the nodes that it needs are down, drained or reserved"),
        ("PartitionTimeLimit", "its time limit is longer than the partition allows"),
        ("Dependency", "waiting for another Slurm job to end"),
        ("JobHeldUser", "held by its user: scontrol release starts it"),
        (
            "QOSMaxJobsPerUserLimit",
            "the limit of its QOS on the jobs of one user is reached (QOSMaxJobsPerUserLimit)",
        ),
        (
            "QOSMaxGRESPerUser",
            "the limit of its QOS on the accelerators of one user is reached (QOSMaxGRESPerUser)",
        ),
        ("QOSGrpNodeLimit", "the limit of its QOS on the nodes is reached (QOSGrpNodeLimit)"),
        ("AssocGrpCpuLimit", "the limit of its account on the CPUs is reached (AssocGrpCpuLimit)"),
        ("AssocGrpGRESMinutes", "the limit of its account on the accelerators is reached (AssocGrpGRESMinutes)"),
        ("MaxGRESPerAccount", "the limit of its QOS on the accelerators of one account is reached (MaxGRESPerAccount)"),
        (
            "AssocMaxWallDurationPerJobLimit",
            "it asks for more time than its account allows one job (AssocMaxWallDurationPerJobLimit)",
        ),
        ("QOSMinMemory", "it asks for less memory than its QOS allows one job (QOSMinMemory)"),
        ("SomethingThatSlurm_30_Says", "SomethingThatSlurm_30_Says"),
    ],
)
def test_a_reason_is_told_in_words_and_an_unknown_one_as_it_stands(reason: str | None, words: str) -> None:
    assert reason_words(reason) == words


@pytest.mark.parametrize(
    ("wait_s", "words"),
    [
        (-5, None),
        (0, None),
        (20, "expected to start in about 1 minute"),
        (12 * 60, "expected to start in about 12 minutes"),
        (80 * 60, "expected to start in about 80 minutes"),
        (2 * 3600, "expected to start in about 2 hours"),
        (30 * 3600, "expected to start in about 30 hours"),
        (50 * 3600, "expected to start in about 2 days"),
        (365 * 86400, None),  # behind a job without a time limit
    ],
)
def test_the_estimate_is_relative_to_now(wait_s: int, words: str | None) -> None:
    assert start_words(NOW + wait_s, NOW) == words


def test_a_pending_job_tells_why_and_when() -> None:
    job = SlurmJob(1, JobState.PENDING, reason="Priority", start_at=NOW + 720)
    assert pending_words(job, NOW) == "other runs go first; expected to start in about 12 minutes"
    assert pending_words(SlurmJob(1, JobState.PENDING, reason="Priority"), NOW) == "other runs go first"


def test_a_requeued_job_says_so() -> None:
    assert pending_words(read_queue(QUEUE)[37], 1796068195) == (
        "Slurm has put it back into the queue and starts it again; expected to start in about 2 minutes"
    )


def test_the_end_of_a_job_is_a_sentence() -> None:
    words = {number: end_words(job, end) for number, job in read_queue(QUEUE).items() if (end := job_end(job))}
    assert words == {
        14: "Slurm job 14 ended with a failure on scan2",
        15: "Slurm job 15 ended with a failure on scan2",
        17: "Slurm job 17 was canceled",
        29: "Slurm job 29 reached its time limit (00:01:00)",
        30: "Slurm job 30 ended on scan1",
        36: "Slurm job 36 lost a node on scan3",
        37: "Slurm job 37 was put back into the queue",
        39: "Slurm job 39 was preempted on scan1",
    }


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (SHOWN_EXIT_3, "Slurm job 14 ended with exit code 3 on scan2"),
        (SHOWN_EXIT_3.replace("ExitCode=3:0", "ExitCode=0:9"), "Slurm job 14 ended with SIGKILL on scan2"),
        (SHOWN_EXIT_3.replace("ExitCode=3:0", "ExitCode=0:63"), "Slurm job 14 ended with signal 63 on scan2"),
        (
            SHOWN_NO_OUTPUT,
            "Slurm could not write the run folder on scan1: the home is not shared with the nodes",
        ),
    ],
)
def test_an_exit_code_and_a_signal_are_named(shown: str, words: str) -> None:
    job = read_shown(shown)
    assert job is not None
    end = job_end(job)
    assert end is not None
    assert end_words(job, end) == words


def test_who_canceled_is_told_where_it_is_known() -> None:
    job = SlurmJob(7, JobState.CANCELLED, canceled_by=1000)
    assert end_words(job, JobEnd(EndKind.CANCELED, canceled_by=1000)) == "Slurm job 7 was canceled by user 1000"

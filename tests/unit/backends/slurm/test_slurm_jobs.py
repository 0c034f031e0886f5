from __future__ import annotations

import pytest

from airlane.backends.slurm.jobs import (
    EndKind,
    JobEnd,
    JobState,
    SlurmJob,
    Stage,
    job_end,
    read_account,
    read_pairs,
    read_queue,
    read_shown,
)
from unit.backends.slurm.answers import (
    QUEUE,
    SHOWN_EXIT_3,
    SHOWN_NO_OUTPUT,
    SHOWN_PREEMPTED,
    SHOWN_UNAVAILABLE,
)


def shown(text: str) -> SlurmJob:
    job = read_shown(text)
    assert job is not None
    return job


def test_squeue_tells_all_jobs_in_one_answer() -> None:
    jobs = read_queue(QUEUE)
    assert sorted(jobs) == [14, 15, 17, 26, 29, 30, 36, 37, 39, 40]
    assert jobs[40] == SlurmJob(
        40,
        JobState.RUNNING,
        start_at=1796068188,
        hosts=("scan1", "scan2"),
        batch_host="scan1",
        time_limit_s=3600,
    )
    assert jobs[26].reason == "ReqNodeNotAvail, UnavailableNodes:scan3"
    assert (jobs[26].start_at, jobs[26].hosts) == (None, ())
    assert (jobs[37].restarts, jobs[37].start_at) == (1, 1796068315)


def test_lines_that_are_no_jobs_are_passed_over() -> None:
    assert read_queue("slurm_load_jobs: some warning\n\n|||\n") == {}


def test_a_reason_may_hold_the_separator() -> None:
    line = "7|PENDING|N/A|N/A|0|n/a||UNLIMITED|ask|ada|\n"
    assert read_queue(line)[7].reason == "ask|ada"


def test_scontrol_tells_the_exit_code_and_where() -> None:
    job = shown(SHOWN_EXIT_3)
    assert (job.state, job.exit_code, job.signal) == (JobState.FAILED, 3, None)
    assert (job.hosts, job.batch_host) == (("scan2",), "scan2")


def test_scontrol_tells_when_a_job_was_preempted() -> None:
    job = shown(SHOWN_PREEMPTED)
    assert (job.state, job.signal, job.preempted_at, job.time_limit_s) == (JobState.PREEMPTED, 15, 1796068188, 7200)


def test_scontrol_and_squeue_give_the_same_reason() -> None:
    assert shown(SHOWN_UNAVAILABLE).reason == read_queue(QUEUE)[26].reason


def test_what_is_no_job_is_none() -> None:
    assert read_shown("") is None
    assert read_shown("No jobs in the system") is None


def test_values_may_hold_spaces_and_equal_signs() -> None:
    assert read_pairs("JobId=1 Comment=airlane run x1  TRES=cpu=1,node=1 WorkDir=/a b") == {
        "JobId": "1",
        "Comment": "airlane run x1",
        "TRES": "cpu=1,node=1",
        "WorkDir": "/a b",
    }


# Written after sacct(1): the lab keeps no accounting.
ACCOUNT = """\
12|CANCELLED by 1000|0:15|1796067952|1796067979|gpu[1-2]|08:00:00
13|NODE_FAIL|1:0|1796067952|1796067979|gpu3|Partition_Limit
14|PENDING|0:0|Unknown|Unknown|None assigned|1-00:00:00
15|OUT_OF_ME+|0:125|1796067952|1796067979|gpu3|UNLIMITED
"""


def test_sacct_tells_who_canceled() -> None:
    jobs = read_account(ACCOUNT)
    assert jobs[12].hosts == ("gpu1", "gpu2")
    assert jobs[14].hosts == ()
    assert job_end(jobs[12]) == JobEnd(EndKind.CANCELED, 0, 15, canceled_by=1000)
    assert job_end(jobs[13]) == JobEnd(EndKind.NODE_FAIL, 1, None)
    assert job_end(jobs[14]) is None
    assert job_end(jobs[15]) is None


@pytest.mark.parametrize(
    ("number", "end"),
    [
        (14, JobEnd(EndKind.FAILED)),
        (17, JobEnd(EndKind.CANCELED)),
        (36, JobEnd(EndKind.NODE_FAIL)),
        (37, JobEnd(EndKind.REQUEUED)),
        (26, None),
        (40, None),
        (29, JobEnd(EndKind.TIMEOUT)),
        (39, JobEnd(EndKind.PREEMPTED)),
        (30, JobEnd(EndKind.COMPLETED)),
    ],
)
def test_the_ends_of_jobs_are_told_apart(number: int, end: JobEnd | None) -> None:
    assert job_end(read_queue(QUEUE)[number]) == end


def test_an_output_file_that_could_not_be_opened_is_an_end_of_its_own() -> None:
    assert job_end(shown(SHOWN_NO_OUTPUT)) == JobEnd(EndKind.NO_OUTPUT, 0, 53)
    assert job_end(shown(SHOWN_EXIT_3)) == JobEnd(EndKind.FAILED, 3, None)


@pytest.mark.parametrize("state", JobState)
def test_every_state_has_a_stage_and_only_ended_ones_an_end(state: JobState) -> None:
    job = SlurmJob(1, state)
    assert (job_end(job) is not None) == (job.stage is Stage.ENDED)


def test_a_state_that_is_not_known_is_no_evidence() -> None:
    job = read_queue("7|DREAMING|N/A|N/A|0|n/a||UNLIMITED|None|\n")[7]
    assert (job.stage, job_end(job)) == (Stage.UNKNOWN, None)

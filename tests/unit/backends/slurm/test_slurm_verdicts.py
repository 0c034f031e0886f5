"""How Slurm says that a supervisor ended that could not say it itself, by recorded answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from airlane.backends.base import Interruption
from airlane.backends.slurm.ledger import JobRecord, add_record
from airlane.backends.slurm.programs import Completed
from airlane.backends.slurm.scheduler import Slurm
from airlane.backends.slurm.verdicts import last_words
from airlane.errors import SlurmUnavailableError
from airlane.store import codec
from airlane.store.paths import RunPaths
from airlane.store.records import Attempt, CauseKind, Status
from airlane.store.states import Phase, State

from .answers import NO_ACCOUNTING, NO_SUCH_JOB, NODE_DOWN, REFUSED, Played, failed, said

STARTED_AT = 1796068161.5
NODE_UP = NODE_DOWN.replace("DOWN+NOT_RESPONDING", "IDLE").replace("scan3", "scan1")


def shown(job: int, **fields: object) -> str:
    words = {"JobState": "FAILED", "Reason": "None", "Restarts": 0, "ExitCode": "0:0", "BatchHost": "scan1", **fields}
    return f"JobId={job} " + " ".join(f"{name}={value}" for name, value in words.items())


def ask(paths: RunPaths, played: Played, *jobs: int, own_job: int | None = None) -> Interruption | None:
    for job in jobs:
        add_record(paths, JobRecord(job, 1.0))
    return last_words(paths, Slurm(played, {}), own_job=own_job)


def test_a_run_without_a_job_has_no_last_words(paths: RunPaths) -> None:
    assert ask(paths, Played()) is None


@pytest.mark.parametrize(
    ("fields", "kind", "summary"),
    [
        ({"JobState": "CANCELLED"}, CauseKind.CANCELED, "Slurm job 17 was canceled"),
        (
            {"JobState": "TIMEOUT", "TimeLimit": "00:01:00"},
            CauseKind.TIMEOUT,
            "Slurm job 17 reached its time limit (00:01:00)",
        ),
        ({"JobState": "DEADLINE"}, CauseKind.TIMEOUT, "Slurm job 17 reached its deadline on scan1"),
        ({"JobState": "PREEMPTED"}, CauseKind.PREEMPTED, "Slurm job 17 was preempted on scan1"),
        ({"JobState": "OUT_OF_MEMORY"}, CauseKind.OUT_OF_MEMORY, "Slurm job 17 ran out of memory on scan1"),
        (
            {"JobState": "FAILED", "ExitCode": "78:0"},
            CauseKind.SETUP,
            "Slurm job 17 ended with exit code 78 on scan1",
        ),
        (
            {"JobState": "FAILED", "ExitCode": "0:53"},
            CauseKind.SETUP,
            "Slurm could not write the run folder on scan1: the home is not shared with the nodes",
        ),
        (
            {"JobState": "FAILED", "ExitCode": "1:0"},
            CauseKind.SUPERVISOR_LOST,
            "Slurm job 17 ended with exit code 1 on scan1",
        ),
    ],
)
def test_the_end_of_the_job_is_told(paths: RunPaths, fields: dict[str, object], kind: CauseKind, summary: str) -> None:
    found = ask(paths, Played(scontrol=said(shown(17, **fields))), 17)
    assert found is not None
    assert (found.kind, found.summary, found.signal) == (kind, summary, None)


def test_what_the_batch_script_missed_is_told_in_its_words(paths: RunPaths) -> None:
    paths.supervisor_log.write_text("airlane: scan1 has no /x/python: set python in the profile to another\n")
    found = ask(paths, Played(scontrol=said(shown(17, ExitCode="78:0"))), 17)
    assert found == Interruption(CauseKind.SETUP, "scan1 has no /x/python", hint="set python in the profile to another")


def test_a_killed_supervisor_is_told_with_its_signal(paths: RunPaths) -> None:
    found = ask(paths, Played(scontrol=said(shown(17, ExitCode="0:9"))), 17)
    assert found is not None
    assert (found.kind, found.signal) == (CauseKind.SUPERVISOR_LOST, "SIGKILL")
    assert found.summary.startswith("the run's supervisor was killed by SIGKILL: Slurm job 17 ended with SIGKILL")


def test_a_machine_that_failed_is_named(paths: RunPaths) -> None:
    found = ask(paths, Played(scontrol=said(shown(17, JobState="NODE_FAIL"))), 17)
    assert found is not None
    assert (found.kind, found.host) == (CauseKind.NODE_FAILED, "scan1")


@pytest.mark.parametrize("state", ["COMPLETED", "RUNNING", "PENDING", "COMPLETING"])
def test_a_job_that_ended_well_or_not_at_all_says_nothing(paths: RunPaths, state: str) -> None:
    assert ask(paths, Played(scontrol=said(shown(17, JobState=state))), 17) is None


def test_a_job_that_waits_to_be_started_again_was_put_back(paths: RunPaths) -> None:
    found = ask(paths, Played(scontrol=said(shown(17, JobState="PENDING", Restarts=1))), 17)
    assert found is not None
    assert found.kind is CauseKind.PREEMPTED


def test_the_accounting_is_asked_where_the_controller_has_forgotten(paths: RunPaths) -> None:
    account = "17|CANCELLED by 1000|0:15|1796068143|1796068143|scan1|00:05:00\n"
    found = ask(paths, Played(scontrol=failed(NO_SUCH_JOB), sacct=said(account)), 17)
    assert found == Interruption(CauseKind.CANCELED, "Slurm job 17 was canceled by user 1000")


def test_without_accounting_a_forgotten_job_says_nothing(paths: RunPaths) -> None:
    assert ask(paths, Played(scontrol=failed(NO_SUCH_JOB), sacct=failed(NO_ACCOUNTING)), 17) is None


def test_a_controller_that_does_not_answer_is_not_taken_for_an_answer(paths: RunPaths) -> None:
    with pytest.raises(SlurmUnavailableError):
        ask(paths, Played(scontrol=failed(REFUSED)), 17)


class Jobs(Played):
    """scontrol knows several jobs, and the nodes."""

    def __init__(self, *texts: str, node: str = NODE_UP) -> None:
        super().__init__(
            scontrol_node=said(node),
            **{f"scontrol_{text.split()[0].removeprefix('JobId=')}": said(text) for text in texts},
        )

    def __call__(self, command: Sequence[str], timeout_s: float, env: Mapping[str, str]) -> Completed:
        if command[0] == "scontrol" and "job" in command:
            command = ("scontrol", command[-1])
        return super().__call__(command, timeout_s, env)


def test_a_new_job_asks_how_the_one_before_it_ended(paths: RunPaths) -> None:
    played = Jobs(shown(17, JobState="PREEMPTED"), shown(18, JobState="RUNNING"))
    found = ask(paths, played, 17, 18, own_job=18)
    assert found is not None
    assert found.summary == "Slurm job 17 was preempted on scan1"


def test_a_runs_first_job_that_starts_has_nothing_to_ask(paths: RunPaths) -> None:
    assert ask(paths, Jobs(shown(17, JobState="RUNNING")), 17, own_job=17) is None


def opened(paths: RunPaths, *hosts: str) -> None:
    attempt = Attempt(0, STARTED_AT, hosts=hosts)
    status = Status(State.RUNNING, Phase.RUNNING, None, STARTED_AT, 1, "scan1", (attempt,))
    paths.status.write_bytes(codec.encode(status))


def test_a_job_that_was_started_again_names_the_machine_that_is_down(paths: RunPaths) -> None:
    opened(paths, "scan3")
    found = ask(paths, Jobs(shown(17, JobState="RUNNING", Restarts=1), node=NODE_DOWN), 17, own_job=17)
    assert found == Interruption(CauseKind.NODE_FAILED, "scan3 failed: Slurm started job 17 again", "scan3")


@pytest.mark.parametrize(
    ("preempted_at", "kind", "summary"),
    [
        (int(STARTED_AT), CauseKind.PREEMPTED, "the run was preempted: Slurm started job 17 again"),
        (
            int(STARTED_AT) - 60,
            CauseKind.NODE_FAILED,
            "the supervisor on scan1 was lost without a word: Slurm started job 17 again",
        ),
    ],
)
def test_a_preemption_before_the_attempt_is_not_its_end(
    paths: RunPaths, preempted_at: int, kind: CauseKind, summary: str
) -> None:
    opened(paths, "scan1")
    job = shown(17, JobState="RUNNING", Restarts=1, PreemptTime=preempted_at)
    assert ask(paths, Jobs(job), 17, own_job=17) == Interruption(kind, summary)

"""What Slurm says of a job, read into frozen values, and what its end means. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from airlane.backends.slurm.durations import read_duration
from airlane.backends.slurm.hostlist import hostnames
from airlane.frozen import frozen

# slurmstepd's exit signal where it could not open the job's output file (seen with Slurm 22.05).
_OUTPUT_SIGNAL = 53
_NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None", "NONE", "Unknown", "UNKNOWN"})
QUEUE_FIELDS = (
    "JobID",
    "State",
    "StartTime",
    "EndTime",
    "RestartCnt",
    "BatchHost",
    "NodeList",
    "TimeLimit",
    "Reason",
)
"""What is asked of squeue. The reason stands last: it is the only one that could hold the separator."""
ACCOUNT_FIELDS = ("JobIDRaw", "State", "ExitCode", "Start", "End", "NodeList", "Timelimit")
SEPARATOR = "|"


class Stage(StrEnum):
    """Where a job is in its life. ENDING: its end is decided, its nodes are still being cleaned."""

    PENDING = "pending"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"
    UNKNOWN = "unknown"

    @property
    def waits(self) -> bool:
        """Whether the job is in the queue."""
        return self is Stage.PENDING


class JobState(StrEnum):
    """Slurm's states of a job (squeue(1), "JOB STATE CODES"), and what they mean to a run."""

    PENDING = "PENDING"
    REQUEUED = "REQUEUED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    REQUEUE_FED = "REQUEUE_FED"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    CONFIGURING = "CONFIGURING"
    RUNNING = "RUNNING"
    RESIZING = "RESIZING"
    SIGNALING = "SIGNALING"
    STOPPED = "STOPPED"
    SUSPENDED = "SUSPENDED"
    COMPLETING = "COMPLETING"
    STAGE_OUT = "STAGE_OUT"
    BOOT_FAIL = "BOOT_FAIL"
    CANCELLED = "CANCELLED"
    COMPLETED = "COMPLETED"
    DEADLINE = "DEADLINE"
    FAILED = "FAILED"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PREEMPTED = "PREEMPTED"
    REVOKED = "REVOKED"
    TIMEOUT = "TIMEOUT"
    UNKNOWN = "UNKNOWN"

    @property
    def stage(self) -> Stage:
        if self is JobState.UNKNOWN:
            return Stage.UNKNOWN
        return next((stage for stage, states in _STAGES.items() if self in states), Stage.ENDED)


_STAGES: dict[Stage, frozenset[JobState]] = {
    Stage.PENDING: frozenset(
        {
            JobState.PENDING,
            JobState.REQUEUED,
            JobState.REQUEUE_HOLD,
            JobState.REQUEUE_FED,
            JobState.SPECIAL_EXIT,
        }
    ),
    Stage.RUNNING: frozenset(
        {
            JobState.CONFIGURING,
            JobState.RUNNING,
            JobState.RESIZING,
            JobState.SIGNALING,
            JobState.STOPPED,
            JobState.SUSPENDED,
        }
    ),
    Stage.ENDING: frozenset({JobState.COMPLETING, JobState.STAGE_OUT}),
}


@frozen
class SlurmJob:
    """One answer about one job; times are seconds since the epoch, None is what was not told.

    `start_at` of a pending job is Slurm's estimate. `hosts` shrinks when nodes are lost (--no-kill). `restarts` counts
    requeues. `canceled_by` is a user id, known only where there is accounting.
    """

    id: int
    state: JobState
    reason: str | None = None
    start_at: int | None = None
    end_at: int | None = None
    hosts: tuple[str, ...] = ()
    batch_host: str | None = None
    restarts: int = 0
    time_limit_s: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    preempted_at: int | None = None
    canceled_by: int | None = None

    @property
    def stage(self) -> Stage:
        return self.state.stage


class EndKind(StrEnum):
    """How a job ended, or, for REQUEUED, how its last start ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    PREEMPTED = "preempted"
    NODE_FAIL = "node_fail"
    CANCELED = "canceled"
    OUT_OF_MEMORY = "out_of_memory"
    BOOT_FAIL = "boot_fail"
    DEADLINE = "deadline"
    NO_OUTPUT = "no_output"
    REQUEUED = "requeued"


@frozen
class JobEnd:
    """The end of a job. NO_OUTPUT: the first node could not write the run folder, nothing was started."""

    kind: EndKind
    exit_code: int | None = None
    signal: int | None = None
    canceled_by: int | None = None


_ENDS: dict[JobState, EndKind] = {
    JobState.COMPLETED: EndKind.COMPLETED,
    JobState.TIMEOUT: EndKind.TIMEOUT,
    JobState.PREEMPTED: EndKind.PREEMPTED,
    JobState.NODE_FAIL: EndKind.NODE_FAIL,
    JobState.CANCELLED: EndKind.CANCELED,
    JobState.REVOKED: EndKind.CANCELED,
    JobState.OUT_OF_MEMORY: EndKind.OUT_OF_MEMORY,
    JobState.BOOT_FAIL: EndKind.BOOT_FAIL,
    JobState.DEADLINE: EndKind.DEADLINE,
}


def job_end(job: SlurmJob) -> JobEnd | None:
    """How the job ended; None while it has not, or while that is not known.

    A pending job that was started before tells the end of that start: REQUEUED.
    """
    if job.stage is Stage.PENDING and job.restarts:
        return JobEnd(EndKind.REQUEUED)
    if job.stage is not Stage.ENDED:
        return None
    kind = _ENDS.get(job.state, EndKind.FAILED)
    if kind is EndKind.FAILED and job.signal == _OUTPUT_SIGNAL and not job.exit_code:
        kind = EndKind.NO_OUTPUT
    return JobEnd(kind, job.exit_code, job.signal, job.canceled_by)


def read_queue(text: str) -> dict[int, SlurmJob]:
    """The jobs in squeue's answer to QUEUE_FIELDS, each followed by SEPARATOR."""
    jobs: dict[int, SlurmJob] = {}
    for line in text.splitlines():
        parts = line.removesuffix(SEPARATOR).split(SEPARATOR, len(QUEUE_FIELDS) - 1)
        if len(parts) == len(QUEUE_FIELDS) and parts[0].isdigit():
            job = _queued(dict(zip(QUEUE_FIELDS, parts, strict=True)))
            jobs[job.id] = job
    return jobs


def _queued(fields: Mapping[str, str]) -> SlurmJob:
    state, _ = _state(fields["State"])
    return SlurmJob(
        id=int(fields["JobID"]),
        state=state,
        reason=_reason(fields["Reason"]),
        start_at=_time(fields["StartTime"]),
        end_at=_time(fields["EndTime"]),
        hosts=hostnames(fields["NodeList"]),
        batch_host=_known(fields["BatchHost"]),
        restarts=int(fields["RestartCnt"] or 0),
        time_limit_s=read_duration(fields["TimeLimit"]),
    )


def read_account(text: str) -> dict[int, SlurmJob]:
    """The jobs in sacct's answer to ACCOUNT_FIELDS."""
    jobs: dict[int, SlurmJob] = {}
    for line in text.splitlines():
        parts = line.split(SEPARATOR)
        if len(parts) != len(ACCOUNT_FIELDS) or not parts[0].isdigit():
            continue
        fields = dict(zip(ACCOUNT_FIELDS, parts, strict=True))
        state, by = _state(fields["State"])
        code, signal = _exit(fields["ExitCode"])
        jobs[int(parts[0])] = SlurmJob(
            id=int(parts[0]),
            state=state,
            start_at=_time(fields["Start"]),
            end_at=_time(fields["End"]),
            hosts=() if fields["NodeList"] == "None assigned" else hostnames(fields["NodeList"]),
            time_limit_s=read_duration(fields["Timelimit"]),
            exit_code=code,
            signal=signal,
            canceled_by=by,
        )
    return jobs


def read_shown(text: str) -> SlurmJob | None:
    """The job in the answer of `scontrol show job --oneliner`."""
    fields = read_pairs(text)
    if not fields.get("JobId", "").isdigit():
        return None
    state, _ = _state(fields.get("JobState", ""))
    code, signal = _exit(fields.get("ExitCode", ""))
    reason = _reason(fields.get("Reason", ""))
    return SlurmJob(
        id=int(fields["JobId"]),
        state=state,
        reason=reason.replace("_", " ") if reason is not None else None,
        start_at=_time(fields.get("StartTime", "")),
        end_at=_time(fields.get("EndTime", "")),
        hosts=hostnames(fields.get("NodeList", "")),
        batch_host=_known(fields.get("BatchHost", "")),
        restarts=int(fields.get("Restarts") or 0),
        time_limit_s=read_duration(fields.get("TimeLimit", "")),
        exit_code=code,
        signal=signal,
        preempted_at=_time(fields.get("PreemptTime", "")),
    )


def read_pairs(text: str) -> dict[str, str]:
    """The Key=value pairs of one line of scontrol's; a value may hold spaces, as a comment and a path do."""
    matches = list(re.finditer(r"(?:^|\s)([A-Z][A-Za-z0-9:/_]*)=", text))
    ends = [match.start() for match in matches[1:]] + [len(text)]
    return {match[1]: text[match.end() : end].strip() for match, end in zip(matches, ends, strict=False)}


def _state(word: str) -> tuple[JobState, int | None]:
    """State and user id of sacct's "CANCELLED by 1000"; a "+" ends a word that it cut short."""
    name, _, by = word.strip().partition(" by ")
    try:
        return JobState(name.rstrip("+").upper()), int(by) if by.isdigit() else None
    except ValueError:
        return JobState.UNKNOWN, None


def _exit(pair: str) -> tuple[int | None, int | None]:
    """Exit code and signal: 3 and None for "3:0", 0 and 9 for "0:9"."""
    code, _, signal = pair.partition(":")
    if not code.isdigit() or not signal.isdigit():
        return None, None
    return int(code), int(signal) or None


def _time(word: str) -> int | None:
    """Seconds since the epoch: SLURM_TIME_FORMAT=%s asks for them."""
    return int(word) if word.isdigit() and int(word) else None


def _known(word: str) -> str | None:
    return None if word in _NOTHING else word


def _reason(word: str) -> str | None:
    return _known(word.strip().strip("()"))

"""Slurm's words in ours: why a job waits, when it may start, how it ended. Pure."""

from __future__ import annotations

import re
import signal as signals

from airlane.backends.slurm.durations import write_duration
from airlane.backends.slurm.jobs import EndKind, JobEnd, SlurmJob

# squeue(1), "JOB REASON CODES". A reason that is not here is shown as it stands.
_REASONS: dict[str, str] = {
    "Priority": "other runs go first",
    "Resources": "waiting for nodes to become free",
    "BeginTime": "Slurm holds it back until its begin time",
    "Cleaning": "Slurm cleans up after its last start",
    "Dependency": "waiting for another Slurm job to end",
    "DependencyNeverSatisfied": "the Slurm job that it waits for ended otherwise: it will not start",
    "Licenses": "waiting for a license",
    "JobHeldUser": "held by its user: scontrol release starts it",
    "JobHeldAdmin": "held by an administrator of the cluster",
    "JobHoldMaxRequeue": "held: Slurm has started it too often",
    "launch failed requeued held": "held: a node could not start it; scontrol release tries again",
    "Reservation": "waiting for its reservation to begin",
    "ReservationDeleted": "its reservation was deleted: it will not start",
    "ReqNodeNotAvail": "the nodes that it needs are down, drained or reserved",
    "NodeDown": "a node that it needs is down",
    "PartitionDown": "the partition does not start anything now",
    "PartitionInactive": "the partition is closed",
    "PartitionNodeLimit": "the partition does not have so many nodes, or does not give them to one run",
    "PartitionTimeLimit": "its time limit is longer than the partition allows",
    "PartitionConfig": "no node of the partition is what it asks for",
    "BadConstraints": "no node is what it asks for",
    "AccountNotAllowed": "its account may not use the partition",
    "QOSNotAllowed": "its QOS may not use the partition",
    "InvalidAccount": "Slurm does not know its account",
    "InvalidQOS": "Slurm does not know its QOS",
    "SystemFailure": "Slurm itself has failed to start it",
    "SchedDefer": "Slurm is busy and looks at it later",
    "DeadLine": "it could not end before its deadline",
    "MaxJobCount": "the cluster holds as many jobs as it can",
}
_LIMIT = re.compile(r"(?P<who>QOS|Assoc|Association)?(?P<kind>Grp|Max|Min|Resource|Job|Time|Usage)(?P<rest>\w*)")
_RESOURCES: tuple[tuple[str, str], ...] = (
    ("GRES", "accelerators"),
    ("CPU", "CPUs"),
    ("Cpu", "CPUs"),
    ("Mem", "memory"),
    ("Node", "nodes"),
    ("Wall", "time"),
    ("Time", "time"),
    ("Billing", "billing units"),
    ("License", "licenses"),
    ("Energy", "energy"),
    ("Job", "jobs"),
)
_UNAVAILABLE = re.compile(r"ReqNodeNotAvail,\s*UnavailableNodes:(.*)")
# Slurm takes a year for a job without a time limit: an estimate behind such a one says nothing.
_LONGEST_ESTIMATE_S = 90 * 86400
_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 86400


def pending_words(job: SlurmJob, now: float) -> str:
    """Why the job waits and when Slurm expects to start it, in one line; `now` is seconds since the epoch."""
    why = reason_words(job.reason)
    if job.reason == "BeginTime" and job.restarts:
        why = "Slurm has put it back into the queue and starts it again"
    expected = start_words(job.start_at, now)
    return f"{why}; {expected}" if expected is not None else why


def reason_words(reason: str | None) -> str:
    """Slurm's reason for waiting, in words; as it stands where we have none."""
    if reason is None:
        return "in Slurm's queue"
    if (match := _UNAVAILABLE.match(reason)) is not None:
        nodes = f": {match[1].strip()}" if match[1].strip() else ""
        return f"{_REASONS['ReqNodeNotAvail']}{nodes}"
    if reason in _REASONS:
        return _REASONS[reason]
    return _limit_words(reason) or reason


def _limit_words(reason: str) -> str | None:
    """A limit of an account or QOS, whose names are made of parts: QOSMaxGRESPerUser, AssocGrpNodeLimit."""
    match = _LIMIT.fullmatch(reason)
    resource = next(
        (words for part, words in _RESOURCES if match is not None and part in match["kind"] + match["rest"]), None
    )
    if match is None or resource is None:
        return None
    who = "account" if (match["who"] or "").startswith("Assoc") else "QOS"
    if "PerJob" in reason or "PerNode" in reason or match["kind"] == "Min":
        fewer = "less" if match["kind"] == "Min" else "more"
        return f"it asks for {fewer} {resource} than its {who} allows one job ({reason})"
    per = " of one user" if "PerUser" in reason else " of one account" if "PerAccount" in reason else ""
    return f"the limit of its {who} on the {resource}{per} is reached ({reason})"


def start_words(start_at: float | None, now: float) -> str | None:
    """Slurm's estimate of the start, relative to now; None where there is none that says something."""
    if start_at is None or not now < start_at < now + _LONGEST_ESTIMATE_S:
        return None
    wait_s = start_at - now
    for size_s, name in ((_DAY_S, "day"), (_HOUR_S, "hour"), (_MINUTE_S, "minute")):
        if wait_s >= 1.5 * size_s or size_s == _MINUTE_S:
            number = max(1, round(wait_s / size_s))
            return f"expected to start in about {number} {name}{'' if number == 1 else 's'}"
    raise AssertionError(wait_s)


def end_words(job: SlurmJob, end: JobEnd) -> str:
    """How Slurm says that the job ended, as a sentence without a full stop."""
    where = f" on {job.batch_host}" if job.batch_host else ""
    match end.kind:
        case EndKind.TIMEOUT:
            limit = f" ({write_duration(job.time_limit_s)})" if job.time_limit_s else ""
            return f"Slurm job {job.id} reached its time limit{limit}"
        case EndKind.CANCELED:
            by = f" by user {end.canceled_by}" if end.canceled_by is not None else ""
            return f"Slurm job {job.id} was canceled{by}"
        case EndKind.FAILED:
            return f"Slurm job {job.id} ended with {_exit_words(end)}{where}"
        case EndKind.NO_OUTPUT:
            return f"Slurm could not write the run folder{where}: the home is not shared with the nodes"
        case _:
            return f"Slurm job {job.id} {_ENDINGS[end.kind]}{where}"


_ENDINGS: dict[EndKind, str] = {
    EndKind.COMPLETED: "ended",
    EndKind.PREEMPTED: "was preempted",
    EndKind.NODE_FAIL: "lost a node",
    EndKind.OUT_OF_MEMORY: "ran out of memory",
    EndKind.BOOT_FAIL: "got nodes that did not boot",
    EndKind.DEADLINE: "reached its deadline",
    EndKind.REQUEUED: "was put back into the queue",
}


def _exit_words(end: JobEnd) -> str:
    if end.signal:
        return signal_name(end.signal)
    return f"exit code {end.exit_code}" if end.exit_code is not None else "a failure"


def signal_name(number: int) -> str:
    """SIGKILL for 9; "signal 64" for one without a name."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"

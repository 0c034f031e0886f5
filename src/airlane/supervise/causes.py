"""Why an attempt ended, in one sentence with the evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from airlane.backends.base import Interruption, NodePlace, NodeReport
from airlane.errors import AirError, BackendError, CapacityError, NodeFailedError
from airlane.store.records import Cause, CauseKind, Limits, NodeRecord
from airlane.store.states import State
from airlane.supervise.rules import Ended, Reason

# (node, record) -> what the node's log says about its end: title, lines, hint; or None.
Evidence = Callable[[int, NodeRecord], "tuple[str | None, tuple[str, ...], str | None] | None"]

_SIGNALLED = 128
_SIGNAL_NAMES = {
    1: "SIGHUP",
    2: "SIGINT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    15: "SIGTERM",
}


def attempt_cause(
    end: Ended,
    reports: Sequence[NodeReport],
    places: Sequence[NodePlace],
    *,
    limits: Limits,
    started_at: float,
    evidence: Evidence,
    interruption: Interruption | None = None,
) -> Cause:
    """The cause of an attempt that the stop rule ended."""
    if end.reason is Reason.FAILURE and end.first is not None:
        report = next(r for r in reports if r.node == end.first)
        host = next(p.host for p in places if p.node == end.first)
        cause = node_cause(report, host, started_at=started_at, evidence=evidence)
        others = tuple(r.node for r in reports if r.node != end.first and _was_stopped(r))
        return replace(cause, collateral_nodes=others)
    match end.reason:
        case Reason.TIMEOUT:
            return _timeout_cause(limits, reports, evidence)
        case Reason.CANCEL:
            return Cause(CauseKind.CANCELED, "the run was canceled")
        case Reason.INTERRUPTED if interruption is not None:
            return interrupted_cause(interruption)
        case Reason.STRAGGLERS:
            return _stragglers_cause(limits, tuple(r.node for r in reports if _was_stopped(r)))
        case _:
            return Cause(CauseKind.COMPLETED, "the command exited with code 0 on every node")


def node_cause(report: NodeReport, host: str, *, started_at: float, evidence: Evidence) -> Cause:
    """The cause of an attempt whose first failure was on this node."""
    node, record = report.node, report.record
    if record is None or record.ended_at is None:
        kind = CauseKind.NODE_FAILED if report.host_failed else CauseKind.NODE_LOST
        summary = f"node {node} ({host}) was lost: {report.lost or 'its agent ended without a word'}"
        return Cause(kind, summary, node=node, host=host)
    after_s = round(max(0.0, record.ended_at - started_at), 3)
    if record.error is not None and not record.exit_code and record.signal is None:
        return Cause(CauseKind.SETUP, f"node {node} ({host}): {record.error}", node=node, host=host, after_s=after_s)
    kind, words = _end_in_words(record)
    left = f"; {record.error}" if record.error is not None else ""
    cause = Cause(
        kind,
        f"node {node} {words}{left}",
        node=node,
        host=host,
        exit_code=record.exit_code,
        signal=record.signal,
        after_s=after_s,
    )
    found = evidence(node, record)
    if found is None:
        return cause
    title, lines, hint = found
    return replace(cause, finding=title, log_lines=lines, hint=hint)


def interrupted_cause(interruption: Interruption) -> Cause:
    """The cause of an attempt whose nodes were taken back, or whose supervisor was ended."""
    told = interruption
    return Cause(told.kind, told.summary, host=told.host, signal=told.signal, hint=told.hint)


def interrupted_state(kind: CauseKind) -> State:
    """The state of an attempt that ended by it."""
    return {CauseKind.TIMEOUT: State.TIMEDOUT, CauseKind.CANCELED: State.CANCELED}.get(kind, State.FAILED)


def refused_cause(error: AirError | OSError) -> Cause:
    """The cause of an attempt that could not start its nodes."""
    if isinstance(error, NodeFailedError):
        return Cause(CauseKind.NODE_FAILED, error.message, host=error.host, hint=error.hint)
    if isinstance(error, OSError):
        words = error.strerror or str(error) or type(error).__name__
        where = f": {error.filename}" if error.filename is not None else ""
        return Cause(CauseKind.SETUP, f"could not prepare the nodes: {words}{where}")
    kind = CauseKind.CAPACITY if isinstance(error, CapacityError) else CauseKind.SETUP
    if isinstance(error, BackendError):
        kind = CauseKind.NODE_LOST
    return Cause(kind, error.message, hint=error.hint)


def duration_words(seconds: float) -> str:
    """300 -> "5 min", 90 -> "1 min 30 s", 0.5 -> "0.5 s"."""
    if seconds < 60:  # noqa: PLR2004
        return f"{seconds:g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min" + (f" {rest} s" if rest else "")


def _stragglers_cause(limits: Limits, late: tuple[int, ...]) -> Cause:
    nodes = ", ".join(str(node) for node in late)
    who, were = ("node", "was") if len(late) == 1 else ("nodes", "were")
    waited = duration_words(limits.straggler_grace_s)
    summary = f"node 0 succeeded; {who} {nodes} had not ended {waited} later and {were} stopped"
    return Cause(CauseKind.COMPLETED, summary, collateral_nodes=late)


def _timeout_cause(limits: Limits, reports: Sequence[NodeReport], evidence: Evidence) -> Cause:
    limit = duration_words(limits.timeout_s or 0.0)
    cause = Cause(CauseKind.TIMEOUT, f"the command was still running after {limit} (timeout_minutes)")
    for report in reports:
        if report.record is not None and _was_stopped(report):
            found = evidence(report.node, report.record)
            if found is not None:
                title, lines, hint = found
                return replace(cause, finding=title, log_lines=lines, hint=hint)
    return cause


def _end_in_words(record: NodeRecord) -> tuple[CauseKind, str]:
    if record.oom_kill:
        return CauseKind.OUT_OF_MEMORY, "ran out of memory and was killed by the kernel"
    if record.signal is not None:
        return CauseKind.SIGNAL, f"was killed by {record.signal}"
    code = record.exit_code
    if code is None:
        return CauseKind.EXIT_CODE, "ended, and its exit code was never told"
    name = _SIGNAL_NAMES.get(code - _SIGNALLED)
    return CauseKind.EXIT_CODE, f"exited with code {code}" + (f" (a process was ended by {name})" if name else "")


def _was_stopped(report: NodeReport) -> bool:
    """Whether the node was asked to stop, or had to be ended by force and told nothing."""
    record = report.record
    return record is None or record.ended_at is None or record.stop_reason is not None

"""The stop rule. Pure: one look at the nodes of an attempt in, the next action out.

Any node that fails fails the attempt, and the first failure in time is its cause. When node 0 has succeeded, the
others get a while to finish. Whatever is asked to stop gets its grace, and is killed after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from airlane.backends.base import NodeReport
from airlane.frozen import frozen
from airlane.store.records import Limits
from airlane.store.states import State

# An agent answers within a moment of its grace; one that does not is hung, and is killed together with its node.
AGENT_MARGIN_S = 5.0
# A killed process that the kernel cannot end (a dead network disk) must not hold the run for ever.
KILL_PATIENCE_S = 15.0


class Reason(StrEnum):
    """Why the nodes of an attempt were asked to stop."""

    FAILURE = "failure"
    TIMEOUT = "timeout"
    CANCEL = "cancel"
    STRAGGLERS = "stragglers"
    INTERRUPTED = "interrupted"


@frozen
class Stopping:
    """That an attempt is being ended: why, since when, because of which node, and since when by force."""

    reason: Reason
    since: float
    first: int | None = None
    killed_since: float | None = None


@frozen
class Situation:
    """Everything the stop rule looks at. Times are epoch seconds.

    `interrupted` is the state that the place gives the attempt whose nodes it takes back.
    """

    now: float
    started_at: float
    limits: Limits
    reports: tuple[NodeReport, ...]
    cancel: bool = False
    stopping: Stopping | None = None
    interrupted: State | None = None


@frozen
class Wait:
    """Nothing to do until something changes, or until `until`."""

    until: float | None


@frozen
class Stop:
    """Ask these nodes to stop; `first` is the node that failed, if one did."""

    nodes: tuple[int, ...]
    reason: Reason
    first: int | None = None


@frozen
class Kill:
    """End these nodes by force."""

    nodes: tuple[int, ...]


@frozen
class Ended:
    """The attempt is over. `first` is the node whose failure came first, if it ended by a failure."""

    state: State
    reason: Reason | None
    first: int | None


Action = Wait | Stop | Kill | Ended


def next_action(situation: Situation) -> Action:
    """What to do about the nodes now."""
    if situation.stopping is not None:
        return _while_stopping(situation, situation.stopping)
    live = tuple(r.node for r in situation.reports if not ended(r))
    if situation.interrupted is not None:
        return Stop(live, Reason.INTERRUPTED)
    first = first_failure(situation.reports)
    by_itself = first is not None and not _was_stopped(next(r for r in situation.reports if r.node == first))
    if situation.cancel and not by_itself and (live or first is not None):
        return Stop(live, Reason.CANCEL)
    if first is not None:
        return Stop(live, Reason.FAILURE, first)
    if not live:
        return Ended(State.SUCCESS, None, None)
    deadlines = _deadlines(situation)
    for reason, deadline in deadlines:
        if situation.now >= deadline:
            return Stop(live, reason)
    return Wait(min((deadline for _, deadline in deadlines), default=None))


def ended(report: NodeReport) -> bool:
    """Whether a node is over: its agent wrote the end, or is gone without having done so."""
    return _ended_at(report) is not None or not report.agent_alive


def failed(report: NodeReport) -> bool:
    """Whether a node ended otherwise than by its command's success."""
    return ended(report) and not (report.record is not None and report.record.succeeded)


def first_failure(reports: Sequence[NodeReport]) -> int | None:
    """The node that failed first in time; one that is gone without a word counts as last."""
    failures = [r for r in reports if failed(r)]
    if not failures:
        return None
    return min(failures, key=lambda r: (_ended_at(r) or float("inf"), r.node)).node


def _ended_at(report: NodeReport) -> float | None:
    return report.record.ended_at if report.record is not None else None


def _deadlines(situation: Situation) -> list[tuple[Reason, float]]:
    deadlines = []
    head = next((r for r in situation.reports if r.node == 0), None)
    head_ended_at = _ended_at(head) if head is not None else None
    if head_ended_at is not None:
        deadlines.append((Reason.STRAGGLERS, head_ended_at + situation.limits.straggler_grace_s))
    if situation.limits.timeout_s is not None:
        deadlines.append((Reason.TIMEOUT, situation.started_at + situation.limits.timeout_s))
    return deadlines


def _while_stopping(situation: Situation, stopping: Stopping) -> Action:
    live = tuple(r.node for r in situation.reports if not ended(r))
    if not live or (stopping.killed_since is not None and situation.now >= stopping.killed_since + KILL_PATIENCE_S):
        return _outcome(situation, stopping)
    if stopping.killed_since is not None:
        return Wait(stopping.killed_since + KILL_PATIENCE_S)
    deadline = stopping.since + situation.limits.stop_grace_s + AGENT_MARGIN_S
    return Kill(live) if situation.now >= deadline else Wait(deadline)


def _outcome(situation: Situation, stopping: Stopping) -> Ended:
    # A command can fail or succeed between the last look and the stop: what the agents saw first is the truth.
    before = [r for r in situation.reports if (_ended_at(r) or float("inf")) <= stopping.since and not _was_stopped(r)]
    early = first_failure(before)
    if early is not None:
        return Ended(State.FAILED, Reason.FAILURE, early)
    if len(before) == len(situation.reports):
        return Ended(State.SUCCESS, None, None)
    match stopping.reason:
        case Reason.FAILURE:
            return Ended(State.FAILED, Reason.FAILURE, stopping.first)
        case Reason.TIMEOUT:
            return Ended(State.TIMEDOUT, Reason.TIMEOUT, None)
        case Reason.CANCEL:
            return Ended(State.CANCELED, Reason.CANCEL, None)
        case Reason.INTERRUPTED:
            return Ended(situation.interrupted or State.FAILED, Reason.INTERRUPTED, None)
        case Reason.STRAGGLERS:
            return Ended(State.SUCCESS, Reason.STRAGGLERS, None)


def _was_stopped(report: NodeReport) -> bool:
    return report.record is not None and report.record.stop_reason is not None

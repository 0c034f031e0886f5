"""Whether to try again. Pure: a run's limits and its attempts in, a decision out."""

from __future__ import annotations

from collections.abc import Sequence

from airlane.frozen import frozen
from airlane.store.records import Attempt, Cause, CauseKind, Limits
from airlane.store.states import State

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 30.0
MAX_PREEMPTIONS = 100
MAX_NODE_FAILURES = 10
_MOST_DOUBLINGS = 16  # far beyond the longest delay: a float could not hold the power of a long retrying run

# These ends say nothing about the command: each is retried so often, whatever max_retries is.
_FREE_KINDS = {CauseKind.PREEMPTED: MAX_PREEMPTIONS, CauseKind.NODE_FAILED: MAX_NODE_FAILURES}
# These ends would be the same the next time, or were asked for.
_FINAL_KINDS = frozenset({CauseKind.COMPLETED, CauseKind.CANCELED, CauseKind.SETUP, CauseKind.CAPACITY})


@frozen
class Retry:
    """Start another attempt after a delay in seconds."""

    delay_s: float


@frozen
class Finish:
    """End the run."""

    state: State
    cause: Cause


Decision = Retry | Finish


def decide(limits: Limits, attempts: Sequence[Attempt]) -> Decision:
    """What follows the last of `attempts`, all of which have ended.

    Failures and timeouts share `max_retries`; a preemption, or a machine that failed, uses up none of them.
    """
    last = attempts[-1]
    if last.state is None or last.cause is None:
        raise AssertionError("the last attempt has not ended")
    if last.cause.kind in _FINAL_KINDS:
        return Finish(last.state, last.cause)
    kinds = [attempt.cause.kind for attempt in attempts if attempt.cause is not None]
    if last.cause.kind in _FREE_KINDS:
        free = kinds.count(last.cause.kind) <= _FREE_KINDS[last.cause.kind]
        return Retry(FIRST_DELAY_S) if free else Finish(last.state, last.cause)
    failures = len(attempts) - sum(kinds.count(kind) for kind in _FREE_KINDS)
    if failures > limits.max_retries:
        return Finish(last.state, last.cause)
    return Retry(min(FIRST_DELAY_S * 2 ** min(failures - 1, _MOST_DOUBLINGS), LONGEST_DELAY_S))

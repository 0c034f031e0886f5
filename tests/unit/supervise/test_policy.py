"""Whether to try again, as a table."""

from __future__ import annotations

import pytest

from airlane.store.records import Attempt, Cause, CauseKind
from airlane.store.states import State
from airlane.supervise.policy import (
    FIRST_DELAY_S,
    LONGEST_DELAY_S,
    MAX_NODE_FAILURES,
    MAX_PREEMPTIONS,
    Finish,
    Retry,
    decide,
)

from .made_nodes import made_limits

STATES = {
    CauseKind.COMPLETED: State.SUCCESS,
    CauseKind.CANCELED: State.CANCELED,
    CauseKind.TIMEOUT: State.TIMEDOUT,
}


def attempts(*kinds: CauseKind) -> list[Attempt]:
    return [
        Attempt(number, 1.0, 2.0, STATES.get(kind, State.FAILED), Cause(kind, f"end {number}"))
        for number, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize("kind", [CauseKind.COMPLETED, CauseKind.CANCELED, CauseKind.SETUP, CauseKind.CAPACITY])
def test_what_would_end_the_same_way_again_is_not_tried_again(kind: CauseKind) -> None:
    (only,) = attempts(kind)
    assert only.cause is not None
    assert decide(made_limits(max_retries=9), [only]) == Finish(STATES.get(kind, State.FAILED), only.cause)


@pytest.mark.parametrize(
    "kind",
    [
        CauseKind.EXIT_CODE,
        CauseKind.SIGNAL,
        CauseKind.OUT_OF_MEMORY,
        CauseKind.TIMEOUT,
        CauseKind.NODE_LOST,
        CauseKind.SUPERVISOR_LOST,
    ],
)
def test_failures_and_timeouts_are_tried_again_as_often_as_the_limit_says(kind: CauseKind) -> None:
    for retries in range(4):
        limits = made_limits(max_retries=retries)
        tried = attempts(*[kind] * (retries + 1))
        last = tried[-1]
        assert last.cause is not None
        assert decide(limits, tried) == Finish(STATES.get(kind, State.FAILED), last.cause)
        for count in range(1, retries + 1):
            assert isinstance(decide(limits, tried[:count]), Retry)


def test_failures_and_timeouts_share_one_budget() -> None:
    tried = attempts(CauseKind.TIMEOUT, CauseKind.EXIT_CODE, CauseKind.TIMEOUT)
    assert isinstance(decide(made_limits(max_retries=2), tried), Finish)
    assert isinstance(decide(made_limits(max_retries=3), tried), Retry)


def test_a_preemption_uses_up_no_retry() -> None:
    limits = made_limits(max_retries=1)
    tried = attempts(*[CauseKind.PREEMPTED] * 20, CauseKind.EXIT_CODE)
    assert isinstance(decide(limits, tried), Retry)
    assert isinstance(decide(limits, attempts(*[CauseKind.PREEMPTED] * 20)), Retry)
    tried = attempts(CauseKind.EXIT_CODE, CauseKind.PREEMPTED, CauseKind.EXIT_CODE)
    assert isinstance(decide(limits, tried), Finish)


def test_preemptions_do_not_go_on_for_ever() -> None:
    limits = made_limits(max_retries=0)
    assert isinstance(decide(limits, attempts(*[CauseKind.PREEMPTED] * MAX_PREEMPTIONS)), Retry)
    assert isinstance(decide(limits, attempts(*[CauseKind.PREEMPTED] * (MAX_PREEMPTIONS + 1))), Finish)


def test_a_machine_that_failed_uses_up_no_retry_but_not_for_ever() -> None:
    limits = made_limits(max_retries=0)
    assert isinstance(decide(limits, attempts(*[CauseKind.NODE_FAILED] * MAX_NODE_FAILURES)), Retry)
    assert isinstance(decide(limits, attempts(*[CauseKind.NODE_FAILED] * (MAX_NODE_FAILURES + 1))), Finish)


def test_preemptions_and_machines_that_failed_are_counted_apart() -> None:
    limits = made_limits(max_retries=1)
    free = [*[CauseKind.PREEMPTED] * MAX_PREEMPTIONS, *[CauseKind.NODE_FAILED] * MAX_NODE_FAILURES]
    assert isinstance(decide(limits, attempts(*free)), Retry)
    assert isinstance(decide(limits, attempts(*free, CauseKind.EXIT_CODE)), Retry)
    assert isinstance(decide(limits, attempts(CauseKind.EXIT_CODE, *free, CauseKind.EXIT_CODE)), Finish)


def test_the_first_failure_after_preemptions_is_tried_again_as_soon_as_the_first_of_all() -> None:
    decision = decide(made_limits(max_retries=3), attempts(*[CauseKind.PREEMPTED] * 5, CauseKind.EXIT_CODE))
    assert decision == Retry(FIRST_DELAY_S)


def test_the_delay_doubles_up_to_half_a_minute() -> None:
    limits = made_limits(max_retries=10)
    delays = []
    for count in range(1, 9):
        decision = decide(limits, attempts(*[CauseKind.EXIT_CODE] * count))
        assert isinstance(decision, Retry)
        delays.append(decision.delay_s)
    assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_a_run_that_was_tried_thousands_of_times_is_tried_again() -> None:
    tried = attempts(*[CauseKind.EXIT_CODE] * 2000)
    assert decide(made_limits(max_retries=100_000), tried) == Retry(LONGEST_DELAY_S)


def test_deciding_before_the_end_is_a_fault_of_ours() -> None:
    with pytest.raises(AssertionError, match="has not ended"):
        decide(made_limits(), [Attempt(0, 1.0)])

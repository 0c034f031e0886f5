"""The stop rule, as tables: what is seen of the nodes, and what is done about it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlane.backends.base import NodeReport
from airlane.store.records import Limits
from airlane.store.states import State
from airlane.supervise.rules import (
    AGENT_MARGIN_S,
    KILL_PATIENCE_S,
    Action,
    Ended,
    Kill,
    Reason,
    Situation,
    Stop,
    Stopping,
    Wait,
    ended,
    failed,
    first_failure,
    next_action,
)

from .made_nodes import LIMITS, START, exited, lost, made_limits, node_record, quiet, runs, stopped

OK, STRAGGLERS, MINUTE = State.SUCCESS, Reason.STRAGGLERS, made_limits(timeout_s=60.0)
SUCCESS = Ended(OK, None, None)
CANCELED = Ended(State.CANCELED, Reason.CANCEL, None)
TIMEDOUT = Ended(State.TIMEDOUT, Reason.TIMEOUT, None)


def failed_by(node: int) -> Ended:
    return Ended(State.FAILED, Reason.FAILURE, node)


def look(
    *reports: NodeReport,
    at: float,
    limits: Limits = LIMITS,
    cancel: bool = False,
    stopping: Stopping | None = None,
    interrupted: State | None = None,
) -> Action:
    return next_action(Situation(START + at, START, limits, reports, cancel, stopping, interrupted))


BEFORE_STOPPING: list[tuple[str, Action, Action]] = [
    ("one runs", look(runs(0), at=9), Wait(None)),
    ("one has not written yet", look(quiet(0), at=9), Wait(None)),
    ("it waits for the timeout", look(runs(0), at=9, limits=MINUTE), Wait(START + 60)),
    ("all succeeded", look(exited(0, 0, 5), exited(1, 0, 6), at=9), SUCCESS),
    ("one failed", look(exited(0, 1, 5), at=9), Stop((), Reason.FAILURE, 0)),
    ("one of two failed", look(runs(0), exited(1, 1, 5), at=9), Stop((0,), Reason.FAILURE, 1)),
    (
        "two failed: the first in time",
        look(exited(0, 1, 5.1), exited(1, 1, 5), runs(2), at=9),
        Stop((2,), Reason.FAILURE, 1),
    ),
    ("two failed at once: the lower one", look(exited(0, 1, 5), exited(1, 1, 5), at=9), Stop((), Reason.FAILURE, 0)),
    ("one is lost", look(runs(0), lost(1), at=9), Stop((0,), Reason.FAILURE, 1)),
    ("one is lost before a word", look(runs(0), lost(1, spoke=False), at=9), Stop((0,), Reason.FAILURE, 1)),
    ("lost counts after failed", look(lost(0), exited(1, 1, 5), at=9), Stop((), Reason.FAILURE, 1)),
    (
        "killed by a signal",
        look(runs(0), NodeReport(1, False, node_record(1, at=2, signal="SIGSEGV")), at=9),
        Stop((0,), Reason.FAILURE, 1),
    ),
    (
        "not even started",
        look(runs(0), NodeReport(1, False, node_record(1, at=2, error="no bash")), at=9),
        Stop((0,), Reason.FAILURE, 1),
    ),
    (
        "the end is written, the agent still there",
        look(runs(0), replace(exited(1, 1, 5), agent_alive=True), at=9),
        Stop((0,), Reason.FAILURE, 1),
    ),
    ("canceled", look(runs(0), runs(1), at=9, cancel=True), Stop((0, 1), Reason.CANCEL)),
    ("canceled after one succeeded", look(exited(0, 0, 5), runs(1), at=9, cancel=True), Stop((1,), Reason.CANCEL)),
    ("canceled when all had succeeded", look(exited(0, 0, 5), at=9, cancel=True), SUCCESS),
    ("canceled when one had failed", look(runs(0), exited(1, 1, 5), at=9, cancel=True), Stop((0,), Reason.FAILURE, 1)),
    ("a moment before the timeout", look(runs(0), at=59.9, limits=MINUTE), Wait(START + 60)),
    ("the timeout to the tick", look(runs(0), at=60, limits=MINUTE), Stop((0,), Reason.TIMEOUT)),
    ("success to the tick of the timeout", look(exited(0, 0, 60), at=60, limits=MINUTE), SUCCESS),
    ("failure to the tick of the timeout", look(exited(0, 1, 60), at=60, limits=MINUTE), Stop((), Reason.FAILURE, 0)),
    ("cancel goes before the timeout", look(runs(0), at=60, cancel=True, limits=MINUTE), Stop((0,), Reason.CANCEL)),
    ("node 0 succeeded", look(exited(0, 0, 5), runs(1), at=9), Wait(START + 305)),
    ("node 1 succeeded", look(runs(0), exited(1, 0, 5), at=9), Wait(None)),
    (
        "the timeout comes before the stragglers' end",
        look(exited(0, 0, 5), runs(1), at=9, limits=MINUTE),
        Wait(START + 60),
    ),
    ("stragglers to the tick", look(exited(0, 0, 5), runs(1), exited(2, 0, 6), at=305), Stop((1,), STRAGGLERS)),
    (
        "stragglers and timeout at once: it succeeded",
        look(exited(0, 0, 5), runs(1), at=999, limits=MINUTE),
        Stop((1,), STRAGGLERS),
    ),
    ("a straggler fails", look(exited(0, 0, 5), exited(1, 1, 100), at=101), Stop((), Reason.FAILURE, 1)),
    (
        "interrupted",
        look(runs(0), exited(1, 0, 5), at=9, interrupted=State.FAILED),
        Stop((0,), Reason.INTERRUPTED),
    ),
    (
        "interrupted goes before what it makes fail",
        look(runs(0), lost(1), at=9, interrupted=State.FAILED),
        Stop((0,), Reason.INTERRUPTED),
    ),
    (
        "interrupted when all have ended",
        look(exited(0, 0, 5), at=9, interrupted=State.TIMEDOUT),
        Stop((), Reason.INTERRUPTED),
    ),
]


@pytest.mark.parametrize(
    ("action", "expected"), [row[1:] for row in BEFORE_STOPPING], ids=[r[0] for r in BEFORE_STOPPING]
)
def test_what_is_done_while_nothing_has_been_stopped(action: Action, expected: Action) -> None:
    assert action == expected


def since(reason: Reason, at: float, *, first: int | None = None, killed: float | None = None) -> Stopping:
    return Stopping(reason, START + at, first, None if killed is None else START + killed)


CANCEL, TIMEOUT, FAILURE, LATE = (
    since(Reason.CANCEL, 10),
    since(Reason.TIMEOUT, 10),
    since(Reason.FAILURE, 10, first=1),
    since(Reason.STRAGGLERS, 10),
)
TAKEN_BACK = since(Reason.INTERRUPTED, 10)
KILLED = since(Reason.CANCEL, 10, killed=45)
GRACE_END = 10 + LIMITS.stop_grace_s + AGENT_MARGIN_S

WHILE_STOPPING: list[tuple[str, Action, Action]] = [
    ("the grace lasts", look(runs(0), at=11, stopping=CANCEL), Wait(START + GRACE_END)),
    ("the grace is over to the tick", look(runs(0), stopped(1, 12), at=GRACE_END, stopping=CANCEL), Kill((0,))),
    ("no grace at all", look(runs(0), at=15, stopping=CANCEL, limits=made_limits(stop_grace_s=0.0)), Kill((0,))),
    ("killed, and it is not gone yet", look(runs(0), at=46, stopping=KILLED), Wait(START + 45 + KILL_PATIENCE_S)),
    ("killed, and the kernel holds it", look(runs(0), at=45 + KILL_PATIENCE_S, stopping=KILLED), CANCELED),
    ("killed, and gone without a word", look(lost(0), at=46, stopping=KILLED), CANCELED),
    ("canceled and stopped", look(stopped(0, 11), stopped(1, 12), at=13, stopping=CANCEL), CANCELED),
    ("canceled, and it saved and exited with 0", look(stopped(0, 11, 0), at=13, stopping=CANCEL), CANCELED),
    ("timed out and stopped", look(stopped(0, 11), at=13, stopping=TIMEOUT), TIMEDOUT),
    ("timed out, and it failed while it was stopped", look(stopped(0, 11, 1), at=13, stopping=TIMEOUT), TIMEDOUT),
    ("failed, the others stopped", look(stopped(0, 11), exited(1, 1, 9), at=13, stopping=FAILURE), failed_by(1)),
    (
        "failed, an earlier failure came to light",
        look(exited(0, 1, 8), exited(1, 1, 9), at=13, stopping=FAILURE),
        failed_by(0),
    ),
    ("lost, an earlier failure came to light", look(exited(0, 1, 8), lost(1), at=13, stopping=FAILURE), failed_by(0)),
    ("lost, another one fails later by itself", look(exited(0, 1, 12), lost(1), at=13, stopping=FAILURE), failed_by(1)),
    ("canceled in the moment of success", look(exited(0, 0, 9.9), exited(1, 0, 9), at=13, stopping=CANCEL), SUCCESS),
    ("canceled to the tick of success", look(exited(0, 0, 10), at=13, stopping=CANCEL), SUCCESS),
    ("success after the cancel", look(exited(0, 0, 10.1), at=13, stopping=CANCEL), CANCELED),
    (
        "canceled in the moment of failure",
        look(exited(0, 1, 9.9), stopped(1, 11), at=13, stopping=CANCEL),
        failed_by(0),
    ),
    ("timed out in the moment of success", look(exited(0, 0, 10), at=13, stopping=TIMEOUT), SUCCESS),
    (
        "one had succeeded, the other was canceled",
        look(exited(0, 0, 9), stopped(1, 11), at=13, stopping=CANCEL),
        CANCELED,
    ),
    ("stragglers stopped", look(exited(0, 0, 5), stopped(1, 11), at=13, stopping=LATE), Ended(OK, STRAGGLERS, None)),
    ("stragglers killed", look(exited(0, 0, 5), lost(1), at=13, stopping=LATE), Ended(OK, STRAGGLERS, None)),
    (
        "a straggler failed before it was stopped",
        look(exited(0, 0, 5), exited(1, 1, 9), at=13, stopping=LATE),
        failed_by(1),
    ),
    (
        "interrupted and stopped",
        look(stopped(0, 11), at=13, stopping=TAKEN_BACK, interrupted=State.FAILED),
        Ended(State.FAILED, Reason.INTERRUPTED, None),
    ),
    (
        "interrupted by a time limit",
        look(stopped(0, 11), at=13, stopping=TAKEN_BACK, interrupted=State.TIMEDOUT),
        Ended(State.TIMEDOUT, Reason.INTERRUPTED, None),
    ),
    (
        "interrupted, and nobody knows any more by what",
        look(stopped(0, 11), at=13, stopping=TAKEN_BACK),
        Ended(State.FAILED, Reason.INTERRUPTED, None),
    ),
    (
        "interrupted in the moment of success",
        look(exited(0, 0, 10), at=13, stopping=TAKEN_BACK, interrupted=State.FAILED),
        SUCCESS,
    ),
    (
        "interrupted in the moment of failure",
        look(exited(0, 1, 9.9), stopped(1, 11), at=13, stopping=TAKEN_BACK, interrupted=State.FAILED),
        failed_by(0),
    ),
    (
        "interrupted, and the machine took the node with it",
        look(lost(0), stopped(1, 11), at=13, stopping=TAKEN_BACK, interrupted=State.FAILED),
        Ended(State.FAILED, Reason.INTERRUPTED, None),
    ),
]


@pytest.mark.parametrize(
    ("action", "expected"), [row[1:] for row in WHILE_STOPPING], ids=[r[0] for r in WHILE_STOPPING]
)
def test_what_is_done_once_nodes_were_asked_to_stop(action: Action, expected: Action) -> None:
    assert action == expected


def test_a_cancel_changes_nothing_about_a_stop_that_is_under_way() -> None:
    reports = (stopped(0, 11), exited(1, 1, 9))
    assert look(*reports, at=13, stopping=FAILURE, cancel=True) == look(*reports, at=13, stopping=FAILURE)


def test_nodes_that_were_stopped_from_outside_when_the_run_is_canceled_did_not_fail() -> None:
    canceled = look(stopped(0, 11), runs(1), at=12, cancel=True)
    assert canceled == Stop((1,), Reason.CANCEL)
    assert look(stopped(0, 11), stopped(1, 11), at=12, cancel=True) == Stop((), Reason.CANCEL)


def test_a_node_that_failed_by_itself_counts_before_a_cancel() -> None:
    assert look(exited(0, 3, 11), runs(1), at=12, cancel=True) == Stop((1,), Reason.FAILURE, 0)


def test_what_counts_as_ended_and_as_failed() -> None:
    table = {
        "runs": (runs(0), False, False),
        "quiet": (quiet(0), False, False),
        "succeeded": (exited(0, 0, 1), True, False),
        "failed": (exited(0, 3, 1), True, True),
        "lost": (lost(0), True, True),
        "lost before a word": (lost(0, spoke=False), True, True),
        "no bash": (exited(0, 0, 1, error="no bash"), True, True),
    }
    assert {name: (ended(report), failed(report)) for name, (report, _, _) in table.items()} == {
        name: row[1:] for name, row in table.items()
    }


def test_the_first_failure_of_none_is_none() -> None:
    assert first_failure([]) is None
    assert first_failure([runs(0), exited(1, 0, 3)]) is None


CODES = st.sampled_from([0, 1, 137])
REPORTS = st.lists(
    st.one_of(
        st.just(runs(0)),
        st.just(quiet(0)),
        st.just(lost(0)),
        st.builds(lambda code, at: exited(0, code, at), CODES, st.floats(0, 100)),
        st.builds(lambda code, at: stopped(0, at, code), CODES, st.floats(0, 100)),
    ),
    min_size=1,
    max_size=4,
)
STOPPINGS = st.none() | st.builds(
    lambda reason, at, killed: since(reason, at, first=0, killed=at + killed if killed is not None else None),
    st.sampled_from(Reason),
    st.floats(0, 100),
    st.none() | st.floats(0, 50),
)


@given(REPORTS, STOPPINGS, st.floats(0, 500), st.booleans(), st.sampled_from([None, 60.0]))
def test_whatever_is_seen_the_rule_asks_for_something_sensible(
    reports: list[NodeReport], stopping: Stopping | None, at: float, cancel: bool, timeout_s: float | None
) -> None:
    numbered = tuple(
        replace(report, node=node, record=replace(report.record, node_rank=node) if report.record else None)
        for node, report in enumerate(reports)
    )
    now = max(START + at, stopping.since if stopping else 0, (stopping.killed_since or 0) if stopping else 0)
    situation = Situation(now, START, made_limits(timeout_s=timeout_s), numbered, cancel, stopping)
    live = {report.node for report in numbered if not ended(report)}
    match next_action(situation):
        case Wait(until):
            assert live
            assert until is None or until > now, "it would wait for the past"
        case Stop(nodes, _, first):
            assert stopping is None, "nodes are asked to stop once"
            assert set(nodes) == live
            assert first is None or first not in live
        case Kill(nodes):
            assert set(nodes) == live
            assert stopping is not None
            assert stopping.killed_since is None, "nodes are killed once"
        case Ended(state, reason, first):
            assert not live or (stopping is not None and stopping.killed_since is not None)
            assert state.terminal
            assert (first is None) is (reason is not Reason.FAILURE) or first is None

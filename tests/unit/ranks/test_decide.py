"""Whether another generation follows, as a table."""

from __future__ import annotations

import pytest

from airlane.ranks.decide import DONE, FAILED, HUNG, LOST, PORT_TAKEN, STOPPED, Spent, decide


@pytest.mark.parametrize("why", [DONE, STOPPED])
def test_what_is_done_or_stopped_is_not_started_again(why: str) -> None:
    assert not decide(why, Spent(), max_restarts=9).again


@pytest.mark.parametrize("why", [FAILED, HUNG, LOST])
def test_restarts_are_bounded(why: str) -> None:
    spent, generations = Spent(), 1
    while (decision := decide(why, spent, max_restarts=2)).again:
        spent, generations = decision.spent, generations + 1
    assert (generations, spent.restarts) == (3, 2)


def test_a_lost_seat_is_replaced_and_all_else_starts_where_it_was() -> None:
    assert decide(LOST, Spent(), max_restarts=1).replace
    assert not decide(FAILED, Spent(), max_restarts=1).replace


def test_a_taken_port_costs_no_restart() -> None:
    decision = decide(PORT_TAKEN, Spent(), max_restarts=0)
    assert decision.again
    assert decision.spent.restarts == 0


def test_a_port_that_is_taken_again_and_again_becomes_a_failure_like_any_other() -> None:
    spent, tries = Spent(), 0
    while (decision := decide(PORT_TAKEN, spent, max_restarts=1)).again:
        spent, tries = decision.spent, tries + 1
    assert (tries, spent.restarts) == (4, 1)

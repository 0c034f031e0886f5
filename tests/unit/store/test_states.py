"""States, their meaning, and the one table of moves."""

from __future__ import annotations

import itertools

import pytest

from airlane.store.states import MOVES, State, may_move

TERMINAL = {State.SUCCESS, State.FAILED, State.TIMEDOUT, State.CANCELED}


@pytest.mark.parametrize("state", State)
def test_every_state_has_moves_and_a_label(state: State) -> None:
    assert state in MOVES
    assert state.label
    assert state.label == state.label.lower()


@pytest.mark.parametrize("state", State)
def test_a_state_is_terminal_or_has_a_way_to_every_end_it_can_have(state: State) -> None:
    assert state.terminal is (state in TERMINAL)
    reached, frontier = set(), {state}
    while frontier:
        reached |= frontier
        frontier = {after for before in frontier for after in MOVES[before]} - reached
    assert reached & TERMINAL
    if not state.terminal:
        assert reached >= TERMINAL


def test_labels_differ() -> None:
    assert len({state.label for state in State}) == len(State)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(State, State)))
def test_nothing_leaves_a_terminal_state_and_nothing_goes_back_to_waiting(before: State, after: State) -> None:
    if before.terminal:
        assert not may_move(before, after)
    elif after is State.PENDING:
        assert may_move(before, after) is (before is State.PENDING)
    else:
        assert may_move(State.RUNNING, after)


def test_a_run_that_never_ran_neither_succeeds_nor_runs_out_of_time() -> None:
    assert not may_move(State.PENDING, State.SUCCESS)
    assert not may_move(State.PENDING, State.TIMEDOUT)

"""The states of a run, what each means, and the one table of legal moves."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """What people see. A terminal state never changes again."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    TIMEDOUT = "TIMEDOUT"
    CANCELED = "CANCELED"

    @property
    def terminal(self) -> bool:
        return not MOVES[self]

    @property
    def label(self) -> str:
        """The state in a sentence: "the run is ..."."""
        return _LABELS[self]


MOVES: dict[State, frozenset[State]] = {
    State.PENDING: frozenset({State.RUNNING, State.FAILED, State.CANCELED}),
    State.RUNNING: frozenset({State.SUCCESS, State.FAILED, State.TIMEDOUT, State.CANCELED}),
    State.SUCCESS: frozenset(),
    State.FAILED: frozenset(),
    State.TIMEDOUT: frozenset(),
    State.CANCELED: frozenset(),
}

_LABELS: dict[State, str] = {
    State.PENDING: "waiting to start",
    State.RUNNING: "running",
    State.SUCCESS: "finished",
    State.FAILED: "failed",
    State.TIMEDOUT: "out of time",
    State.CANCELED: "canceled",
}


class Phase(StrEnum):
    """What a run is doing within PENDING or RUNNING; None in records once it is terminal."""

    PREPARING = "preparing"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    RETRYING = "retrying"
    STOPPING = "stopping"


def may_move(before: State, after: State) -> bool:
    """Whether a status may follow another; staying in a state that is not terminal is allowed."""
    return after in MOVES[before] or (before is after and not before.terminal)

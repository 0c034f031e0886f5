"""What comes after a generation: pure, so that every case can be looked at. The launcher obeys."""

from __future__ import annotations

from dataclasses import dataclass

# Why a generation is over.
DONE, FAILED, HUNG, LOST, PORT_TAKEN, STOPPED = "done", "failed", "hung", "lost", "port taken", "stopped"
EXIT_HUNG = 124  # as timeout(1) reports it
_MOST_PORTS = 3


@dataclass(frozen=True)
class Spent:
    """What earlier generations have used up."""

    restarts: int = 0
    ports: int = 0


@dataclass(frozen=True)
class Decision:
    """Either the launch is over (`again` False), or another generation follows; `replace`: on newly placed seats."""

    again: bool
    spent: Spent
    replace: bool = False


def decide(why: str, spent: Spent, *, max_restarts: int) -> Decision:
    """A port that somebody took costs no restart; a lost seat needs another place; all else is started where it was."""
    if why in (DONE, STOPPED):
        return Decision(again=False, spent=spent)
    if why == PORT_TAKEN and spent.ports < _MOST_PORTS:
        return Decision(again=True, spent=Spent(spent.restarts, spent.ports + 1))
    if spent.restarts >= max_restarts:
        return Decision(again=False, spent=spent)
    return Decision(again=True, spent=Spent(spent.restarts + 1, spent.ports), replace=why == LOST)

"""Everything that a screen shows at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airlane.top.history import History
from airlane.top.listing import Context
from airlane.top.nodes import node_names
from airlane.top.totals import Totals, totals
from airlane.top.values import Panel, Snapshot
from airlane.top.words import UNICODE, Marks

OLD_AFTER_ROUNDS = 2
_LEAST_OLD_S = 10.0


@dataclass(frozen=True, slots=True)
class View:
    """A round, what it sums up to, and what was before. `snapshot` is None until the first answer.

    `notice` is what became of a key, for some seconds.
    """

    now: float
    snapshot: Snapshot | None = None
    totals: Totals = field(default_factory=Totals)
    history: History = field(default_factory=History)
    names: Mapping[str, str] = field(default_factory=dict)
    marks: Marks = UNICODE
    interval_s: float = 2.0
    paused: bool = False
    asked_at: float | None = None
    notice: str | None = None

    @property
    def context(self) -> Context:
        return Context(self.now, self.marks, self.names)

    def old_s(self, panel: Panel[object]) -> float | None:
        """How old its data is, where that is more than two rounds, and than what is asked for less often may be."""
        age = panel.age_s(self.now)
        return age if age is not None and age > max(OLD_AFTER_ROUNDS * self.interval_s + 1, _LEAST_OLD_S) else None


def view_of(snapshot: Snapshot, now: float, *, history: History | None = None, marks: Marks = UNICODE) -> View:
    """One round alone, as it is printed once; with a history, as it is added to the rounds before."""
    sums = totals(snapshot)
    kept = History() if history is None else history
    kept.add(snapshot, sums)
    return View(now, snapshot, sums, kept, node_names(snapshot.nodes.data), marks)

"""How ranks ended, and which of them ended first: the others followed it. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from airlane.ranks.rank_map import spans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_SIGNALED = 128
NOT_STARTED = 127
# A node is missed some seconds after it has gone, and by then other ranks have failed for want of it.
_MISSED_AFTER_S = 5.0


@dataclass(frozen=True)
class RankEnd:
    """`at_s` is by the launcher's clock. `lost` says why nothing more was heard; `error` why it could not be started.

    `asked` when we had asked it to end before it did.
    """

    rank: int
    at_s: float
    exit_code: int | None = None
    signal: int | None = None
    lost: str | None = None
    error: str | None = None
    out_of_memory: bool = False
    asked: bool = False

    @property
    def failed(self) -> bool:
        return self.exit_code != 0

    @property
    def code(self) -> int:
        """As a shell reports it; 1 for what has none."""
        if self.error is not None:
            return NOT_STARTED
        if self.signal is not None:
            return _SIGNALED + self.signal
        return 1 if self.exit_code is None else self.exit_code

    @property
    def words(self) -> str:
        if self.error is not None:
            return f"could not be started: {self.error}"
        if self.lost is not None:
            return f"was lost: {self.lost}"
        if self.signal is not None:
            memory = " (the machine ran out of memory)" if self.out_of_memory else ""
            return f"was killed by {signal_name(self.signal)}{memory}"
        return f"exited with code {self.exit_code}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def first_failure(ends: Iterable[RankEnd]) -> RankEnd | None:
    """The rank that failed of itself, before any other; None where none did.

    A lost rank goes before those that failed shortly before it was missed; of those of a node, the lowest.
    """
    own = sorted((end for end in ends if end.failed and not end.asked), key=lambda end: (end.at_s, end.rank))
    if not own:
        return None
    missed = [end for end in own if end.lost is not None and end.at_s <= own[0].at_s + _MISSED_AFTER_S]
    return min(missed, key=lambda end: end.rank, default=own[0])


def folded(ends: Iterable[RankEnd], first: RankEnd) -> list[str]:
    """What became of the others, in one line for those that failed after it and one for those that were stopped."""
    others = [end for end in ends if end.rank != first.rank and end.failed]
    after: dict[str, list[int]] = {}
    for end in others:
        if not end.asked:
            after.setdefault(end.words, []).append(end.rank)
    stopped = [end.rank for end in others if end.asked]
    lines = []
    if after:
        failed = "; ".join(f"{ranks_in_words(ranks)} {words}" for words, ranks in after.items())
        lines.append(f"after it, {failed}")
    if stopped:
        lines.append(f"{ranks_in_words(stopped)} {'was' if len(stopped) == 1 else 'were'} stopped because of it")
    return lines


def ranks_in_words(ranks: Iterable[int]) -> str:
    """Such as "rank 3" or "ranks 0-2, 5"."""
    numbers = sorted(set(ranks))
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {spans(numbers)}"

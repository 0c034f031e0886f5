"""How a generation ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airlane.ranks.ends import RankEnd


@dataclass(frozen=True)
class Outcome:
    """`why` is one of decide.py's words. `first` is the rank whose failure ended it, and `words` its last ones.

    `stacks` are what each rank showed when all hung, `states` what the kernel said of them.
    """

    why: str
    began_s: float
    ends: tuple[RankEnd, ...] = ()
    first: RankEnd | None = None
    words: Sequence[str] = ()
    stacks: Mapping[int, list[str]] = field(default_factory=dict)
    states: Mapping[int, str] = field(default_factory=dict)

    @property
    def lost(self) -> frozenset[int]:
        """The ranks of which nothing more was heard."""
        return frozenset(end.rank for end in self.ends if end.lost is not None)

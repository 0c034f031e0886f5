"""What becomes of corrupt rows and of documents that are too long: all refused together, or left out and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from recipes.engine.data.encoding import Encoded
from recipes.engine.data.formats import Text
from recipes.engine.data.rows import Corrupt
from recipes.engine.data.settings import Data
from recipes.errors import RecipeError

T = TypeVar("T")
TOLD_AT_ONCE = 10


class Inspection:
    """Lets through what can be learned from, and counts or refuses the rest."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._refused: list[Corrupt] = []
        self._refused_count = 0
        self._hints: list[str] = []
        self.counts: Counter[str] = Counter()

    def readable(self, items: Iterable[T | Corrupt]) -> Iterator[T]:
        """The items that are not corrupt; once one is refused, it only looks for more of them."""
        sound = True
        for item in items:
            if isinstance(item, Corrupt):
                self._leave_out(item)
                sound = self._data.corrupt == "skip"
            elif sound:
                yield item

    def admitted(self, items: Iterable[T | Corrupt]) -> Iterator[T]:
        """The items that are not corrupt."""
        for item in items:
            if isinstance(item, Corrupt):
                self._leave_out(item)
            else:
                yield item

    def fitted(self, encoded: Encoded) -> Iterator[Encoded]:
        """The document, or what of it is short enough."""
        longest = self._data.max_tokens
        if len(encoded.ids) <= longest:
            parts = [encoded]
        elif self._data.too_long == "refuse":
            problem = f"is {len(encoded.ids):,} tokens long; data.max_tokens={longest}"
            hint = "Take a larger data.max_tokens, or data.too_long=cut or skip"
            self._refuse(Corrupt(encoded.sample.place, problem, hint))
            return
        elif self._data.too_long == "skip":
            self.counts["too_long"] += 1
            return
        elif isinstance(encoded.sample.document, Text):
            self.counts["parted"] += 1
            # A part begins with the last token of the one before: the first is not learned, and so each one is, once.
            starts = range(0, len(encoded.ids) - 1, longest - 1)
            parts = [part(encoded, start, start + longest) for start in starts]
        else:
            self.counts["cut"] += 1
            parts = [part(encoded, 0, longest)]
        learned = [one for one in parts if one.learn_T.any()]
        self.counts["nothing_learned"] += not learned
        yield from learned

    def close(self) -> None:
        """Raise RecipeError if something was refused, with where and why."""
        if self._refused_count:
            more = self._refused_count - len(self._refused)
            raise RecipeError(
                [*map(str, self._refused), *([f"and {more:,} more"] if more else [])], "\n".join(self._hints)
            )

    def _leave_out(self, corrupt: Corrupt) -> None:
        if self._data.corrupt == "refuse":
            self._refuse(corrupt)
        else:
            self.counts["corrupt"] += 1

    def _refuse(self, corrupt: Corrupt) -> None:
        self._refused_count += 1
        if len(self._refused) < TOLD_AT_ONCE:
            self._refused.append(corrupt)
        if corrupt.hint not in self._hints:
            self._hints.append(corrupt.hint)


def part(encoded: Encoded, start: int, end: int) -> Encoded:
    """Some of its tokens, as a document of their own."""
    learned = np.array(encoded.learn_T[start:end])
    learned[:1] = False
    return Encoded(encoded.sample, encoded.ids[start:end], learned)

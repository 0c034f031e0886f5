"""Lists of Ray's state API: /api/v0/nodes, actors, placement_groups.

Source: Ray 2.60, util/state. It takes at most 10,000 rows from where they are kept, and says nothing when that is not
all: `total` is how many there are there, before a filter, `num_after_truncation` how many of them it took,
`num_filtered` how many of these the filter let through, and `result` holds at most `limit` of those. Only filters for
"=" reach the place where the rows are kept; then `num_after_truncation` counts those that were left out, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from airlane.top.fields import dig, text, whole
from airlane.top.reading.pieces import read_pieces

T = TypeVar("T")

MOST = 10_000
_PATH = ("data", "result", "result")


def read_rows(
    body: bytes, make: Callable[[dict[str, Any]], T], known: dict[int, T] | None = None
) -> tuple[list[T], int]:
    """What is made of the rows of a list, and how many there are beyond those. `known` as in `read_pieces`.

    Raises:
        ValueError: this is no such answer.
    """
    pieces = read_pieces(body, _PATH, make, known=known)
    answer = pieces.around
    if type(dig(answer, *_PATH)) is not list:
        raise ValueError(refusal(answer) or "it has no list")
    counts = dig(answer, "data", "result")
    found = len(pieces.made)
    left = (whole(counts.get("total")) or 0) - (whole(counts.get("num_after_truncation")) or 0)
    filtered = whole(counts.get("num_filtered")) or 0
    return pieces.made, max(0, left) + max(0, filtered - found)


def refusal(answer: Any) -> str | None:
    """Why Ray answered without data, in its words."""
    return text(dig(answer, "msg")) or None if dig(answer, "result") is False else None

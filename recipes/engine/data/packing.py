"""Which documents are put together: as few packs as fit, or packs of documents of similar length.

Shapes: D documents, P packs.
"""
# ruff: noqa: N803, N806, N815 - the shapes are in capitals

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import ceil

import numpy as np

from recipes.engine.data.settings import Data

# A larger window of the shuffled documents fills packs better, and leaves less to chance which documents meet.
WINDOW_DOCUMENTS = 4096
WINDOW_PACKS = 100  # the last pack of a window is seldom full
WINDOW_GROUPS = 50  # documents of this many groups are sorted by length together


@dataclass(frozen=True, eq=False)
class Packs:
    """P packs; pack p holds the documents from bounds_P1[p] to bounds_P1[p + 1] of `documents_D`."""

    documents_D: np.ndarray
    bounds_P1: np.ndarray

    def __len__(self) -> int:
        return len(self.bounds_P1) - 1

    def __getitem__(self, pack: int) -> np.ndarray:
        return self.documents_D[self.bounds_P1[pack] : self.bounds_P1[pack + 1]]


def packed(lengths_D: np.ndarray, pack_tokens: int, random: np.random.Generator) -> Packs:
    """Every document once, whole, in packs of at most `pack_tokens`."""
    order_D = random.permutation(len(lengths_D))
    window = max(WINDOW_DOCUMENTS, WINDOW_PACKS * pack_tokens * len(lengths_D) // int(lengths_D.sum()))
    packs: list[list[int]] = []
    for documents in np.array_split(order_D, ceil(len(order_D) / window)):
        names = documents.tolist()
        bins = best_fit(lengths_D[documents].tolist(), pack_tokens)
        packs += [[names[place] for place in places] for places in bins]
    sizes = accumulate(map(len, packs), initial=0)
    return Packs(np.fromiter(chain.from_iterable(packs), np.int64, len(order_D)), np.fromiter(sizes, np.int64))


def best_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Places in `lengths`, in bins: the longest first, each into the bin that it leaves the least room in.

    A length over the capacity has a bin to itself.
    """
    bins: list[list[int]] = []
    rooms: list[int] = []  # ascending, each once
    with_room: dict[int, list[list[int]]] = {}
    for place in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        length = lengths[place]
        found = bisect_left(rooms, length)
        if found < len(rooms):
            room = rooms[found]
            chosen = with_room[room].pop()
            if not with_room[room]:
                del rooms[found]
        else:
            room = capacity
            chosen = []
            bins.append(chosen)
        chosen.append(place)
        left = room - length
        if left > 0:
            if not with_room.setdefault(left, []):
                insort(rooms, left)
            with_room[left].append(chosen)
    return bins


def grouped(lengths_D: np.ndarray, pack_documents: int, random: np.random.Generator) -> Packs:
    """Every document once, with others of similar length."""
    order_D = random.permutation(len(lengths_D))
    windows = np.array_split(order_D, ceil(len(order_D) / (WINDOW_GROUPS * pack_documents)))
    by_length = [window[np.argsort(-lengths_D[window], kind="stable")] for window in windows]
    return of_size(np.concatenate(by_length), pack_documents)


def of_size(documents_D: np.ndarray, pack_documents: int) -> Packs:
    """So many documents a pack, in the order given."""
    bounds_P = np.arange(0, len(documents_D), pack_documents)
    return Packs(documents_D, np.append(bounds_P, len(documents_D)))


def partition(lengths_D: np.ndarray, data: Data, random: np.random.Generator) -> Packs:
    """The packs that `data.packing` asks for."""
    kinds: dict[str, Callable[[], Packs]] = {
        "packed": lambda: packed(lengths_D, data.pack_tokens, random),
        "grouped": lambda: grouped(lengths_D, data.pack_documents, random),
        "none": lambda: of_size(random.permutation(len(lengths_D)), data.pack_documents),
    }
    return kinds[data.packing]()

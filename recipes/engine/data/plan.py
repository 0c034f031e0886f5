"""Which documents each step learns from: a function of the seed and the step, whatever the number of workers.

Shapes: D documents, P packs of an epoch.
"""
# ruff: noqa: N803, N806 - the shapes are in capitals

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from math import ceil

import numpy as np

from recipes.engine.data.corpus import Corpus, Pack
from recipes.engine.data.packing import Packs, grouped, packed, partition
from recipes.engine.data.settings import Data


@dataclass(frozen=True, eq=False)
class GlobalBatch:
    """What one step learns from, over all workers; `epoch` is how often all documents were seen when it is done."""

    step: int
    epoch: float
    packs: tuple[np.ndarray, ...]  # the documents of each, the longest pack first
    learned: int  # tokens

    def of_rank(self, rank: int, world: int) -> list[np.ndarray]:
        """The packs of one rank; every rank has the same number of them, if need be by packs without documents."""
        nothing = np.zeros(0, np.int64)
        return [
            self.packs[pack] if pack < len(self.packs) else nothing
            for pack in range(rank, ceil(len(self.packs) / world) * world, world)
        ]


class Plan:
    """The packs of every step, `data.packs` each; steps count from 1.

    An epoch has every document once, in an order that depends on the seed and the epoch. The next one follows without a
    gap: a step may take the last packs of one and the first of another. Packs are as many in every epoch, so that any
    step is found without a look at those before it: packed documents stay together, and packs change their order.
    """

    def __init__(self, lengths_D: np.ndarray, learned_D: np.ndarray, data: Data, seed: int) -> None:
        self.packs_per_step = data.packs
        self._lengths_D = lengths_D
        self._learned_D = learned_D
        self._data = data
        self._seed = seed
        self._packed = partition(lengths_D, data, np.random.default_rng(seed)) if data.packing == "packed" else None
        self.packs_per_epoch = len(self._packed or self._packs(0))
        self._shuffled = lru_cache(maxsize=2)(self._shuffle)

    def steps_in(self, epochs: float) -> int:
        """Steps until every document was seen so many times."""
        return max(1, ceil(epochs * self.packs_per_epoch / self.packs_per_step))

    def steps(self, first_step: int = 1) -> Iterator[GlobalBatch]:
        """Every step from `first_step` on, without end."""
        return (self.step(step) for step in count(first_step))

    def step(self, step: int) -> GlobalBatch:
        """What this step learns from."""
        first = (step - 1) * self.packs_per_step
        packs = [self._pack(pack) for pack in range(first, first + self.packs_per_step)]
        # Ranks take turns in this order: at any time they work on packs of about the same length.
        packs.sort(key=lambda documents: int(self._lengths_D[documents].sum()), reverse=True)
        learned = sum(int(self._learned_D[documents].sum()) for documents in packs)
        return GlobalBatch(step, (first + len(packs)) / self.packs_per_epoch, tuple(packs), learned)

    def _pack(self, pack: int) -> np.ndarray:
        """A pack by its number in the whole training."""
        epoch, place = divmod(pack, self.packs_per_epoch)
        packs, order_P = self._shuffled(epoch)
        return packs[order_P[place]]

    def _shuffle(self, epoch: int) -> tuple[Packs, np.ndarray]:
        packs = self._packed or self._packs(epoch)
        return packs, np.random.default_rng([self._seed, epoch, 1]).permutation(len(packs))

    def _packs(self, epoch: int) -> Packs:
        return partition(self._lengths_D, self._data, np.random.default_rng([self._seed, epoch]))


def packs_in_all(corpus: Corpus, data: Data) -> int:
    """How many packs an epoch has; no more than a step takes are counted."""
    if data.packing == "packed":
        many = len(corpus.ids_N) > data.packs * data.pack_tokens
    else:
        many = len(corpus) > data.packs * data.pack_documents
    return data.packs if many else Plan(corpus.lengths_D, corpus.learned_D, data, seed=0).packs_per_epoch


def evaluation_batch(corpus: Corpus, data: Data) -> GlobalBatch:
    """Every document once, in packs that are the same whenever they are asked for."""
    random = np.random.default_rng(0)
    if data.packing == "packed":
        packs = packed(corpus.lengths_D, data.pack_tokens, random)
    else:
        packs = grouped(corpus.lengths_D, data.pack_documents, random)
    return GlobalBatch(0, 0, tuple(packs[pack] for pack in range(len(packs))), int(corpus.learned_D.sum()))


def packs_of_rank(corpus: Corpus, batch: GlobalBatch, rank: int, world: int) -> list[Pack]:
    """A rank's share of a batch; every rank has as many packs."""
    return [corpus.pack(documents) for documents in batch.of_rank(rank, world)]

"""Every step has its packs, whoever computes it and whenever."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from recipes.engine.data.packing import best_fit
from recipes.engine.data.plan import GlobalBatch, Plan, evaluation_batch
from recipes.engine.data.settings import Data

from .made import corpus_of, lengths_like_texts

PACKINGS = ("packed", "grouped", "none")
LENGTHS = lengths_like_texts(3000, 256)
CORPUS = corpus_of(LENGTHS)


def data(packing: str, **more: int) -> Data:
    return Data(packing=packing, **{"max_tokens": 256, "pack_tokens": 512, "pack_documents": 7, "packs": 5} | more)  # type: ignore[arg-type]


def plan(packing: str, seed: int = 3, **more: int) -> Plan:
    return Plan(CORPUS.lengths_D, CORPUS.learned_D, data(packing, **more), seed)


def same(one: GlobalBatch, other: GlobalBatch) -> bool:
    return (
        (one.step, one.epoch, one.learned, len(one.packs)) == (other.step, other.epoch, other.learned, len(other.packs))
        and all(np.array_equal(mine, yours) for mine, yours in zip(one.packs, other.packs, strict=True))
    )  # fmt: skip


def epoch_of(made: Plan, epoch: int) -> list[int]:
    """The documents of an epoch, in the order of its packs."""
    first = epoch * made.packs_per_epoch
    packs = [made._pack(pack) for pack in range(first, first + made.packs_per_epoch)]
    return [int(document) for documents in packs for document in documents]


@pytest.mark.parametrize("packing", PACKINGS)
def test_an_epoch_has_every_document_once_and_whole(packing: str) -> None:
    made = plan(packing)
    for epoch in range(3):
        assert sorted(epoch_of(made, epoch)) == list(range(len(CORPUS)))


@pytest.mark.parametrize("packing", PACKINGS)
def test_the_order_is_that_of_the_seed_and_the_epoch(packing: str) -> None:
    assert epoch_of(plan(packing), 1) == epoch_of(plan(packing), 1)
    assert epoch_of(plan(packing), 0) != epoch_of(plan(packing), 1)
    assert epoch_of(plan(packing), 0) != epoch_of(plan(packing, seed=4), 0)


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_step_is_the_same_wherever_the_training_starts(packing: str) -> None:
    whole = list(islice(plan(packing).steps(), 300))
    assert whole[-1].epoch > 0
    for first_step in (2, 17, 299):
        [late] = islice(plan(packing).steps(first_step), 1)
        assert same(late, whole[first_step - 1])


def test_every_step_is_full_across_the_end_of_an_epoch() -> None:
    made = plan("packed", packs=7)
    steps = list(islice(made.steps(), made.steps_in(2)))
    assert {len(batch.packs) for batch in steps} == {7}
    assert [batch.epoch for batch in steps] == [7 * step / made.packs_per_epoch for step in range(1, len(steps) + 1)]
    assert sum(len(batch.packs) for batch in steps) - 2 * made.packs_per_epoch in range(7)


def test_a_step_may_take_more_packs_than_there_are() -> None:
    tiny = corpus_of([3, 4])
    batch = Plan(tiny.lengths_D, tiny.learned_D, data("packed", packs=5), 0).step(1)
    assert (len(batch.packs), batch.learned) == (5, 25)


def test_a_step_knows_what_it_learns_and_gives_its_longest_packs_first() -> None:
    for batch in islice(plan("grouped").steps(), 20):
        tokens = [sum(LENGTHS[document] for document in documents) for documents in batch.packs]
        assert tokens == sorted(tokens, reverse=True)
        assert batch.learned == sum(tokens) - sum(len(documents) for documents in batch.packs)


def test_packs_hold_no_more_than_they_may_and_are_full() -> None:
    made = plan("packed")
    tokens = [sum(LENGTHS[document] for document in made._pack(pack)) for pack in range(made.packs_per_epoch)]
    assert max(tokens) <= 512
    assert sum(tokens) / (512 * len(tokens)) > 0.99


def test_large_packs_of_short_documents_are_full_too() -> None:
    short = corpus_of(lengths_like_texts(60_000, 100))
    made = Plan(short.lengths_D, short.learned_D, data("packed", pack_tokens=8192), 0)
    assert short.lengths_D.sum() / (8192 * made.packs_per_epoch) > 0.97


def test_best_fit_loses_nothing_and_leaves_no_two_bins_that_fit_into_one() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        capacity = int(random.integers(1, 40))
        lengths = random.integers(1, capacity + 1, random.integers(0, 60)).tolist()
        bins = best_fit(lengths, capacity)
        assert sorted(place for places in bins for place in places) == list(range(len(lengths)))
        filled = sorted(sum(lengths[place] for place in places) for places in bins)
        assert all(tokens <= capacity for tokens in filled)
        assert len(filled) < 2 or filled[0] + filled[1] > capacity


def test_best_fit_gives_a_bin_of_its_own_to_what_is_longer_than_a_bin() -> None:
    assert best_fit([3, 12, 2], 5) == [[1], [0, 2]]


def test_grouped_packs_hold_documents_of_similar_length() -> None:
    made, by_chance = plan("grouped"), plan("none")
    spread = [
        np.mean([np.ptp(CORPUS.lengths_D[one._pack(pack)]) for pack in range(one.packs_per_epoch)])
        for one in (made, by_chance)
    ]
    assert spread[0] < spread[1] / 5


@pytest.mark.parametrize("packing", PACKINGS)
def test_an_evaluation_has_every_document_once_and_is_always_the_same(packing: str) -> None:
    batch = evaluation_batch(CORPUS, data(packing))
    assert same(batch, evaluation_batch(CORPUS, data(packing)))
    assert sorted(int(document) for documents in batch.packs for document in documents) == list(range(len(CORPUS)))
    assert batch.learned == CORPUS.learn_N.sum()


@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_share_the_packs_and_have_as_many_each(world: int) -> None:
    batch = plan("packed").step(4)
    shares = [batch.of_rank(rank, world) for rank in range(world)]
    assert len({len(share) for share in shares}) == 1
    together = [tuple(documents) for share in shares for documents in share if len(documents)]
    assert sorted(together) == sorted(map(tuple, batch.packs))

"""Documents in flat arrays, and what each rank gets of them."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from recipes.engine.data.corpus import Corpus, Pack
from recipes.engine.data.feed import AHEAD, Feed
from recipes.engine.data.plan import GlobalBatch, Plan
from recipes.engine.data.settings import Data

from .made import corpus_of, lengths_like_texts

CORPUS = corpus_of(lengths_like_texts(500, 64))
PLAN = Plan(CORPUS.lengths_D, CORPUS.learned_D, Data(max_tokens=64, pack_tokens=128, packs=5), seed=1)


def test_a_pack_holds_its_documents_in_order() -> None:
    pack = corpus_of([2, 3, 1]).pack([2, 0])
    assert pack.ids_T.tolist() == [2, 0, 0]
    assert pack.learn_T.tolist() == [False, False, True]
    assert pack.lengths_D.tolist() == [1, 2]
    assert (pack.documents, pack.ids_T.dtype, pack.lengths_D.dtype) == ((2, 0), np.int64, np.int64)


def test_a_pack_without_documents_has_one_token_that_is_not_learned() -> None:
    for pack in (Pack.empty(), corpus_of([2]).pack([])):
        assert (pack.ids_T.tolist(), pack.learn_T.tolist(), pack.lengths_D.tolist()) == ([0], [False], [1])
        assert pack.documents == ()


def test_a_corpus_knows_lengths_learned_tokens_and_places() -> None:
    corpus = corpus_of([2, 3, 1])
    assert (len(corpus), corpus.lengths_D.tolist(), corpus.learned_D.tolist()) == (3, [2, 3, 1], [1, 2, 0])
    assert [corpus.place(document) for document in range(3)] == ["rows.jsonl:1", "rows.jsonl:2", "rows.jsonl:3"]


def test_the_digest_tells_other_documents_from_these() -> None:
    assert corpus_of([2, 3]).digest == corpus_of([2, 3]).digest
    assert corpus_of([2, 3]).digest != corpus_of([3, 2]).digest


def test_a_corpus_travels_by_its_buffers_alone() -> None:
    buffers: list[pickle.PickleBuffer] = []
    small = pickle.dumps(CORPUS, protocol=5, buffer_callback=buffers.append)
    assert len(small) < 2000
    back: Corpus = pickle.loads(small, buffers=buffers)  # noqa: S301 - made three lines above
    assert back.digest == CORPUS.digest
    assert np.shares_memory(back.ids_N, CORPUS.ids_N)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_all_feeds_together_give_the_packs_of_the_plan(world: int) -> None:
    feeds = [Feed(CORPUS, PLAN, rank=rank, world=world, first_step=3, last_step=9) for rank in range(world)]
    for step, shares in enumerate(zip(*feeds, strict=True), start=3):
        assert {batch.step for batch, _ in shares} == {step}
        assert len({len(packs) for _, packs in shares}) == 1
        told = sorted(pack.documents for _, packs in shares for pack in packs if pack.documents)
        assert told == sorted(tuple(documents.tolist()) for documents in PLAN.step(step).packs)
        assert sum(int(pack.learn_T.sum()) for _, packs in shares for pack in packs) == shares[0][0].learned
    assert step == 9


def test_a_feed_that_is_closed_early_leaves_no_thread() -> None:
    before = threading.active_count()
    with Feed(CORPUS, PLAN, last_step=10_000) as feed:
        next(feed)
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
    with pytest.raises(StopIteration):
        next(feed)


def test_what_goes_wrong_ahead_is_raised_where_the_step_is_asked_for() -> None:
    class Broken(Plan):
        def step(self, step: int) -> GlobalBatch:
            if step == 3:
                raise OSError("the disk is gone")
            return super().step(step)

    broken = Broken(CORPUS.lengths_D, CORPUS.learned_D, Data(max_tokens=64, pack_tokens=128), seed=1)
    with Feed(CORPUS, broken, last_step=9) as feed:
        assert [next(feed)[0].step, next(feed)[0].step] == [1, 2]
        with pytest.raises(OSError, match="the disk is gone"):
            next(feed)


def test_a_feed_makes_only_a_few_steps_ahead() -> None:
    asked: list[int] = []
    enough = threading.Event()

    class Watched(Plan):
        def step(self, step: int) -> GlobalBatch:
            asked.append(step)
            if step > AHEAD:
                enough.set()
            return super().step(step)

    watched = Watched(CORPUS.lengths_D, CORPUS.learned_D, Data(max_tokens=64, pack_tokens=128), seed=1)
    with Feed(CORPUS, watched, last_step=9999):
        assert enough.wait(10)
        assert asked == list(range(1, AHEAD + 2))

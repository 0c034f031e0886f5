"""Corpora whose tokens say which document they are of."""
# ruff: noqa: N806 - the shapes are in capitals

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from recipes.engine.data.corpus import Corpus


def corpus_of(lengths: Sequence[int]) -> Corpus:
    """Document d is `d d d ...`; all but its first token is learned."""
    starts_D1 = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    learn_N = np.ones(starts_D1[-1], np.bool_)
    learn_N[starts_D1[:-1]] = False
    return Corpus(
        ids_N=np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
        learn_N=learn_N,
        starts_D1=starts_D1,
        origins=("rows.jsonl:",),
        origin_D=np.zeros(len(lengths), np.int32),
        number_D=np.arange(1, len(lengths) + 1),
    )


def lengths_like_texts(documents: int, longest: int, seed: int = 0) -> list[int]:
    """Many short ones, a few long ones."""
    drawn = np.random.default_rng(seed).lognormal(np.log(longest / 20), 0.9, documents)
    made: list[int] = np.clip(drawn.astype(int), 2, longest).tolist()
    return made

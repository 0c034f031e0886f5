"""Small corpora with something to learn in them, a tokenizer for them, and settings that train in a second."""
# ruff: noqa: N806 - the shapes are in capitals

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from recipes.engine.checkpoints import Checkpoints
from recipes.engine.data.corpora import Corpora, Facts
from recipes.engine.data.corpus import Corpus, CorpusBuilder
from recipes.engine.data.settings import Data
from recipes.engine.model import Architecture
from recipes.engine.optimizer import Optimizer
from recipes.engine.settings import Settings, Training

VOCABULARY = 67


def corpus(documents: int, seed: int, *, learn_all: bool = True) -> Corpus:
    """Sequences in which each token follows from the two before, most of the time."""
    random = np.random.default_rng(seed)
    builder = CorpusBuilder()
    for number in range(documents):
        ids = random.integers(1, 61, int(random.integers(4, 40))).tolist()
        for place in range(2, len(ids)):
            if random.random() < 0.9:
                ids[place] = (3 * ids[place - 1] + ids[place - 2]) % 61
        learn_T = np.ones(len(ids), np.bool_)
        learn_T[0 : 1 if learn_all else len(ids) // 2] = False
        builder.add("made:", number, ids, learn_T)
    return builder.build()


def corpora(*, learn_all: bool = True) -> Corpora:
    train, held_out = corpus(120, 0, learn_all=learn_all), corpus(20, 1, learn_all=learn_all)
    facts = Facts("made", "text", len(train), len(train.ids_N), int(train.learned_D.sum()), 40, len(held_out))
    return Corpora(train, held_out, facts)


class MadeTokenizer:
    """What a network is made for; nothing is written with it."""

    bos_token_id, eos_token_id, pad_token_id, chat_template = None, 0, 0, None

    def __len__(self) -> int:
        return VOCABULARY

    def save_pretrained(self, folder: Path) -> None:
        (folder / "tokenizer.json").touch()


def settings(folder: Path, **sections: Any) -> Settings:
    made = Settings(
        architecture=Architecture(layers=2, hidden=32, intermediate=48, heads=4, key_value_heads=2),
        data=Data(max_tokens=64, pack_tokens=128, packs=4),
        optimizer=Optimizer(learning_rate=1e-2),
        training=Training(steps=20, log_every=1, seed=3),
        checkpoints=Checkpoints(folder=str(folder / "checkpoints")),
    )
    return dataclasses.replace(made, **sections)


class Kept:
    """A line that keeps what it is told, and asks to stop after a step where it is told to."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.stop_after = stop_after

    def tell(self, kind: str, facts: Any) -> None:
        self.told.append((kind, dict(facts)))

    def stopping(self) -> bool:
        return self.stop_after is not None and self.stop_after <= len(self.of("step"))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [facts for told, facts in self.told if told == kind]

    @property
    def losses(self) -> list[float]:
        return [facts["loss"] for facts in self.of("step")]

"""What is trained in a device check, and on what: a model with random weights, and documents of made tokens."""
# ruff: noqa: N806 - the shapes are in capitals: D documents

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from recipes.engine.checkpoints import Checkpoints
from recipes.engine.data.corpora import Corpora, Facts
from recipes.engine.data.corpus import Corpus, CorpusBuilder
from recipes.engine.data.settings import Data
from recipes.engine.loop import Training
from recipes.engine.model import Architecture, Model
from recipes.engine.settings import Settings
from recipes.engine.settings import Training as Course
from recipes.engine.world import World

# Documents of an instruction data set: many short ones, a few long ones. The response is what is learned.
MEDIAN_TOKENS = 90
SIGMA = 0.7  # of the logarithm of a length
SHORTEST_TOKENS = 8
LONGEST_TOKENS = 1024
RESPONSE_SHARE = 0.6
NEVER = 10**9


@dataclass(frozen=True)
class Scale:
    """How much is computed; `medium` is the model of the checks that need no large one."""

    device: torch.device
    architecture: Architecture
    medium: Architecture
    documents: int
    pack_tokens: int
    packs: int
    warmup_steps: int
    steps: int

    @property
    def cuda(self) -> bool:
        return bool(self.device.type == "cuda")


def full() -> Scale:
    """Qwen2.5-3B's shape, on a GPU."""
    return Scale(
        device=torch.device("cuda", 0),
        architecture=Architecture(
            layers=36, hidden=2048, intermediate=11008, heads=16, key_value_heads=2, vocabulary=151_936
        ),
        medium=Architecture(layers=8, hidden=2048, intermediate=5504, heads=16, key_value_heads=2, vocabulary=32_000),
        documents=6000,
        pack_tokens=4096,  # as many as the reference has in a pass
        packs=8,
        warmup_steps=3,
        steps=10,
    )


def small() -> Scale:
    """Seconds of one core."""
    tiny = Architecture(layers=2, hidden=64, intermediate=128, heads=4, key_value_heads=2, vocabulary=512)
    return Scale(torch.device("cpu"), tiny, tiny, documents=300, pack_tokens=1024, packs=2, warmup_steps=1, steps=3)


@dataclass(frozen=True)
class Words:
    """A tokenizer as far as the making of a network needs one."""

    count: int
    bos_token_id: int | None = None
    eos_token_id: int = 0

    def __len__(self) -> int:
        return self.count


@dataclass
class Kept:
    """A line that keeps what it is told."""

    told: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def tell(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.told.append((kind, dict(facts)))

    def stopping(self) -> bool:
        return False

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [facts for told, facts in self.told if told == kind]


def made_corpus(documents: int, vocabulary: int) -> Corpus:
    """The same documents whenever they are made."""
    random = np.random.default_rng(0)
    lengths_D = np.exp(random.normal(math.log(MEDIAN_TOKENS), SIGMA, documents)).round().astype(int)
    builder = CorpusBuilder()
    for number, length in enumerate(np.clip(lengths_D, SHORTEST_TOKENS, LONGEST_TOKENS).tolist()):
        ids = random.integers(1, vocabulary, length).tolist()
        builder.add("made:", number, ids, np.arange(length) >= round((1 - RESPONSE_SHARE) * length))
    return builder.build()


def training_of(
    scale: Scale, folder: Path, *, kind: type[Training] = Training, line: Kept | None = None, **sections: Any
) -> Training:
    """A training on this device alone that reports, evaluates and saves only when it is told to."""
    architecture = sections.pop("architecture", scale.architecture)
    settings = Settings(
        **{"model": Model(), "training": Course(steps=NEVER, log_every=NEVER), **sections},
        architecture=architecture,
        data=Data(max_tokens=LONGEST_TOKENS, pack_tokens=scale.pack_tokens, packs=scale.packs),
        checkpoints=Checkpoints(every_s=None, folder=str(folder / "checkpoints")),
    )
    corpus = made_corpus(scale.documents, architecture.vocabulary)
    facts = Facts(
        "made", "instruction", len(corpus), len(corpus.ids_N), int(corpus.learned_D.sum()),
        int(corpus.lengths_D.max()), 0,
    )  # fmt: skip
    with scale.device:  # random weights are made there in a moment
        return kind(
            settings, Corpora(corpus, None, facts), Words(architecture.vocabulary), line or Kept(),
            World(0, 1, scale.device),
        )  # fmt: skip


def wait_for(device: torch.device) -> None:
    """Until the device has computed all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)

"""What every contender trains, and on what: the same rows, tokens and model, in float32 on CPUs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from recipes.engine.data.loading import load_corpora, texts_of
from recipes.engine.data.settings import Data
from recipes.engine.data.vocabulary import train_vocabulary
from recipes.engine.model import Architecture, new_config
from transformers import AutoModelForCausalLM

LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class Rows:
    """The documents that are learned from; `learned` are the tokens that the loss is about."""

    tokenizer: Any
    ids: list[list[int]]
    learned: list[list[bool]]

    def __len__(self) -> int:
        return len(self.ids)


def arguments(description: str) -> argparse.ArgumentParser:
    """The words that every contender takes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", required=True, help="a folder where the tokens are kept for the next contender")
    parser.add_argument("--warmup-steps", type=int, default=5, help="that are not measured")
    parser.add_argument("--steps", type=int, default=20, help="that are measured")
    parser.add_argument("--rows", type=int, default=16, help="of a process in a step")
    return parser


def load_rows(cache: str) -> Rows:
    """The standard library's docstrings as questions and answers, in the plain chat template."""
    data = Data(source="docstrings", max_tokens=1024, eval_share=0.05, cache_dir=cache)
    tokenizer = train_vocabulary(texts_of(data), Architecture().vocabulary)
    corpus = load_corpora(data, tokenizer, lambda _: None).train
    spans = list(pairwise(corpus.starts_D1.tolist()))
    return Rows(
        tokenizer,
        [corpus.ids_N[start:end].tolist() for start, end in spans],
        [corpus.learn_N[start:end].tolist() for start, end in spans],
    )


def new_network(tokenizer: Any) -> Any:
    """Qwen2 with 3 layers of 128, the same on every process."""
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(new_config(Architecture(), tokenizer), dtype=torch.float32)

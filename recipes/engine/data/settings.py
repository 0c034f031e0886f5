"""Which documents to learn from, what of them is learned, and how they are put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Data:
    """The data of a training.

    `source` is a file, a folder, a pattern such as "rows/*.jsonl", the name of a data set on the hub, or "docstrings":
    what Python's own standard library says about itself.
    """

    source: str = "docstrings"
    subset: str | None = None  # of a data set on the hub, as "main"
    split: str = "train"  # of a data set on the hub
    eval_source: str | None = None  # what to evaluate on; None holds out eval_share of `source`
    eval_split: str = "test"  # of an eval_source on the hub
    eval_share: float = 0.05
    format: Literal["auto", "chat", "instruction", "prompt", "text"] = "auto"
    learn: Literal["response", "all"] = "response"
    chat_template: str | None = None  # a file; None takes the tokenizer's own, or a plain one where it has none
    max_tokens: int = 1024  # of one document
    too_long: Literal["cut", "skip", "refuse"] = "cut"
    corrupt: Literal["refuse", "skip"] = "refuse"
    limit: int | None = None  # so many rows of the source, from its start
    packing: Literal["packed", "grouped", "off"] = "packed"
    pack_tokens: int = 2048  # at most, of a pack when packed
    pack_documents: int = 16  # of a pack when grouped or off
    packs: int = 8  # a step learns from so many, over all workers
    cache_dir: str | None = None  # None is $XDG_CACHE_HOME/airlane-recipes, or ~/.cache/airlane-recipes


def contradictions(data: Data) -> Iterator[str]:
    """Settings that no training can be made with."""
    for name in ("max_tokens", "pack_tokens", "pack_documents", "packs", "limit"):
        value = getattr(data, name)
        if value is not None and value < 1:
            yield f"data.{name}={value} has to be 1 or more"
    if not 0 <= data.eval_share < 1:
        yield f"data.eval_share={data.eval_share} has to be 0 or more, and less than 1"
    if data.packing == "packed" and data.max_tokens > data.pack_tokens:
        yield (
            f"data.max_tokens={data.max_tokens} does not fit into data.pack_tokens={data.pack_tokens}: "
            f"use data.max_tokens={data.pack_tokens}, or larger packs"
        )
    if data.format == "text" and data.chat_template:
        yield "data.chat_template is for conversations, and data.format=text has none"

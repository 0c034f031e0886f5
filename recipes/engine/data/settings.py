"""Which documents to learn from, what of them is learned, and how they are put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Data:
    """What is learned from, and in which portions.

    `source` is a file, a folder, a pattern such as "rows/*.jsonl", the name of a data set on the hub with its `subset`
    and `split`, or "docstrings": what Python's own standard library says about itself. `limit` takes its first rows.
    `eval_source` is evaluated on; None holds out `eval_share` of the source instead. `chat_template` is a file; None
    takes the tokenizer's own, or a plain one. `max_tokens` are of one document, `pack_tokens` of a pack when packed,
    `pack_documents` of a pack otherwise; a step learns from `packs`, over all workers. `cache_dir` None is
    $XDG_CACHE_HOME/airlane-recipes, or ~/.cache/airlane-recipes.
    """

    source: str = "docstrings"
    subset: str | None = None
    split: str = "train"
    eval_source: str | None = None
    eval_split: str = "test"
    eval_share: float = 0.05
    limit: int | None = None
    format: Literal["auto", "chat", "instruction", "prompt", "text"] = "auto"
    corrupt: Literal["refuse", "skip"] = "refuse"
    chat_template: str | None = None
    learn: Literal["response", "all"] = "response"
    max_tokens: int = 1024
    too_long: Literal["cut", "skip", "refuse"] = "cut"
    packing: Literal["packed", "grouped", "none"] = "packed"
    pack_tokens: int = 2048
    pack_documents: int = 16
    packs: int = 8
    cache_dir: str | None = None


def contradictions(data: Data) -> Iterator[str]:
    """Settings that no training can be made with."""
    for name in ("source", "eval_source"):
        value = getattr(data, name)
        if value is not None and not value.strip():
            yield f"data.{name} is empty: it takes a file, a folder, a pattern, or the name of a data set"
    for name in ("pack_tokens", "pack_documents", "packs", "limit"):
        value = getattr(data, name)
        if value is not None and value < 1:
            yield f"data.{name}={value} has to be 1 or more"
    if data.max_tokens < 2:  # noqa: PLR2004
        yield f"data.max_tokens={data.max_tokens} has to be 2 or more: the first token of a document is never learned"
    if not 0 <= data.eval_share < 1:
        yield f"data.eval_share={data.eval_share} has to be 0 or more, and less than 1"
    if data.packing == "packed" and data.max_tokens > data.pack_tokens:
        yield (
            f"data.max_tokens={data.max_tokens} does not fit into data.pack_tokens={data.pack_tokens}: "
            f"use data.max_tokens={data.pack_tokens}, or larger packs"
        )
    if data.format == "text" and data.chat_template:
        yield "data.chat_template is for conversations, and data.format=text has none"

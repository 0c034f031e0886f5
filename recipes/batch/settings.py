"""What is answered, by which model, and where the answers go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

NEW = "new"


@dataclass(frozen=True)
class Model:
    """Which model answers: a folder that transformers has saved (as `sft` does), a model of the hub, or "new".

    "new" is a small Qwen2 with random weights, made in a moment: it shows that everything runs, and answers nonsense.
    `precision` auto is bfloat16 on GPUs and float32 elsewhere.
    """

    name: str = NEW
    revision: str | None = None
    precision: Literal["auto", "bfloat16", "float32"] = "auto"


@dataclass(frozen=True)
class Data:
    """The rows to answer: a file or folder of JSON Lines, Parquet or text, a data set of the hub, or "docstrings".

    A row has a `prompt`, a `question`, an `instruction` (and an `input`), a `text`, or the `messages` of a chat; an
    answer that it ends with is not shown to the model. `system` is a message before each. Without a chat template, the
    model's own or one in a file, the text of a row is continued as it stands.
    """

    source: str = "docstrings"
    subset: str | None = None  # of a data set of the hub, as "main"
    split: str = "train"  # of a data set of the hub
    limit: int | None = None  # so many rows, from the first
    system: str | None = None
    chat_template: str | None = None  # a file; None takes the model's own


@dataclass(frozen=True)
class Generation:
    """How an answer is made; `temperature=0` takes the likeliest token each time.

    Every row has random numbers of its own, from `seed` and its number: they depend neither on the workers nor on what
    else is in its batch. `batch_tokens` is what a batch holds at most, padding and answers included: it bounds memory.
    """

    max_new_tokens: int = 256
    max_prompt_tokens: int = 4096  # a longer prompt is an error of its row
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0  # 0 is all
    seed: int = 0
    batch_tokens: int = 16384


@dataclass(frozen=True)
class Output:
    """Where the answers go: a file for every `shard_rows` rows, written whole or not at all, in the order of the rows.

    `folder` None is $AIR_CHECKPOINT_DIR/responses, which a retry finds again, or ./responses. With `errors=keep` a row
    that cannot be answered says why in its column `error`; `refuse` ends the run at the first.
    """

    folder: str | None = None
    format: Literal["jsonl", "parquet"] = "jsonl"
    shard_rows: int = 128
    errors: Literal["keep", "refuse"] = "keep"


@dataclass(frozen=True)
class Cluster:
    """Who answers: `workers` None is one for each accelerator of the run.

    A shard whose worker dies is begun again by another, `attempts` times in all; then its rows are errors.
    """

    workers: int | None = None
    attempts: int = 3


@dataclass(frozen=True)
class Batch:
    """Answer every row of a file with a language model."""

    model: Model = Model()
    data: Data = Data()
    generation: Generation = Generation()
    output: Output = Output()
    cluster: Cluster = Cluster()


def contradictions(batch: Batch) -> Iterator[str]:
    """Settings that nothing can be answered with."""
    generation = batch.generation
    if not batch.data.source.strip():
        yield "data.source is empty: it takes a file, a folder, a pattern, or the name of a data set"
    counts = {
        "data.limit": batch.data.limit,
        "generation.max_new_tokens": generation.max_new_tokens,
        "generation.max_prompt_tokens": generation.max_prompt_tokens,
        "output.shard_rows": batch.output.shard_rows,
        "cluster.workers": batch.cluster.workers,
        "cluster.attempts": batch.cluster.attempts,
    }
    for name, value in counts.items():
        if value is not None and value < 1:
            yield f"{name}={value} has to be 1 or more"
    if generation.top_k < 0 or generation.temperature < 0:
        yield "generation.top_k and generation.temperature have to be 0 or more"
    if not 0 < generation.top_p <= 1:
        yield f"generation.top_p={generation.top_p} has to be more than 0, and at most 1"
    longest = generation.max_prompt_tokens + generation.max_new_tokens
    if generation.batch_tokens < longest:
        yield (
            f"generation.batch_tokens={generation.batch_tokens} does not hold one row of "
            f"generation.max_prompt_tokens + generation.max_new_tokens = {longest}"
        )
    if generation.temperature == 0 and (generation.top_k or generation.top_p < 1):
        yield "generation.top_p and generation.top_k need generation.temperature above 0; 0 takes the likeliest token"

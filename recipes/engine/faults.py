"""What ends a training early, told so that it can be mended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist

from recipes.engine.data.corpus import Corpus, Pack
from recipes.engine.world import World
from recipes.errors import RecipeError

NAMED = 5  # documents of a batch that are named
# In errors that are of no class of their own: of the host's allocator, the driver, and cuBLAS.
NO_MEMORY = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def not_finite(
    step: int, packs: Sequence[Pack], losses: Sequence[torch.Tensor], corpus: Corpus, world: World
) -> RecipeError:
    """A loss or a gradient that is no number; all workers say what they had, and so all of them know where it was."""
    own = [pack.documents for pack, loss in zip(packs, losses, strict=True) if not bool(torch.isfinite(loss))]
    all_of_step = [pack.documents for pack in packs]
    told: list[tuple[list[tuple[int, ...]], list[tuple[int, ...]]]] = [(own, all_of_step)] * world.size
    if world.size > 1:
        dist.all_gather_object(told, (own, all_of_step))
    bad = [document for packs_of_one, _ in told for documents in packs_of_one for document in documents]
    every = [document for _, packs_of_one in told for documents in packs_of_one for document in documents]
    what = "The loss" if bad else "The length of the gradient"
    places = [corpus.place(document) for document in (bad or every)[:NAMED]]
    more = len(bad or every) - len(places)
    batch = ", ".join(places) + (f" and {more} more" if more else "")
    return RecipeError(
        [f"{what} is no finite number in step {step}. Its batch: {batch}"],
        hint="Look at these documents; else lower optimizer.learning_rate, raise optimizer.warmup, or set "
        "model.precision=float32. The last checkpoint is from before this step",
    )


@contextmanager
def out_of_memory(world: World) -> Iterator[None]:
    """Turns a full device into words that say what to change.

    Raises:
        RecipeError: there was no room for what was computed inside.
    """
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and not any(words in str(error) for words in NO_MEMORY):
            raise
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        raise RecipeError(
            [f"Worker {world.rank} is out of memory ({world.device}): {first}"],
            hint="In this order: model.activation_checkpointing=true; a smaller data.pack_tokens with more data.packs; "
            "parallel.strategy=fsdp with more workers; lora.rank=16",
        ) from error

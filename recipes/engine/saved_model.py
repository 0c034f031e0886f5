"""The model at the end, as a folder that transformers loads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recipes.engine.model import save_network
from recipes.engine.parallel import Parallelized
from recipes.engine.world import World


def save_model(model: Parallelized, tokenizer: Any, folder: Path, world: World, made_again: Callable[[], Any]) -> Path:
    """Write model and tokenizer, whole or not at all; what was in `folder` is replaced. All workers take part.

    Weights are saved in the precision that they were computed with.
    `made_again` gives the network as it was before it was shared out; a shared one cannot be put together in place.
    """
    state = _gathered(model.network) if model.sharded else None
    with world.first_alone() as writes:
        if writes:
            network = model.network
            if state is not None:
                network = made_again()
                network.load_state_dict(state)
            beside = folder.with_name(f".{folder.name}.new")
            shutil.rmtree(beside, ignore_errors=True)
            save_network(network, tokenizer, beside, model.dtype)
            shutil.rmtree(folder, ignore_errors=True)
            beside.rename(folder)
    return folder


def _gathered(network: Any) -> dict[str, Any]:
    """All weights on the first worker, from the shares of all."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state: dict[str, Any] = get_model_state_dict(network, options=options)
    return state

"""The loss on documents that nothing is learned from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from recipes.engine.data.corpus import Pack
from recipes.engine.world import World


def evaluate(
    network: Any, loss_of: Callable[[Pack], torch.Tensor], packs: Sequence[Pack], world: World, *, learned: int
) -> float:
    """The mean loss over `learned` tokens of all workers; `packs` are those of this one, as many on each."""
    loss_sum = torch.zeros((), dtype=torch.float64, device=world.device)
    network.eval()
    with torch.no_grad():
        for pack in packs:
            loss_sum += loss_of(pack)
    network.train()
    return float(world.total(loss_sum)) / max(1, learned)

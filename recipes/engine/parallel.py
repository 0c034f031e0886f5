"""The network on all workers: a copy on each (DDP), or a share on each (FSDP2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.nn.parallel import DistributedDataParallel

from recipes.engine.model import layers
from recipes.engine.world import World
from recipes.errors import RecipeError

BYTES_PER_TRAINED = 16  # float32: the weight, its gradient, and two moments
BYTES_PER_COPY = 2  # of a trained weight, to compute with in bfloat16
SHARE_FOR_STATE = 0.6  # of a GPU's memory; activations need the rest


@dataclass(frozen=True)
class Parallel:
    """How workers share the work: ddp, fsdp, or auto, which shards what would not fit on one GPU."""

    strategy: Literal["auto", "ddp", "fsdp"] = "auto"


class Parallelized:
    """A network that every worker calls with its own packs; gradients come out averaged over the workers.

    It may come on the host: what is shared out need not fit on one device first.
    """

    def __init__(self, network: Any, settings: Parallel, world: World, dtype: torch.dtype) -> None:
        self.network = network
        self.dtype = dtype
        automatic = settings.strategy == "auto" and world.device.type == "cuda"
        self.sharded = world.size > 1 and (
            settings.strategy == "fsdp" or (automatic and too_large(network, world, dtype))
        )
        self._autocast = torch.autocast(
            world.device.type, dtype, enabled=dtype is not torch.float32 and not self.sharded
        )
        self._module = network
        if self.sharded:
            _shard(network, world, dtype)
            return
        network.to(world.device)
        if world.size > 1:
            devices = [world.device.index] if world.device.type == "cuda" else None
            self._module = DistributedDataParallel(
                network, device_ids=devices, gradient_as_bucket_view=True, forward_sync_buffers=False
            )

    def __call__(self, **inputs: Any) -> Any:
        with self._autocast:
            return self._module(**inputs)

    @contextmanager
    def gradients(self, *, last: bool) -> Iterator[None]:
        """Where a forward and a backward pass stand: copies exchange gradients in the last of a step alone.

        Shares do in each: what waits for the last would be the gradients of the whole model, on every worker.
        """
        waits = isinstance(self._module, DistributedDataParallel) and not last
        exchange: AbstractContextManager[None] = self._module.no_sync() if waits else nullcontext()
        with exchange:
            yield

    def clip(self, longest: float) -> torch.Tensor:
        """Shorten the gradients to that length; returns the length that they had, the same on all workers."""
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), longest)
        whole: torch.Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        return whole


def count_parameters(network: Any) -> tuple[int, int]:
    """How many numbers there are, and how many of them are learned."""
    sizes = [(one.numel(), one.requires_grad) for one in network.parameters()]
    return sum(size for size, _ in sizes), sum(size for size, learned in sizes if learned)


def too_large(network: Any, world: World, dtype: torch.dtype) -> bool:
    """Whether a GPU that held all of the network would have too little memory left to compute with it."""
    memory_bytes: int = torch.cuda.get_device_properties(world.device).total_memory
    trained_bytes = BYTES_PER_TRAINED + (BYTES_PER_COPY if dtype is torch.bfloat16 else 0)
    held_bytes = sum(
        one.numel() * (trained_bytes if one.requires_grad else one.element_size()) for one in network.parameters()
    )
    return bool(held_bytes > SHARE_FOR_STATE * memory_bytes)


def _shard(network: Any, world: World, dtype: torch.dtype) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(world.device.type, (world.size,))
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    blocks = layers(network)
    if not blocks:
        raise RecipeError(
            [f"parallel.strategy=fsdp: {type(network).__name__} does not say what its layers are"],
            hint="Set parallel.strategy=ddp",
        )
    for block in blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(network, mesh=mesh, mp_policy=policy)

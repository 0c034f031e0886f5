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
SHARE_FOR_STATE = 0.6  # of a GPU's memory; activations need the rest


@dataclass(frozen=True)
class Parallel:
    """How workers share the work: ddp, fsdp, or auto, which shards what would not fit on one GPU."""

    strategy: Literal["auto", "ddp", "fsdp"] = "auto"


class Parallelized:
    """A network that every worker calls with its own packs; gradients come out averaged over the workers."""

    def __init__(self, network: Any, settings: Parallel, world: World, dtype: torch.dtype) -> None:
        self.network = network
        self.sharded = world.size > 1 and (settings.strategy == "fsdp" or _too_large(settings, network, world))
        self._autocast = torch.autocast(
            world.device.type, dtype, enabled=dtype is not torch.float32 and not self.sharded
        )
        self._module = network
        if self.sharded:
            _shard(network, world, dtype)
        elif world.size > 1:
            devices = [world.device.index] if world.device.type == "cuda" else None
            self._module = DistributedDataParallel(
                network, device_ids=devices, gradient_as_bucket_view=True, forward_sync_buffers=False
            )

    def __call__(self, **inputs: Any) -> Any:
        with self._autocast:
            return self._module(**inputs)

    @contextmanager
    def gradients(self, *, last: bool) -> Iterator[None]:
        """Where a forward and a backward pass stand: workers exchange gradients in the last of a step alone."""
        exchange: AbstractContextManager[None] = nullcontext()
        if self.sharded:
            self._module.set_requires_gradient_sync(last)
        elif self._module is not self.network and not last:
            exchange = self._module.no_sync()
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


def _too_large(settings: Parallel, network: Any, world: World) -> bool:
    if settings.strategy != "auto" or world.device.type != "cuda":
        return False
    memory_bytes: int = torch.cuda.get_device_properties(world.device).total_memory
    return count_parameters(network)[1] * BYTES_PER_TRAINED > SHARE_FOR_STATE * memory_bytes


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

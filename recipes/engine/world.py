"""Which of how many processes this is, and on which device it computes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class World:
    """The processes of a training; alone without torch.distributed."""

    rank: int
    size: int
    device: torch.device

    @classmethod
    def here(cls, device: torch.device | None = None) -> World:
        """This process's place; the device is a GPU of its own where there is one."""
        rank, size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        return cls(rank, size, device or _own_device())

    @property
    def first(self) -> bool:
        """Whether it is the one that speaks and writes for all."""
        return self.rank == 0

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    @contextmanager
    def first_alone(self) -> Iterator[bool]:
        """Something that the first process does while the others wait for it."""
        try:
            yield self.first
        finally:
            if self.size > 1:
                dist.barrier()


def sent(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy on the device, for which the host does not wait; what is not pinned would wait for all before it."""
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


def _own_device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device

"""What has happened since the last report, over all workers."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from recipes.engine.data.corpus import Pack
from recipes.engine.flops import Flops
from recipes.engine.world import World

T = TypeVar("T")
KIB = 1024


class Meter:
    """Sums up steps until it is read, which all workers do together."""

    def __init__(self, world: World, flops: Flops, peak: float | None, *, by_document: bool) -> None:
        self._world = world
        self._flops = flops
        self._peak = peak
        self._by_document = by_document
        self._start()

    def _start(self) -> None:
        self._since = time.monotonic()
        self._loss_sum: torch.Tensor | float = 0.0
        self._learned = self._steps = self._tokens = self._places = 0
        self._work = self._waited_s = 0.0

    def waiting(self, source: Iterable[T]) -> Iterator[T]:
        """The items of `source`, and how long each was waited for."""
        items = iter(source)
        while True:
            asked = time.monotonic()
            try:
                item = next(items)
            except StopIteration:
                return
            self._waited_s += time.monotonic() - asked
            yield item

    def add(self, loss_sum: torch.Tensor, learned: int, packs: Sequence[Pack]) -> None:
        """A step: the summed loss of all workers and their learned tokens, and the packs of this one."""
        self._steps += 1
        self._loss_sum = self._loss_sum + loss_sum
        self._learned += learned
        for pack in packs:
            self._tokens += len(pack.ids_T)
            self._places += len(pack.ids_T) if self._by_document else int(pack.lengths_D.max()) * len(pack.lengths_D)
            self._work += self._flops.in_pack(pack)

    def read(self) -> dict[str, Any]:
        """The means since the last time, and a new start; every worker has to take part."""
        loss = float(self._loss_sum) / max(1, self._learned)  # waits for the device
        seconds = time.monotonic() - self._since
        own = [self._tokens, self._places, self._work, self._waited_s]
        totals = torch.zeros(len(own) + self._world.size, dtype=torch.float64, device=self._world.device)
        totals[: len(own)] = torch.tensor(own, dtype=torch.float64)
        totals[len(own) + self._world.rank] = peak_memory_bytes(self._world.device)
        tokens, places, work, waited_s, *memories = self._world.total(totals).tolist()
        facts = {
            "loss": loss,
            "tokens_per_s": tokens / seconds,
            "padded_tokens_per_s": places / seconds,
            "mfu": work / seconds / (self._peak * self._world.size) if self._peak else None,
            "peak_memory_bytes": int(max(memories)),
            "data_wait_share": waited_s / self._world.size / seconds,
            "seconds_per_step": seconds / max(1, self._steps),
        }
        self._start()
        return facts

    def forget(self) -> None:
        """Count from now on."""
        self._start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time of what is done inside: an evaluation, a save."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._since += time.monotonic() - began


def peak_memory_bytes(device: torch.device) -> int:
    """The most that was held so far: on the GPU, or by this process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB

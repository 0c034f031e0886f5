"""Numbers of a step, read without making the device wait for the host."""

from __future__ import annotations

import torch


class Readout:
    """A copy of a few numbers on its way to the host; to be read a step later, when it has long been there."""

    def __init__(self, values: torch.Tensor) -> None:
        self._arrived: torch.cuda.Event | None = None
        if values.is_cuda:
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()
        else:
            self._values = values

    def read(self) -> list[float]:
        if self._arrived is not None:
            self._arrived.synchronize()
        numbers: list[float] = self._values.tolist()
        return numbers

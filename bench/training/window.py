"""How fast a training is: the tokens of documents, padding left out, over the steps after a warm-up."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import NoReturn

import torch
import torch.distributed as dist


class Window:
    """Opens when the warm-up steps are done, and closes with the last step; tokens are those of all processes."""

    def __init__(self, name: str, *, warmup_steps: int, steps: int) -> None:
        self._name = name
        self._warmup_steps = warmup_steps
        self._last_step = warmup_steps + steps
        self._step = self._tokens = self._padded_tokens = 0
        self._began_s = 0.0

    @property
    def open(self) -> bool:
        return self._warmup_steps <= self._step < self._last_step

    def count(self, *, tokens: int, padded_tokens: int) -> None:
        """What this process computes in the step that follows; `padded_tokens` counts those of documents too."""
        if self.open:
            self._tokens += tokens
            self._padded_tokens += padded_tokens

    def stepped(self) -> bool:
        """A step is done; whether there is another."""
        self._step += 1
        if self._step == self._warmup_steps:
            self._began_s = time.perf_counter()
        return self._step < self._last_step

    def report(self, loss: float) -> None:
        """One line of JSON, by the first process."""
        took_s = time.perf_counter() - self._began_s
        counted = torch.tensor([self._tokens, self._padded_tokens], dtype=torch.int64)
        dist.all_reduce(counted)
        if dist.get_rank() == 0:
            tokens, padded_tokens = counted.tolist()
            facts = {
                "name": self._name,
                "useful_tokens_per_s": round(tokens / took_s, 1),
                "useful_share": round(tokens / padded_tokens, 4),
                "useful_tokens_per_step": round(tokens / (self._step - self._warmup_steps)),
                "seconds_per_step": round(took_s / (self._step - self._warmup_steps), 4),
                "steps": self._step - self._warmup_steps,
                "workers": dist.get_world_size(),
                "loss": round(loss, 4),
            }
            print(json.dumps(facts), flush=True)


def leave() -> NoReturn:
    """End this process, when all have got here, without taking anything apart.

    Gloo sometimes waits for ever for its other processes while the interpreter takes a DDP module apart (torch 2.13).
    """
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)

"""A script written for torchrun: an all-reduce, then a few steps of DDP. Each rank prints what it has at the end."""

from __future__ import annotations

import os
import sys

import torch  # type: ignore[import-not-found,unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found,unused-ignore]
from torch.nn.parallel import DistributedDataParallel  # type: ignore[import-not-found,unused-ignore]


def say(*words: object) -> None:
    """A line, in one write: four ranks share the pipe."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    numbers = torch.full((4,), float(rank + 1))
    dist.all_reduce(numbers)
    say("sum", numbers.tolist(), sys.argv[1:])

    torch.manual_seed(7)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(8):
        inputs = torch.randn(16, 8, generator=generator)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    say("weights", [round(value, 3) for value in weights.tolist()])
    say("elastic", dist.is_torchelastic_launched(), os.environ["TORCHELASTIC_RESTART_COUNT"])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

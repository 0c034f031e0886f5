"""Tell two interleaved spirals apart: a small network under DistributedDataParallel, on GPUs or CPUs.

Tensor names end in their shape: B points, 2 coordinates.
"""
# ruff: noqa: N806 - the shapes are in capitals

from __future__ import annotations

import gc
import math
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS = 30
POINTS = 2048


def main() -> None:
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    torch.manual_seed(0)
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} processes on {device.type}", flush=True)
    train(device)
    # The model goes first: with what it holds of the process group, a process has been seen to abort at its exit.
    gc.collect()
    dist.destroy_process_group()


def train(device: torch.device) -> None:
    model = DistributedDataParallel(network().to(device), device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    points = spirals(POINTS)
    sampler = DistributedSampler(points)
    loader = DataLoader(points, batch_size=32, sampler=sampler)

    for epoch in range(1, EPOCHS + 1):
        sampler.set_epoch(epoch)
        sums = torch.zeros(3, device=device)  # loss, correct answers, points
        for batch in loader:
            xy_B2, label_B = (tensor.to(device) for tensor in batch)
            score_B = model(xy_B2).squeeze(1)
            loss = binary_cross_entropy_with_logits(score_B, label_B)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            correct = ((score_B > 0) == label_B.bool()).sum()
            sums += torch.stack([loss.detach() * len(label_B), correct, torch.tensor(len(label_B), device=device)])
        dist.all_reduce(sums)
        if dist.get_rank() == 0 and (epoch == 1 or epoch % 5 == 0):
            loss_sum, correct, count = sums.tolist()
            print(f"epoch {epoch:>2}/{EPOCHS}  loss {loss_sum / count:.3f}  {correct / count:.1%} correct", flush=True)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))


def spirals(count: int) -> TensorDataset:
    """Points on two spirals, slightly blurred, and which of the two each is on; the same on every process."""
    generator = torch.Generator().manual_seed(0)
    label_B = torch.arange(count) % 2
    turn_B = torch.rand(count, generator=generator).sqrt() * 3 * math.pi
    angle_B = turn_B + label_B * math.pi
    xy_B2 = torch.stack([angle_B.cos(), angle_B.sin()], dim=1) * turn_B[:, None] / (3 * math.pi)
    return TensorDataset(xy_B2 + 0.01 * torch.randn(count, 2, generator=generator), label_B.float())


if __name__ == "__main__":
    main()

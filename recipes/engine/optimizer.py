"""AdamW in float32, and the learning rate of each step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Optimizer:
    """AdamW. The learning rate rises during `warmup`, a share of the steps, or their number where it is 1 or more.

    After that it falls along half a cosine to `final` times itself. Gradients longer than `clip` are shortened.
    """

    learning_rate: float = 1e-5
    warmup: float = 0.05
    final: float = 0.1
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    clip: float = 1.0


def contradictions(optimizer: Optimizer) -> Iterator[str]:
    """Settings that nothing can be learned with."""
    for name in ("learning_rate", "clip", "epsilon"):
        if getattr(optimizer, name) <= 0:
            yield f"optimizer.{name}={getattr(optimizer, name)} has to be more than 0"
    for name in ("warmup", "weight_decay"):
        if getattr(optimizer, name) < 0:
            yield f"optimizer.{name}={getattr(optimizer, name)} has to be 0 or more"
    for name in ("beta1", "beta2"):
        if not 0 <= getattr(optimizer, name) < 1:
            yield f"optimizer.{name}={getattr(optimizer, name)} has to be 0 or more and less than 1"
    if not 0 <= optimizer.final <= 1:
        yield f"optimizer.final={optimizer.final} is a share of the learning rate: 0 to 1"


def make_optimizer(settings: Optimizer, network: Any) -> torch.optim.Optimizer:
    """AdamW over what is trained of the network; vectors (biases, norms) do not decay."""
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    groups = [
        {"params": [one for one in trained if one.ndim >= 2], "weight_decay": settings.weight_decay},  # noqa: PLR2004 - matrices
        {"params": [one for one in trained if one.ndim < 2], "weight_decay": 0.0},  # noqa: PLR2004
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=True,
    )


def learning_rate(settings: Optimizer, step: int, steps: int) -> float:
    """The rate of a step, counted from 1; a function of the step, so that a resume needs no memory of it."""
    warmup_steps = settings.warmup if settings.warmup >= 1 else settings.warmup * steps
    if step <= warmup_steps:
        return settings.learning_rate * step / warmup_steps
    done = min(1.0, (step - warmup_steps) / max(1.0, steps - warmup_steps))
    return settings.learning_rate * (settings.final + (1 - settings.final) * (1 + math.cos(math.pi * done)) / 2)

"""A recipe as small as can be: it fits a line through points, tells of it, saves, and can be told to go wrong."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from recipes.command import main
from recipes.engine.checkpoints import Checkpoints, Store
from recipes.engine.driver import Cluster, run
from recipes.engine.line import Line
from recipes.errors import RecipeError
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class Training:
    """How long, and which way to go wrong at which step, once or each time."""

    steps: int = 20
    step_s: float = 0.0
    fail: str | None = None
    fail_at: int = 10
    fail_rank: int = 0
    fail_always: bool = False


@dataclass(frozen=True)
class Settings:
    """A training of a line."""

    training: Training = field(default_factory=Training)
    checkpoints: Checkpoints = field(default_factory=lambda: Checkpoints(every=5))
    cluster: Cluster = field(default_factory=Cluster)


def train(settings: Settings, points: torch.Tensor, line: Line) -> None:
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    store = Store(settings.checkpoints, line)
    saved = store.restore(model, optimizer)
    step = saved["step"] if saved else 0
    steps = settings.training.steps
    if saved:
        line.tell("resumed", {"step": step})
    line.tell("start", start_of(step, steps))
    reason = "completed"
    while step < steps:
        step += 1
        go_wrong(settings, step, rank)
        loss = take_step(model, optimizer, points, step)
        time.sleep(settings.training.step_s)
        line.tell("step", step_of(step, loss))
        stopping = torch.tensor(float(line.stopping()))
        dist.broadcast(stopping, 0)
        if step % 5 == 0:
            line.tell("evaluation", {"step": step, "loss": loss, "perplexity": 2**loss, "best": True})
        if stopping or store.due(step) or step == steps:
            store.save(step, model, optimizer, {})
        if stopping and step < steps:
            reason = "stopped"
            break
    store.wait()
    if reason == "completed":
        line.tell("sample", {"prompt": "Where does it end?", "text": f"at {model.module.bias.item():.6f}"})
    line.tell("end", {"step": step, "reason": reason, "model_path": None})


def take_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, points: torch.Tensor, step: int) -> float:
    """The same for any number of workers: each has all points."""
    x = points + step % 3
    loss = (model(x) - 2 * x - 1).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(loss.detach())


def go_wrong(settings: Settings, step: int, rank: int) -> None:
    training = settings.training
    once = Path(settings.checkpoints.path, f"failed-{os.environ.get('AIR_ATTEMPT', '0')}")
    if training.fail is None or step != training.fail_at or rank != training.fail_rank:
        return
    if once.exists() and not training.fail_always:
        return
    once.touch()
    if training.fail == "kill":
        os.kill(os.getpid(), 9)
    if training.fail == "refuse":
        raise RecipeError(["rows.jsonl:7: not a number"], "Mend the row")
    if training.fail == "hang":
        time.sleep(1000)
    raise KeyError(training.fail)


def start_of(step: int, steps: int) -> dict[str, Any]:
    parameters = {"parameters": 2, "trained_parameters": 2, "flops_per_token": 12, "peak_flops": None}
    return {"step": step, "steps": steps, **parameters, "workers": dist.get_world_size(), "device": "CPU"}


def step_of(step: int, loss: float) -> dict[str, Any]:
    return {
        "step": step, "loss": loss, "learning_rate": 0.05, "grad_norm": 1.0, "tokens_per_s": 10.0,
        "padded_tokens_per_s": 12.0, "mfu": None, "peak_memory_bytes": 1000, "data_wait_share": 0.1,
        "seconds_per_step": 0.01, "epoch": 0,
    }  # fmt: skip


def main_of(words: list[str]) -> int:
    points = torch.linspace(-1, 1, 16)[:, None]
    return main("small", Settings(), lambda chosen: run(chosen, [points], train, recipe="small"), words, os.environ)


if __name__ == "__main__":
    sys.exit(main_of(sys.argv[1:]))

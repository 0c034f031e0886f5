"""A small model and its optimizer, one or several processes that train it, and where they tell things."""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

# Processes that are forked from one which has torch imported, and has done nothing with it.
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["recipes.engine.checkpoints", "torch.nn.parallel", "pytest"])


class Told:
    """A line that keeps what it is told."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []

    def tell(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.messages.append((kind, dict(facts)))

    def stopping(self) -> bool:
        return False

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.messages]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [facts for told, facts in self.messages if told == kind]


def make_model(width: int = 8, *, seed: int = 0) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(width, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, width)]
    return torch.nn.Sequential(*layers)


def make_optimizer(model: torch.nn.Module, *, fused: bool = False) -> torch.optim.Optimizer:
    return torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), lr=0.1, fused=fused)


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, first_step: int, last_step: int) -> list[float]:
    """The losses of some steps; the data of a step depend on the step alone."""
    losses = []
    for step in range(first_step, last_step + 1):
        torch.manual_seed(step)
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def spread_model(*, seed: int = 0) -> torch.nn.Sequential:
    """As `plain_model`, its parameters spread over the processes."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8))
    for layer in (model[0], model[2]):
        fully_shard(layer)
    return fully_shard(model)


def plain_model(*, seed: int = 0) -> torch.nn.Sequential:
    """What `spread_model` spreads."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8))


def on_ranks(count: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What `function` returns in each of so many processes that talk over gloo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answers = PROCESSES.SimpleQueue()
    processes = [
        PROCESSES.Process(target=one_rank, args=((rank, count, port), answers, function, arguments))
        for rank in range(count)
    ]
    for process in processes:
        process.start()
    try:
        found = gathered(processes, answers)
        for process in processes:
            process.join(60)
    finally:
        for process in processes:
            process.kill()
    problems = [answer for answer in found.values() if isinstance(answer, str) and answer.startswith("Traceback")]
    assert not problems, problems[0]
    return [found[rank] for rank in range(count)]


def gathered(processes: Sequence[Any], answers: Any) -> dict[int, Any]:
    """The answer of every process, by its rank."""
    found: dict[int, Any] = {}
    while len(found) < len(processes):
        ended = [process for process in processes if not process.is_alive()]
        while not answers.empty():
            found.update([answers.get()])
        codes = [process.exitcode for process in ended]
        assert len(found) >= len(ended), f"processes ended with codes {codes}, and not all of them with an answer"
        wait([process.sentinel for process in processes if process not in ended], 0.05)
    return found


def one_rank(
    place: tuple[int, int, int], answers: Any, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    rank, count, port = place
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(count))
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo")
        answers.put((rank, function(*arguments)))
        dist.destroy_process_group()
    except BaseException:
        answers.put((rank, traceback.format_exc()))
        raise

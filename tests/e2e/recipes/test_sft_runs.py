"""Fine-tuning as its first lines tell a newcomer to run it: what it learns, leaves and survives."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import Recipes, assert_generates, losses

FILE = "recipes/sft/train.yaml"
EVERY = 5  # steps from one checkpoint to the next
LATE = 2  # steps that are taken while a checkpoint is written
FEWER_STEPS = (
    "parameters.training.steps=60", "parameters.training.eval_every=20", "parameters.training.log_every=1",
    "parameters.data.limit=1500", "parameters.data.pack_tokens=256", "parameters.data.max_tokens=256",
    f"parameters.checkpoints.every={EVERY}",
)  # fmt: skip
ENDED = {"SUCCESS", "FAILED", "CANCELED", "TIMEOUT"}


@pytest.fixture(scope="session")
def uninterrupted(recipes: Recipes, python: Path) -> str:  # noqa: ARG001 - built before the run, and not in its time
    """A run with which nothing interferes, to its end."""
    run_id = recipes.run(FILE, *FEWER_STEPS)
    await_end(recipes, run_id)
    return run_id


def await_end(recipes: Recipes, run_id: str, within_s: float = 500, status: str = "SUCCESS") -> None:
    deadline = time.monotonic() + within_s
    while (view := recipes.view(run_id))["status"] not in ENDED:
        assert time.monotonic() < deadline, recipes.air("logs", run_id).stdout
        time.sleep(1)
    assert view["status"] == status, recipes.air("logs", run_id).stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sft_learns_and_its_record_and_its_model_are_of_use(recipes: Recipes, python: Path, uninterrupted: str) -> None:
    loss = recipes.metric(uninterrupted, "train/loss")
    assert list(loss) == list(range(1, 61))
    assert loss == losses(recipes.history(uninterrupted))
    assert loss[60] < 0.8 * loss[1]
    perplexity = recipes.metric(uninterrupted, "eval/perplexity")
    assert list(perplexity) == [20, 40, 60]
    assert perplexity[60] < perplexity[40] < perplexity[20]
    files = {file["path"] for file in recipes.tracked(uninterrupted, "artifacts/list")["files"]}
    assert {"summary.md", "summary.json", "loss.png"} <= files
    assert_generates(python, recipes.checkpoints(uninterrupted) / "model")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_file_runs_as_it_is(recipes: Recipes, python: Path) -> None:
    lines = recipes.watch(FILE, timeout_s=1700)
    run_id = recipes.view("@last")["run_id"]
    summary = json.loads((recipes.checkpoints(run_id) / "checkpoints" / "summary.json").read_text())
    assert summary["reason"] == "completed"
    assert summary["evaluation"]["last"] < 0.8 * summary["evaluation"]["first"]
    assert any(line.startswith("completed after step ") for line in lines)
    assert_generates(python, recipes.checkpoints(run_id) / "model")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_canceled_training_saves_after_its_step_on_both_nodes(recipes: Recipes, python: Path) -> None:  # noqa: ARG001
    run_id = recipes.run(FILE, *FEWER_STEPS, "parameters.checkpoints.every=none", "compute.accelerator_type=CPU_1xCORE")
    await_step(recipes, run_id, 3)
    assert recipes.air("cancel", run_id).returncode == 0
    await_end(recipes, run_id, status="CANCELED")
    history = recipes.history(run_id)
    step = max(losses(history))
    assert [entry["facts"]["step"] for entry in history if entry["kind"] == "saved"] == [step]
    assert history[-1]["kind"] == "end"
    assert (history[-1]["facts"]["step"], history[-1]["facts"]["reason"]) == (step, "stopped")
    assert f"stopped as asked after step {step}" in recipes.air("logs", run_id).stdout


class Victims:
    """What of a run can be killed."""

    def __init__(self, run_id: str) -> None:
        self._mark = f"AIR_RUN_ID={run_id}".encode()

    def of_run(self) -> Iterator[tuple[int, bytes, bytes]]:
        """The processes that the run's command has started: id, command line, variables."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                variables, line = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if self._mark in variables.split(b"\0"):
                yield int(entry.name), line.replace(b"\0", b" "), variables

    def worker(self) -> list[int]:
        return [pid for pid, line, _ in self.of_run() if line.startswith(b"ray::") and b"Worker" in line][:1]

    def driver(self) -> list[int]:
        return [pid for pid, line, _ in self.of_run() if b"-m recipes.sft" in line and not line.startswith(b"ray::")]

    def node(self) -> list[int]:
        """Everything of the second node."""
        return [pid for pid, _, variables in self.of_run() if b"NODE_RANK=1" in variables.split(b"\0")]

    def whole_run(self) -> list[int]:
        return [pid for pid, _, _ in self.of_run()]


def kill(found: Callable[[], list[int]]) -> int:
    """Kill them as they are found; returns how many there were."""
    pids = found()
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return len(pids)


def await_step(recipes: Recipes, run_id: str, step: int) -> None:
    deadline = time.monotonic() + 300
    while max(losses(recipes.history(run_id)), default=0) < step:
        assert time.monotonic() < deadline, recipes.air("logs", run_id).stdout
        time.sleep(0.02)


def resumptions(recipes: Recipes, run_id: str) -> list[int]:
    """The steps after which it went on."""
    return [entry["facts"]["step"] for entry in recipes.history(run_id) if entry["kind"] == "resumed"]


def await_resumption(recipes: Recipes, run_id: str, before: list[int]) -> int:
    """The step after which it went on, once it did so again."""
    deadline = time.monotonic() + 300
    while len(found := resumptions(recipes, run_id)) <= len(before):
        assert time.monotonic() < deadline, recipes.air("logs", run_id).stdout
        time.sleep(0.1)
    return found[-1]


def assert_kills_change_nothing(recipes: Recipes, whole: str, kinds: list[str], *overrides: str) -> None:
    """Kill these, one after the other, each at a step that a seed decides, and compare every loss."""
    seed = int(os.environ.get("AIR_TEST_SEED") or random.SystemRandom().randrange(10**9))
    print(f"AIR_TEST_SEED={seed}")
    room = (60 - EVERY) // len(kinds)
    run_id = recipes.run(FILE, *FEWER_STEPS, "max_retries=10", *overrides)
    victims = Victims(run_id)
    chosen = random.Random(seed)
    for number, kind in enumerate(kinds):
        step = EVERY + 1 + number * room + chosen.randrange(room)
        await_step(recipes, run_id, step)
        before = resumptions(recipes, run_id)
        killed = kill(getattr(victims, kind))
        reached = max(losses(recipes.history(run_id)))
        after = await_resumption(recipes, run_id, before)
        print(f"{kind}: {killed} killed at step {reached}, resumed after {after}")
        assert killed
        assert reached - after <= EVERY + LATE
    await_end(recipes, run_id)
    assert losses(recipes.history(run_id)) == losses(recipes.history(whole))
    assert recipes.metric(run_id, "train/loss") == recipes.metric(whole, "train/loss")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_killed_worker_and_a_killed_driver_cost_a_few_steps_and_change_no_loss(
    recipes: Recipes, uninterrupted: str
) -> None:
    assert_kills_change_nothing(recipes, uninterrupted, ["worker", "driver"])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_kills_of_every_kind_change_no_loss(recipes: Recipes, uninterrupted: str) -> None:
    two_nodes = ("compute.accelerator_type=CPU_1xCORE", "max_retries=20")
    kinds = ["worker", "node", "driver", "whole_run", "worker", "driver", "node", "whole_run", "worker", "driver"]
    assert_kills_change_nothing(recipes, uninterrupted, kinds, *two_nodes)

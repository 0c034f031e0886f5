"""The device check: all of it that a CPU can do, and what only GPUs can with their part replaced."""
# ruff: noqa: N803, N806 - the shapes are in capitals: T tokens, C channels

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module("gpu")


@pytest.fixture
def checks(gpu: Any) -> Any:
    del gpu  # which has found the folder
    return importlib.import_module("device.checks")


@pytest.fixture
def scale(gpu: Any) -> Any:
    del gpu
    return importlib.import_module("device.given").small()


def test_a_cpu_checks_what_it_can_and_says_what_it_cannot() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH / "gpu.py"), "--small"],
        capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    results = {line["part"]: line["result"] for line in lines}
    assert done.returncode == 0, done.stdout + done.stderr
    assert results == {
        "device": "ok", "attention": "skipped", "packed": "ok", "cross_entropy_memory": "skipped",
        "no_waiting": "skipped", "not_a_number": "ok", "no_memory": "ok", "checkpoint": "ok", "reference": "ok",
        "plain": "ok", "checkpointed": "ok", "compiled": "skipped",
    }  # fmt: skip
    assert {line["reason"] for line in lines if line["result"] == "skipped"} == {"skipped: needs a GPU"}
    [ratio] = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("plain ") and "," in line]
    assert float(ratio) > 2, done.stdout


def test_without_a_gpu_the_whole_check_says_what_can_be_done_instead() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH / "gpu.py")], capture_output=True, text=True, check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert done.returncode == 2
    assert "finds no GPU here; --small checks what a CPU can" in done.stdout
    assert done.stderr == ""


def wait_for_ever() -> dict[str, Any]:
    while True:
        time.sleep(60)


def kill_itself() -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def be_wrong() -> dict[str, Any]:
    raise ValueError("two and two are five\nin the second line")


@pytest.mark.parametrize(
    ("part", "error"),
    [
        (wait_for_ever, "no result within 1 s"),
        (kill_itself, "its process ended with SIGKILL"),
        (be_wrong, "ValueError: two and two are five"),
    ],
)
def test_a_part_that_goes_wrong_is_an_outcome(part: Any, error: str, gpu: Any) -> None:
    outcome = gpu.of_child("part", part, 1.0)
    assert (outcome.result, outcome.facts) == ("failed", {"error": error})


def test_the_check_of_attention_without_the_gpu_kernel_finds_it_right(kernel: Any, checks: Any, scale: Any) -> None:
    facts = checks.attention(dataclasses.replace(scale, pack_tokens=256))
    assert kernel.calls > len(checks.KINDS)
    assert 0 < facts["largest_error_share"] < 0.02


def test_the_check_of_attention_without_the_gpu_kernel_finds_a_window_that_is_wrong(
    kernel: Any, checks: Any, scale: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "window_is_off_by", 1)
    with pytest.raises(checks.CheckError, match="sliding_window=37"):
        checks.attention(dataclasses.replace(scale, pack_tokens=256))


def test_the_check_of_waiting_forbids_it_in_a_step_that_is_warm_and_allows_it_again(
    checks: Any, scale: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    assert checks.no_waiting(scale) == {"step": 3}
    assert modes == ["default", "default", "error", "default"]


def test_the_loss_in_parts_without_memory_counted_as_on_a_gpu_has_the_gradients_of_the_whole(
    checks: Any, scale: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = iter((2, 1))

    def held_by(loss: Any, hidden_1TC: torch.Tensor) -> tuple[int, torch.Tensor]:
        (gradient_1TC,) = torch.autograd.grad(loss(), [hidden_1TC])
        return next(held), gradient_1TC

    monkeypatch.setattr(checks, "held_by", held_by)
    monkeypatch.setattr("recipes.engine.loss.ROWS_AT_ONCE", 100)
    facts = checks.cross_entropy_memory(dataclasses.replace(scale, pack_tokens=256))
    assert (facts["in_parts_bytes"], facts["at_once_bytes"]) == (1, 2)

"""What people see of a training."""

from __future__ import annotations

import io
from typing import Any

import pytest
from recipes.engine.console import Console
from recipes.engine.quantities import amount, duration, size

START = {
    "step": 0, "steps": 600, "parameters": 1_234_567, "trained_parameters": 1_234_567, "workers": 2, "device": "CPU",
}  # fmt: skip
STEP = {
    "step": 120, "loss": 3.8021, "learning_rate": 4e-4, "grad_norm": 0.912, "tokens_per_s": 2531.2, "mfu": None,
    "seconds_per_step": 1 / 6,
}  # fmt: skip


def shown(*messages: tuple[str, dict[str, Any]]) -> list[str]:
    stream = io.StringIO()
    console = Console(stream)
    for kind, facts in messages:
        console.hear(kind, facts)
    return stream.getvalue().splitlines()


def test_a_training_reads_from_its_first_line_to_its_last() -> None:
    assert shown(
        ("resumed", {"step": 100}),
        ("start", {**START, "step": 100}),
        ("step", STEP),
        ("step", {**STEP, "step": 600, "mfu": 0.412}),
        ("evaluation", {"step": 600, "loss": 3.5, "perplexity": 33.1, "best": True}),
        ("saved", {"step": 600, "seconds": 0.21, "bytes": 12_000_380}),
        ("sample", {"prompt": "What does shutil.copy do?", "text": "Copy a file."}),
        ("end", {"step": 600, "reason": "completed", "model_path": "/run/model"}),
    ) == [
        "continuing after step 100",
        "1.23M parameters, 600 steps, 2 workers (CPU)",
        "step 120/600  loss 3.802  lr 4.0e-04  grad 0.91  2,531 tokens/s  eta 1m20s",
        "step 600/600  loss 3.802  lr 4.0e-04  grad 0.91  2,531 tokens/s  mfu 41%",
        "step 600/600  evaluation loss 3.500  perplexity 33.1  best so far",
        "step 600/600  saved 12 MB in 0.2s",
        "",
        "What does shutil.copy do?",
        "Copy a file.",
        "",
        "completed after step 600; the model is in /run/model",
    ]


def test_steps_stand_below_each_other() -> None:
    assert [
        line[:14] for line in shown(("start", START), *(("step", {**STEP, "step": n}) for n in (5, 50, 500)))[1:]
    ] == [
        "step   5/600  ",
        "step  50/600  ",
        "step 500/600  ",
    ]


def test_adapters_say_how_much_is_trained() -> None:
    (line,) = shown(("start", {**START, "trained_parameters": 12_000, "workers": 1}))
    assert line == "1.23M parameters, 12k of them trained, 600 steps, 1 worker (CPU)"


def test_one_step_is_no_steps() -> None:
    (line,) = shown(("start", {**START, "steps": 1}))
    assert line == "1.23M parameters, 1 step, 2 workers (CPU)"


def test_a_save_that_failed_is_hard_to_miss() -> None:
    told = {"step": 20, "reason": "no space is left in /run (No space left on device)"}
    assert shown(("start", START), ("not_saved", told))[1] == (
        "step  20/600  NOT saved: no space is left in /run (No space left on device); "
        "training goes on, the checkpoint before is kept"
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [("stopped", "stopped as asked"), ("early_stop", "stopped early, for evaluation no longer gains,")],
)
def test_an_end_before_the_last_step_says_why(reason: str, words: str) -> None:
    assert shown(("end", {"step": 40, "reason": reason, "model_path": None})) == [f"{words} after step 40"]


def test_what_a_console_does_not_know_it_does_not_show() -> None:
    assert shown(("weather", {"text": "rain"})) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (45.4, "45s"),
        (59.7, "1m00s"),
        (80, "1m20s"),
        (3599.8, "1h00m"),
        (7500, "2h05m"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_amounts_and_sizes() -> None:
    assert [amount(count) for count in (2, 12_345, 3_090_000_000, 2e12)] == ["2", "12.3k", "3.09B", "2T"]
    assert [amount(count) for count in (999_400, 999_700, 999_999_999, 1.2e15)] == ["999k", "1M", "1B", "1,200T"]
    assert [size(count) for count in (999, 999_499, 999_800)] == ["999 bytes", "999 kB", "1 MB"]
    assert [size(count) for count in (632, 12_000_380, 3.6e10, 5e12)] == ["632 bytes", "12 MB", "36 GB", "5 TB"]

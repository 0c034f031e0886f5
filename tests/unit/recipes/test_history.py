"""What is kept of a training through its resumes, and what the summary makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recipes.engine.history import FILE, History
from recipes.engine.summary import Losses, Speed, in_words, summarize, write_summary

START = {"steps": 40, "parameters": 1000, "trained_parameters": 100, "workers": 2, "device": "CPU"}


def silent(text: str) -> None:
    raise AssertionError(text)


def step_facts(step: int, loss: float) -> dict[str, Any]:
    return {
        "step": step, "loss": loss, "learning_rate": 0.1, "grad_norm": 1.0, "tokens_per_s": 100.0 + step,
        "padded_tokens_per_s": 200.0, "mfu": 0.4, "peak_memory_bytes": 5000 + step, "data_wait_share": 0.1,
        "seconds_per_step": 1.0, "epoch": 0,
    }  # fmt: skip


def tell_attempt(history: History, first: int, last: int, at: float) -> None:
    """Report every ten steps, a second each, and save when half of them are taken."""
    if first:
        history.hear("resumed", {"step": first}, at)
    history.hear("start", {"step": first, **START}, at)
    for step in range(first + 10, last + 1, 10):
        history.hear("step", step_facts(step, 5 - step / 10), at + step - first)
        if step % 20 == 0:
            loss = 4 - step / 20
            told = {"step": step, "loss": loss, "perplexity": 2.0**loss, "best": True}
            history.hear("evaluation", told, at + step - first + 1)
            history.hear("saved", {"step": step, "seconds": 0.5, "bytes": 2000, "held_s": 0.1}, at + step - first + 2)


def end(history: History, step: int, at: float) -> None:
    history.hear("sample", {"prompt": "Who?", "text": "Me.\nAgain me."}, at)
    history.hear("end", {"step": step, "reason": "completed", "model_path": "/run/model"}, at)


def test_a_resumed_training_has_each_step_once(tmp_path: Path) -> None:
    tell_attempt(History(tmp_path, silent), 0, 30, 1000.0)
    resumed = History(tmp_path, silent)
    tell_attempt(resumed, 20, 40, 2000.0)
    for history in (resumed, History(tmp_path, silent)):
        assert [entry.step for entry in history.of("step")] == [10, 20, 30, 40]
        assert [entry.step for entry in history.of("saved")] == [20, 40]
        assert [entry.step for entry in history.of("resumed")] == [20]
    assert resumed.saved_step() == 40


def test_a_training_that_starts_over_has_no_past(tmp_path: Path) -> None:
    tell_attempt(History(tmp_path, silent), 0, 30, 1000.0)
    history = History(tmp_path, silent)
    tell_attempt(history, 0, 10, 2000.0)
    assert [entry.kind for entry in History(tmp_path, silent).entries] == ["start", "step"]


def test_a_line_that_a_kill_has_cut_is_left_out(tmp_path: Path) -> None:
    tell_attempt(History(tmp_path, silent), 0, 30, 1000.0)
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes()[:-20])
    history = History(tmp_path, silent)
    assert [entry.step for entry in history.of("step")] == [10, 20]
    tell_attempt(history, 20, 30, 2000.0)
    assert [entry.step for entry in History(tmp_path, silent).of("step")] == [10, 20, 30]


def test_a_folder_that_cannot_be_written_costs_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said: list[str] = []
    history = History(tmp_path / "file", said.append)
    tell_attempt(history, 0, 30, 1000.0)
    (line,) = said
    assert line.startswith("the history of the training is no longer written: ")
    assert len(history.of("step")) == 3


def test_the_summary_is_of_all_attempts(tmp_path: Path) -> None:
    history = History(tmp_path, silent)
    tell_attempt(history, 0, 30, 1000.0)
    tell_attempt(history, 20, 40, 5000.0)
    end(history, 40, 5023.0)
    summary = summarize("sft", {"training.steps": "40"}, history)
    assert summary is not None
    assert (summary.reason, summary.step, summary.resumed_after) == ("completed", 40, [20])
    assert summary.train == Losses(first=4.0, last=1.0, best=1.0, best_step=40)
    assert summary.evaluation == Losses(first=3.0, last=2.0, best=2.0, best_step=40)
    assert summary.perplexity == 4.0
    assert summary.speed == Speed(tokens_per_s=130.0, padded_tokens_per_s=200.0, seconds_per_step=1.0, mfu=0.4)
    assert summary.peak_memory_bytes == 5040
    assert summary.time.steps_s == 40.0
    assert summary.time.data_wait_s == pytest.approx(4.0)
    assert summary.time.total_s == pytest.approx(22 + 23)  # of the lost steps, what was told before they were
    assert (summary.checkpoints, summary.checkpoint_bytes, summary.not_saved) == (2, 2000, 0)

    data, text = write_summary(summary, tmp_path)
    assert json.loads(data.read_text())["settings"] == {"training.steps": "40"}
    assert text.read_text() == in_words(summary)
    assert in_words(summary) == EXPECTED


def test_a_setting_of_several_lines_stays_among_the_settings(tmp_path: Path) -> None:
    history = History(tmp_path, silent)
    tell_attempt(history, 0, 30, 1000.0)
    summary = summarize("sft", {"training.sample": "Who?\n# And why?", "training.seed": "0"}, history)
    assert summary is not None
    assert in_words(summary).endswith("\nSettings:\n\n    training.sample=Who?\n    # And why?\n    training.seed=0\n")


EXPECTED = """# sft: completed after step 40 of 40

|  |  |
| --- | --- |
| model | 1k parameters, 100 trained |
| workers | 2 (CPU) |
| training loss | 4.0000 at first, 1.0000 at last, best 1.0000 at step 40 |
| evaluation loss | 3.0000 at first, 2.0000 at last, best 2.0000 at step 40 |
| perplexity | 4.00 at best |
| tokens per second | 130, with padding 200 |
| model FLOPs utilization | 40.0% |
| peak memory of a worker | 5.04 kB |
| time | 45s: 89% steps (waiting for data 8.9%), 11% all else |
| checkpoints | 2 saved, the last of 2 kB |
| resumed | after step 20 |
| the model is in | `/run/model` |

![Loss over the steps](loss.png)

> Who?

> Me.
> Again me.

Settings:

    training.steps=40
"""


def test_a_training_that_ended_without_a_word_has_failed(tmp_path: Path) -> None:
    history = History(tmp_path, silent)
    assert summarize("sft", {}, history) is None
    tell_attempt(history, 0, 10, 1000.0)
    end(history, 10, 1010.0)
    tell_attempt(history, 10, 30, 2000.0)
    summary = summarize("sft", {}, history)
    assert summary is not None
    assert (summary.reason, summary.model_path, summary.step) == ("failed", None, 30)

"""What is kept of trials, which one is the best, and how they are told of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from recipes.errors import RecipeError
from recipes.tune.report import COLORS, figure_of, in_columns, plot_trials, ranking, rows
from recipes.tune.settings import wanted
from recipes.tune.trials import Evaluation, Status, Trial, best_of, trials_of

RATES = "search.optimizer.learning_rate=[1e-3,1e-2,1e-1]"


def made(folder: Path, *words: str) -> list[Trial]:
    """The trials of a search over 40 documents of 100 tokens each."""
    corpus: Any = SimpleNamespace(lengths_D=np.full(40, 100), learned_D=np.full(40, 50), digest="d")
    return trials_of(wanted([RATES, *words], {}), SimpleNamespace(train=corpus), folder)  # type: ignore[arg-type]


def finish(trial: Trial, *losses: float, status: Status = "completed") -> None:
    for number, loss in enumerate(losses, 1):
        trial.add(Evaluation(number, number * 10, loss, 2.0))
    trial.status, trial.has_model = status, status == "completed"


def test_each_trial_is_evaluated_after_the_same_shares_in_a_folder_of_its_own(tmp_path: Path) -> None:
    trials = made(tmp_path, "data.packs=1", "data.pack_tokens=200", "data.max_tokens=100", "training.epochs=2.0")
    assert [trial.steps for trial in trials] == [40, 40, 40]
    assert {trial.settings.training.eval_every for trial in trials} == {5}
    assert len({trial.folder for trial in trials}) == 3
    assert [trial.settings.checkpoints.path for trial in trials] == [trial.folder / "checkpoints" for trial in trials]


def test_a_trial_that_is_too_short_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"learning_rate=0.001: 7 steps are fewer than tune.evaluations=8"):
        made(tmp_path, "training.steps=7")


def test_what_is_known_is_taken_up_again_and_a_trial_that_was_cut_down_waits(tmp_path: Path) -> None:
    statuses: tuple[Status, ...] = ("completed", "running", "lost")
    for trial, status in zip(made(tmp_path, "training.steps=80"), statuses, strict=True):
        finish(trial, 3.0, 2.5, status=status)
        trial.save()
    again = made(tmp_path, "training.steps=80", "tune.grace=2", "cluster.workers=4")
    assert [trial.status for trial in again] == ["completed", "waiting", "waiting"]
    assert [[one.loss for one in trial.evaluations] for trial in again] == [[3.0, 2.5]] * 3
    assert [trial.has_model for trial in again] == [True, False, False]
    others = made(tmp_path, "training.steps=90")
    assert [trial.evaluations for trial in others] == [[], [], []]


def test_an_evaluation_that_is_made_again_after_a_resume_is_no_news(tmp_path: Path) -> None:
    trial = made(tmp_path, "training.steps=80")[0]
    assert trial.add(Evaluation(1, 10, 3.0, 20.1))
    assert not trial.add(Evaluation(1, 10, 3.0, 20.1))
    assert len(trial.evaluations) == 1


def test_the_best_is_the_one_whose_model_evaluates_best(tmp_path: Path) -> None:
    trials = made(tmp_path, "training.steps=80")
    assert best_of(trials) is None
    finish(trials[0], 3.0, 2.0, 2.9)
    finish(trials[1], 3.0, 2.8, 2.7)
    finish(trials[2], 1.0, status="pruned")
    assert best_of(trials) is trials[1]
    for trial in trials:  # with early stop, the model is that of the best evaluation
        trial.settings = replace(trial.settings, training=replace(trial.settings.training, patience=1))
    assert best_of(trials) is trials[0]


def test_the_table_has_the_best_first_and_then_those_that_came_farthest(tmp_path: Path) -> None:
    trials = made(tmp_path, "training.steps=80")
    finish(trials[0], 1.0, status="pruned")
    finish(trials[1], 3.0, 2.5)
    trials[2].status = "failed"
    assert [trial.number for trial in ranking(trials)] == [2, 1, 3]
    assert in_columns(rows(trials)).splitlines() == [
        "trial    loss  perplexity  steps        end  learning_rate",
        "    2  2.5000        2.00     20  completed           0.01",
        "    1  1.0000        2.00     10     pruned          0.001",
        "    3                          0     failed            0.1",
    ]


def test_the_plot_names_the_best_trials_and_has_those_far_behind_in_gray(tmp_path: Path) -> None:
    rates = [rate / 1000 for rate in range(1, 41)]
    trials = made(tmp_path, f"search.optimizer.learning_rate={rates}", "training.steps=80")
    for trial in trials[:38]:
        finish(trial, 9.0 - trial.number / 10, status="pruned")
    finish(trials[38], 4.0, 3.0)
    axes = figure_of(trials).axes[0]
    legend = axes.get_legend()
    assert legend is not None
    named = [text.get_text() for text in legend.get_texts()]
    assert named == [str(trial.number) for trial in ranking(trials)[:COLORS]] + ["others"]
    assert len(axes.get_lines()) == 39  # one was never evaluated
    assert [line.get_label() for line in axes.get_lines() if line.get_linewidth() > 1] == ["39"]


def test_a_search_in_which_nothing_was_evaluated_has_a_plot(tmp_path: Path) -> None:
    assert plot_trials(made(tmp_path, "training.steps=80"), tmp_path / "trials.png").stat().st_size > 0

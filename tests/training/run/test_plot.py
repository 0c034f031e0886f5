"""The picture of the losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recipes.engine.history import History
from recipes.engine.plot import figure_of, plot_losses


def history(folder: Path, *told: tuple[str, dict[str, Any]]) -> History:
    made = History(folder, print)
    for at, (kind, facts) in enumerate(told):
        made.hear(kind, facts, float(at))
    return made


def test_the_only_step_that_was_told_is_seen(tmp_path: Path) -> None:
    (line,) = figure_of(history(tmp_path, ("step", {"step": 1, "loss": 3.0}))).axes[0].get_lines()
    assert line.get_marker() == "."


def test_losses_evaluations_and_resumes_are_told_apart(tmp_path: Path) -> None:
    told = history(
        tmp_path,
        *(("step", {"step": step, "loss": 9.0 - step}) for step in (1, 2, 3)),
        ("evaluation", {"step": 3, "loss": 5.5}),
        ("resumed", {"step": 3}),
        ("resumed", {"step": 3}),
        ("step", {"step": 4, "loss": 5.0}),
    )
    axes = figure_of(told).axes[0]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["training", "evaluation", "resumed"]
    training, evaluation, *resumes = axes.get_lines()
    assert (list(training.get_xdata()), list(training.get_ydata())) == ([1, 2, 3, 4], [8.0, 7.0, 6.0, 5.0])
    assert (list(evaluation.get_xdata()), list(evaluation.get_ydata())) == ([3], [5.5])
    assert [list(line.get_xdata()) for line in resumes] == [[3, 3], [3, 3]]


def test_a_training_that_told_nothing_has_a_picture_too(tmp_path: Path) -> None:
    assert plot_losses(history(tmp_path), tmp_path / "loss.png").stat().st_size > 0

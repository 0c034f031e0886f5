"""The loss over the steps, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recipes.engine.history import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_losses(history: History, file: Path) -> Path:
    """The picture in a file; returns the file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure_of(history)).print_png(file)
    return file


def figure_of(history: History) -> Figure:
    """Training and evaluation loss, with a line where the training was resumed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(xlabel="step", ylabel="loss")
    steps, evaluations = history.of("step"), history.of("evaluation")
    if steps:
        points = ([one.step for one in steps], [one.facts["loss"] for one in steps])
        lone = "." if len(steps) == 1 else None  # a line of one point is none
        axes.plot(*points, label="training", marker=lone, linewidth=1.2)
    if evaluations:
        points = ([one.step for one in evaluations], [one.facts["loss"] for one in evaluations])
        axes.plot(*points, label="evaluation", marker="o", markersize=4, linewidth=1.2)
    for number, entry in enumerate(history.of("resumed")):
        axes.axvline(entry.step, color="gray", linestyle=":", linewidth=1, label=None if number else "resumed")
    axes.grid(alpha=0.3)
    if axes.has_data():
        axes.legend()
    return figure

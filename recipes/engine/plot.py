"""The loss over the steps, as a picture."""

from __future__ import annotations

from pathlib import Path

from recipes.engine.history import History


def plot_losses(history: History, file: Path) -> Path:
    """Training and evaluation loss, with a line where the training was resumed; returns the file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(xlabel="step", ylabel="loss")
    steps, evaluations = history.of("step"), history.of("evaluation")
    axes.plot([one.step for one in steps], [one.facts["loss"] for one in steps], label="training", linewidth=1.2)
    if evaluations:
        points = ([one.step for one in evaluations], [one.facts["loss"] for one in evaluations])
        axes.plot(*points, label="evaluation", marker="o", markersize=4, linewidth=1.2)
    for number, entry in enumerate(history.of("resumed")):
        axes.axvline(entry.step, color="gray", linestyle=":", linewidth=1, label=None if number else "resumed")
    axes.grid(alpha=0.3)
    axes.legend()
    FigureCanvasAgg(figure).print_png(file)
    return file

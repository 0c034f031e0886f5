"""What people see of a search: a line for what happens to a trial, and in the end a table, a file and a plot."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from recipes.overrides import written
from recipes.tune.settings import settings_of, words_of_sft
from recipes.tune.trials import Evaluation, Trial, best_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = 10  # that matplotlib tells apart; further trials are gray
ENDS = {
    "completed": "completed",
    "pruned": "stopped early: others are better",
    "failed": "failed",
    "lost": "lost",
    "stopped": "stopped as asked",
}


def named(trial: Trial, trials: Sequence[Trial]) -> str:
    width = len(str(len(trials)))
    return f"trial {trial.number:>{width}}/{len(trials)}"


def evaluated(evaluation: Evaluation, trial: Trial) -> str:
    width = len(str(trial.steps))
    numbers = f"evaluation loss {evaluation.loss:.3f}  perplexity {evaluation.perplexity:,.1f}"
    return f"step {evaluation.step:>{width}}/{trial.steps}  {numbers}"


def ended(trial: Trial) -> str:
    text = f": {trial.text}" if trial.text else ""
    return f"{ENDS[trial.status]}{text}"


def ranking(trials: Iterable[Trial]) -> list[Trial]:
    """The best first: those that came to their end, then those that came farthest."""

    def place(trial: Trial) -> tuple[bool, float, float]:
        share = trial.evaluations[-1].step / trial.steps if trial.evaluations else 0.0
        complete = trial.status == "completed"
        return (not complete, -1.0 if complete else -share, trial.loss)

    return sorted(trials, key=place)


def rows(trials: Sequence[Trial]) -> list[list[str]]:
    """The table: what was tried, and what it was worth."""
    names = list(trials[0].candidate)
    header = ["trial", "loss", "perplexity", "steps", "end", *(name.removeprefix("optimizer.") for name in names)]
    found = [header]
    for trial in ranking(trials):
        numbers = [f"{trial.loss:.4f}", f"{trial.result.perplexity:,.2f}"] if trial.result else ["", ""]
        steps = str(trial.evaluations[-1].step) if trial.evaluations else "0"
        values = [written(value) for value in trial.candidate.values()]
        found.append([str(trial.number), *numbers, steps, trial.status, *values])
    return found


def in_columns(table: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
    return "\n".join(lines)


def in_markdown(table: Sequence[Sequence[str]]) -> str:
    header, *others = (f"| {' | '.join(row)} |" for row in table)
    return "\n".join([header, "|---" * len(table[0]) + "|", *others])


def command_for(trial: Trial) -> str:
    """What trains with the settings of a trial."""
    words = words_of_sft(settings_of(trial.settings, trial.candidate))
    return shlex.join(["python", "-m", "recipes.sft", *words])


def write_report(trials: Sequence[Trial], folder: Path) -> list[Path]:
    """The table and the plot, and everything for programs; returns where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    text, data = folder / "trials.md", folder / "trials.json"
    best = best_of(trials)
    train = f"\nTrain with the settings of trial {best.number}:\n\n    {command_for(best)}\n" if best else ""
    text.write_text(
        f"# {len(trials)} trials\n\n{in_markdown(rows(trials))}\n\n![Evaluation losses](trials.png)\n{train}",
        encoding="utf-8",
    )
    facts = [
        {
            "number": trial.number, "settings": trial.candidate, "status": trial.status, "text": trial.text,
            "loss": trial.result and trial.result.loss, "folder": str(trial.folder), "mlflow_run": trial.mlflow_run,
            "evaluations": [asdict(one) for one in trial.evaluations], "best": trial is best,
        }
        for trial in ranking(trials)
    ]  # fmt: skip
    data.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return [text, data, plot_trials(trials, folder / "trials.png")]


def plot_trials(trials: Sequence[Trial], file: Path) -> Path:
    """The picture in a file; returns the file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure_of(trials)).print_png(file)
    return file


def figure_of(trials: Sequence[Trial]) -> Figure:
    """The evaluation loss of every trial over the share of its training, the best one's bold, those far behind gray."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(xlabel="share of the training", ylabel="evaluation loss", xlim=(0, 1.03))
    best = best_of(trials)
    shown = [trial for trial in ranking(trials) if curve(trial)]
    for place, trial in reversed(list(enumerate(shown))):  # the best on top
        color = f"C{place}" if place < COLORS else "lightgray"
        label = str(trial.number) if place < COLORS else "others" if place == COLORS else None
        width = 3 if trial is best else 1
        axes.plot(*zip(*curve(trial), strict=True), marker="o", markersize=3, linewidth=width, color=color, label=label)
    axes.grid(alpha=0.3)
    if shown:
        lines, names = axes.get_legend_handles_labels()
        axes.legend(lines[::-1], names[::-1], title="trial", ncols=2, fontsize="small")
    return figure


def curve(trial: Trial) -> list[tuple[float, float]]:
    """Share of the training and loss of each evaluation that came to a number."""
    return [(one.step / trial.steps, one.loss) for one in trial.evaluations if math.isfinite(one.loss)]

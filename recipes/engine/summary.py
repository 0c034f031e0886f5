"""What a training was and what came of it, for people (summary.md) and for programs (summary.json)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from textwrap import indent

from recipes.engine.history import Entry, History
from recipes.engine.quantities import amount, duration, size


@dataclass(frozen=True)
class Losses:
    """Of the steps that were told, or of the evaluations."""

    first: float
    last: float
    best: float
    best_step: int


@dataclass(frozen=True)
class Speed:
    """Medians over the steps that were told; tokens of all workers together."""

    tokens_per_s: float
    padded_tokens_per_s: float
    seconds_per_step: float
    mfu: float | None


@dataclass(frozen=True)
class Time:
    """Where the time between the first word of the workers and the last one went, all attempts together.

    `steps_s` holds `data_wait_s`; `other_s` is evaluating, saving, and steps that were lost with a worker.
    """

    total_s: float
    steps_s: float
    data_wait_s: float
    other_s: float


@dataclass(frozen=True)
class Summary:
    """A training as it ended; what was never told is None."""

    recipe: str
    reason: str
    step: int
    steps: int
    model_path: str | None
    workers: int
    device: str
    parameters: int
    trained_parameters: int
    train: Losses | None
    evaluation: Losses | None
    perplexity: float | None
    speed: Speed | None
    time: Time
    peak_memory_bytes: int | None
    checkpoints: int
    checkpoint_bytes: int | None
    not_saved: int
    resumed_after: list[int]
    sample: dict[str, str] | None
    settings: dict[str, str]


def summarize(recipe: str, settings: Mapping[str, str], history: History) -> Summary | None:
    """The summary of what was told; None where the training did not begin."""
    starts, steps, evaluations = history.of("start"), history.of("step"), history.of("evaluation")
    if not starts:
        return None
    start, end = starts[-1].facts, next(iter(history.of("end")[-1:]), None)
    ended = end is not None and end.at >= starts[-1].at
    best = min(evaluations, key=lambda entry: entry.facts["loss"], default=None)
    sample = next(iter(history.of("sample")[-1:]), None)
    return Summary(
        recipe=recipe,
        reason=end.facts["reason"] if end and ended else "failed",
        step=max((entry.step for entry in history.entries), default=0),
        steps=start["steps"],
        model_path=end.facts["model_path"] if end and ended else None,
        workers=start["workers"],
        device=start["device"],
        parameters=start["parameters"],
        trained_parameters=start["trained_parameters"],
        train=losses(steps),
        evaluation=losses(evaluations),
        perplexity=best.facts["perplexity"] if best else None,
        speed=speed(steps),
        time=time_of(history),
        peak_memory_bytes=max((entry.facts["peak_memory_bytes"] for entry in steps), default=None),
        checkpoints=len(history.of("saved")),
        checkpoint_bytes=next((entry.facts["bytes"] for entry in reversed(history.of("saved"))), None),
        not_saved=len(history.of("not_saved")),
        resumed_after=[entry.step for entry in history.of("resumed")],
        sample={key: str(sample.facts[key]) for key in ("prompt", "text")} if sample else None,
        settings=dict(settings),
    )


def losses(entries: Sequence[Entry]) -> Losses | None:
    if not entries:
        return None
    best = min(entries, key=lambda entry: entry.facts["loss"])
    return Losses(entries[0].facts["loss"], entries[-1].facts["loss"], best.facts["loss"], best.step)


def speed(steps: Sequence[Entry]) -> Speed | None:
    """Without the first report, in which all is slow, where there are others."""
    facts = [entry.facts for entry in (steps[1:] or steps)]
    if not facts:
        return None
    shares = [one["mfu"] for one in facts if one["mfu"] is not None]
    return Speed(
        tokens_per_s=median(one["tokens_per_s"] for one in facts),
        padded_tokens_per_s=median(one["padded_tokens_per_s"] for one in facts),
        seconds_per_step=median(one["seconds_per_step"] for one in facts),
        mfu=median(shares) if shares else None,
    )


def time_of(history: History) -> Time:
    """Each attempt from its start to the last thing that it told."""
    total_s = steps_s = data_wait_s = 0.0
    for before, entry in pairwise(history.entries):
        if entry.kind not in {"start", "resumed"}:
            total_s += max(0.0, entry.at - before.at)
    reached = 0
    for entry in history.entries:
        if entry.kind == "step":
            taken_s = (entry.step - reached) * entry.facts["seconds_per_step"]
            steps_s += taken_s
            data_wait_s += taken_s * entry.facts["data_wait_share"]
        if entry.kind in {"step", "start"}:
            reached = entry.step
    return Time(total_s, steps_s, data_wait_s, max(0.0, total_s - steps_s))


def write_summary(summary: Summary, folder: Path) -> list[Path]:
    """Both files; returns where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    data, text = folder / "summary.json", folder / "summary.md"
    data.write_text(json.dumps(asdict(summary), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    text.write_text(in_words(summary), encoding="utf-8")
    return [data, text]


def in_words(summary: Summary) -> str:
    """The summary as Markdown, with the plot that stands beside it."""
    rows = "\n".join(f"| {name} | {value} |" for name, value in table(summary))
    sample = f"\n{quoted(summary.sample['prompt'])}\n\n{quoted(summary.sample['text'])}\n" if summary.sample else ""
    settings = indent("\n".join(f"{name}={value}" for name, value in summary.settings.items()), "    ")
    return (
        f"# {summary.recipe}: {summary.reason} after step {summary.step:,} of {summary.steps:,}\n\n"
        f"|  |  |\n| --- | --- |\n{rows}\n\n![Loss over the steps](loss.png)\n{sample}\nSettings:\n\n{settings}\n"
    )


def quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def table(summary: Summary) -> Iterator[tuple[str, str]]:
    trained = (
        "" if summary.trained_parameters == summary.parameters else f", {amount(summary.trained_parameters)} trained"
    )
    yield "model", f"{amount(summary.parameters)} parameters{trained}"
    yield "workers", f"{summary.workers} ({summary.device})"
    for name, found in (("training loss", summary.train), ("evaluation loss", summary.evaluation)):
        if found:
            at_best = f"best {found.best:.4f} at step {found.best_step:,}"
            yield name, f"{found.first:.4f} at first, {found.last:.4f} at last, {at_best}"
    if summary.perplexity is not None:
        yield "perplexity", f"{summary.perplexity:,.2f} at best"
    yield from measured(summary)
    yield "checkpoints", saves(summary)
    if summary.resumed_after:
        yield "resumed", "after step " + ", ".join(f"{step:,}" for step in summary.resumed_after)
    if summary.model_path:
        yield "the model is in", f"`{summary.model_path}`"


def measured(summary: Summary) -> Iterator[tuple[str, str]]:
    if pace := summary.speed:
        yield "tokens per second", f"{pace.tokens_per_s:,.0f}, with padding {pace.padded_tokens_per_s:,.0f}"
        if pace.mfu is not None:
            yield "model FLOPs utilization", f"{pace.mfu:.1%}"
    if summary.peak_memory_bytes is not None:
        yield "peak memory of a worker", size(summary.peak_memory_bytes)
    time = summary.time
    if time.total_s:
        steps, waits, other = (part / time.total_s for part in (time.steps_s, time.data_wait_s, time.other_s))
        yield (
            "time",
            (f"{duration(time.total_s)}: {steps:.0%} steps (waiting for data {waits:.1%}), {other:.0%} all else"),
        )


def saves(summary: Summary) -> str:
    last = f", the last of {size(summary.checkpoint_bytes)}" if summary.checkpoint_bytes else ""
    failed = f"; {summary.not_saved} could not be saved" if summary.not_saved else ""
    return f"{summary.checkpoints} saved{last}{failed}"

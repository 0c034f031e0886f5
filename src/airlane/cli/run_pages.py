"""A run on the screen: the verdict that ends a watched one, the page of `air get`, the table of `air list`."""

from __future__ import annotations

from collections.abc import Sequence

from airlane.cli.layout import hanging, table
from airlane.cli.run_words import (
    cause_lines,
    cause_words,
    compute_words,
    environment_words,
    git_words,
    home_relative,
    image_words,
    metric_words,
    painted_state,
    place_words,
    short_digest,
    short_image_digest,
    status_words,
)
from airlane.cli.screen import Look
from airlane.cli.words import ago, count, duration, local_time, size
from airlane.store.records import Attempt, RunRecord
from airlane.store.runs import RunView
from airlane.store.states import State

_LABEL = 13
_LIST_HEADINGS = ("RUN", "EXPERIMENT", "STATUS", "STARTED", "DURATION", "COMPUTE", "WHERE")


def verdict(view: RunView, look: Look, now: float) -> str:
    """How a run ended, and why."""
    took = view.duration_s(now)
    word = "in" if view.state is State.SUCCESS else "after"
    head = f"{_mark(view.state, look)} {painted_state(view.state, look)}"
    if took is not None:
        head += f"  {word} {duration(took)}"
    if len(view.attempts) > 1:
        head += f" and {len(view.attempts)} attempts"
    url = _mlflow_url(view)
    if view.state is State.SUCCESS:
        head = "   ".join([head, *metric_words(view, steps=False)])
        beside = f"{head}   {url}" if url else head
        fits = look.columns is None or len(beside) <= look.columns
        return "\n".join([*([beside] if fits else [head, f"  {url}"]), *_tracking_lines(view, look)])
    lines = [head]
    if view.cause is not None and view.state is not State.CANCELED:
        lines += cause_lines(view.cause, view.record.id, look)
    if url:
        lines.append("   ".join(["  metrics ", *metric_words(view, steps=True), url]))
    return "\n".join([*lines, *_tracking_lines(view, look)])


def get_page(view: RunView, look: Look, now: float, *, workload: str | None = None) -> str:
    """Everything about one run."""
    record = view.record
    above = (
        ("run", f"{look.paint(record.id, 'bold')}  {record.experiment_name}"),
        ("status", "  ".join(part for part in (painted_state(view.state, look), status_words(view)) if part)),
        ("submitted", _times(view, now)),
        ("where", _where(view)),
        ("compute", _compute(view)),
        ("code", _code(view)),
        _environment(record),
    )
    cluster = record.ray is not None and view.state is State.RUNNING
    below = (
        ("ray", f"air ray status {record.id}" if cluster else ""),
        ("metrics", "   ".join([*metric_words(view, steps=True), _mlflow_url(view) or ""]).rstrip()),
        ("rerun of", record.rerun_of or ""),
        ("files", home_relative(view.paths.root)),
    )
    lines = [*_rows(above, look), *_attempt_lines(view, look, now), *_rows(below, look)]
    if view.cause is not None and view.state in (State.FAILED, State.TIMEDOUT):
        lines += ["", *cause_lines(view.cause, record.id, look, indent="")]
    notes = [f"{look.warn} {warning}" for warning in record.warnings]
    lines += [*([""] if notes else []), *notes, *_tracking_lines(view, look)]
    if workload is not None:
        lines += ["", *workload.rstrip("\n").split("\n")]
    return "\n".join(lines)


def run_table(views: Sequence[RunView], look: Look, now: float) -> str:
    """The table of `air list`; on a terminal, names are cut so that it fits."""
    rows = [_list_row(view, look, now) for view in views]
    return table(_LIST_HEADINGS, rows, look, shrinks=_LIST_HEADINGS.index("EXPERIMENT"))


def _list_row(view: RunView, look: Look, now: float) -> tuple[str, ...]:
    record = view.record
    took = view.duration_s(now)
    return (
        record.id,
        record.experiment_name,
        painted_state(view.state, look),
        ago(now - (view.started_at or record.submitted_at)),
        duration(took) if took is not None else "-",
        compute_words(record.accelerators, record.accelerator_type),
        place_words(record),
    )


def _mark(state: State, look: Look) -> str:
    if state is State.SUCCESS:
        return look.ok
    return look.warn if state is State.CANCELED else look.bad


def _times(view: RunView, now: float) -> str:
    submitted = view.record.submitted_at
    words = f"{local_time(submitted)} ({ago(now - submitted)})"
    took = view.duration_s(now)
    if took is None:
        return words
    return f"{words}   {'ran' if view.state.terminal else 'running for'} {duration(took)}"


def _where(view: RunView) -> str:
    record = view.record
    hosts = tuple(dict.fromkeys(view.attempts[-1].hosts)) if view.attempts else ()
    first = record.backend if record.profile in (None, record.backend) else f"profile {record.profile}"
    place = view.status.place if view.status is not None else None
    return " · ".join(part for part in (first, place, ", ".join(hosts)) if part)


def _compute(view: RunView) -> str:
    record = view.record
    words = compute_words(record.accelerators, record.accelerator_type, simulate=record.simulate)
    return f"{words} on {count(record.nodes, 'node')}"


def _code(view: RunView) -> str:
    snapshot = view.record.snapshot
    if snapshot is None:
        return ""
    parts = (
        short_digest(snapshot.digest),
        f"{count(snapshot.files, 'file')}, {size(snapshot.size_bytes)}",
        git_words(snapshot.git),
    )
    return "  ".join(part for part in parts if part)


def _environment(record: RunRecord) -> tuple[str, str]:
    if record.image is None:
        return "environment", environment_words(record.environment)
    runtime = f"in {record.image.runtime}" if record.image.runtime is not None else ""
    parts = image_words(record.image), short_image_digest(record.image.digests), runtime
    return "image", "  ".join(part for part in parts if part)


def _rows(rows: Sequence[tuple[str, str]], look: Look) -> list[str]:
    shown = (hanging(f"{label:<{_LABEL}}", text, look, indent=_LABEL) for label, text in rows if text)
    return [line for lines in shown for line in lines]


def _attempt_lines(view: RunView, look: Look, now: float) -> list[str]:
    if len(view.attempts) <= 1:
        return []
    longest = max(len(state) for state in State)
    lines: list[str] = []
    for attempt in view.attempts:
        label = "" if lines else "attempts"
        took = duration((attempt.ended_at or now) - attempt.started_at)
        shown = painted_state(attempt.state or State.RUNNING, look, columns=longest)
        before, after = f"{label:<{_LABEL}}{attempt.number}  ", f"  {took:<8}  "
        indent = len(before) + longest + len(after)
        lines += hanging(f"{before}{shown}{after}", _attempt_cause(attempt), look, indent=indent)
    return [line.rstrip() for line in lines]


def _attempt_cause(attempt: Attempt) -> str:
    if attempt.state in (State.SUCCESS, None):
        return ""
    return cause_words(attempt.cause)


def _mlflow_url(view: RunView) -> str | None:
    return view.attempts[-1].mlflow_url if view.attempts else None


def _tracking_lines(view: RunView, look: Look) -> list[str]:
    error = view.status.tracking_error if view.status else None
    return [f"{look.warn} metrics may be incomplete: {error}"] if error else []

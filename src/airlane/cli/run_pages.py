"""A run on the screen: the verdict that ends a watched one, the page of `air get`, the table of `air list`."""

from __future__ import annotations

from collections.abc import Sequence

from airlane.cli.run_words import (
    cause_lines,
    cause_words,
    compute_words,
    environment_words,
    git_words,
    home_relative,
    painted_state,
    place_words,
    short_digest,
    status_words,
)
from airlane.cli.screen import Look
from airlane.cli.words import ago, clip, count, duration, local_time, pad, size, width
from airlane.store.records import Attempt
from airlane.store.runs import RunView
from airlane.store.states import State

_LABEL = 13
_LIST_HEADINGS = ("RUN", "EXPERIMENT", "STATUS", "STARTED", "DURATION", "COMPUTE", "WHERE")
_NARROWEST_EXPERIMENT = 12


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
        return "\n".join([head + (f"   {url}" if url else ""), *_tracking_lines(view, look)])
    lines = [head]
    if view.cause is not None and view.state is not State.CANCELED:
        lines += cause_lines(view.cause, view.record.id, look)
    if url:
        lines.append(f"  metrics    {url}")
    return "\n".join([*lines, *_tracking_lines(view, look)])


def get_page(view: RunView, look: Look, now: float, *, workload: str | None = None) -> str:
    """Everything about one run."""
    record = view.record
    rows = [
        ("run", f"{look.paint(record.id, 'bold')}  {record.experiment_name}"),
        ("status", "  ".join(part for part in (painted_state(view.state, look), status_words(view)) if part)),
        ("submitted", _times(view, now)),
        ("where", _where(view)),
        ("compute", _compute(view)),
        ("code", _code(view)),
        ("environment", environment_words(record.environment)),
        *_attempt_rows(view, look, now),
        ("metrics", _mlflow_url(view) or ""),
        ("rerun of", record.rerun_of or ""),
        ("files", home_relative(view.paths.root)),
    ]
    lines = [f"{label:<{_LABEL}}{text}" for label, text in rows if text]
    if view.cause is not None and view.state in (State.FAILED, State.TIMEDOUT):
        lines += ["", *cause_lines(view.cause, record.id, look, indent="")]
    notes = [f"{look.warn} {warning}" for warning in record.warnings]
    lines += [*([""] if notes else []), *notes, *_tracking_lines(view, look)]
    if workload is not None:
        lines += ["", *workload.rstrip("\n").split("\n")]
    return "\n".join(lines)


def run_table(views: Sequence[RunView], look: Look, now: float) -> str:
    """The table of `air list`; on a terminal, names are cut so that it fits."""
    rows = [_list_row(view, now) for view in views]
    widths = [max(width(row[column]) for row in (_LIST_HEADINGS, *rows)) for column in range(len(_LIST_HEADINGS))]
    if look.columns is not None:
        too_wide = sum(widths) + 2 * (len(widths) - 1) - look.columns
        widths[1] = max(min(_NARROWEST_EXPERIMENT, widths[1]), widths[1] - max(0, too_wide))
    lines = [look.paint("  ".join(_cells(_LIST_HEADINGS, widths)).rstrip(), "dim")]
    for view, row in zip(views, rows, strict=True):
        cells = _cells(row, widths)
        cells[2] = painted_state(view.state, look) + " " * (widths[2] - len(view.state))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [pad(clip(text, columns), columns) for text, columns in zip(row, widths, strict=True)]


def _list_row(view: RunView, now: float) -> tuple[str, ...]:
    record = view.record
    took = view.duration_s(now)
    return (
        record.id,
        record.experiment_name,
        view.state,
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
    return " · ".join(part for part in (first, ", ".join(hosts)) if part)


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


def _attempt_rows(view: RunView, look: Look, now: float) -> list[tuple[str, str]]:
    if len(view.attempts) <= 1:
        return []
    longest = max(len(state) for state in State)
    rows: list[tuple[str, str]] = []
    for attempt in view.attempts:
        state = attempt.state or State.RUNNING
        took = duration((attempt.ended_at or now) - attempt.started_at)
        shown = painted_state(state, look, columns=longest)
        why = _attempt_cause(attempt)
        rows.append(("" if rows else "attempts", f"{attempt.number}  {shown}  {took:<8}  {why}".rstrip()))
    return rows


def _attempt_cause(attempt: Attempt) -> str:
    if attempt.state in (State.SUCCESS, None):
        return ""
    return cause_words(attempt.cause)


def _mlflow_url(view: RunView) -> str | None:
    return view.attempts[-1].mlflow_url if view.attempts else None


def _tracking_lines(view: RunView, look: Look) -> list[str]:
    error = view.status.tracking_error if view.status else None
    return [f"{look.warn} metrics may be incomplete: {error}"] if error else []

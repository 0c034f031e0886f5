"""Runs of Ray Train: /api/train/v2/runs/v1.

Source: Ray 2.60, train/v2/_internal/state/schema.py. The head answers 500 where no run has been, or Train is not there.
"""

from __future__ import annotations

from typing import Any

from airlane.top.fields import dig, number, read_json, rows, text, words
from airlane.top.values import TrainRun

TRAIN = "/api/train/v2/runs/v1"
NONE_WORDS = ("Train state data is not available", "Train is not installed")


def read_train(body: bytes) -> tuple[TrainRun, ...]:
    """The newest first. Raises ValueError: this is no such answer."""
    answer = read_json(body)
    found = dig(answer, "train_runs")
    if type(found) is not list:
        raise ValueError("it has no list of runs")
    runs = [run for run in map(_run, rows(found)) if run.id]
    return tuple(sorted(runs, key=lambda run: -(run.started_at or 0.0)))


def _run(row: dict[str, Any]) -> TrainRun:
    get = row.get
    attempts = rows(get("attempts"))
    last = attempts[-1] if attempts else {}
    workers = last.get("workers")
    return TrainRun(
        id=text(get("id")),
        name=text(get("name")),
        state=text(get("status")),
        detail=words(get("status_detail")),
        job_id=text(get("job_id")) or None,
        workers=len(workers) if type(workers) is list else None,
        started_at=_nanoseconds(get("start_time_ns")),
        ended_at=_nanoseconds(get("end_time_ns")),
    )


def _nanoseconds(content: Any) -> float | None:
    found = number(content)
    return found / 1e9 if found else None

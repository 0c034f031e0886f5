"""Airlane's own runs beside a cluster: those that wait or run, and those that have ended a short while ago."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airlane.api.clusters import state_of
from airlane.spec.accelerators import ANY_MODEL, AcceleratorKind, parse_accelerator_type
from airlane.store.records import RunRecord
from airlane.store.runs import RunView
from airlane.store.states import Phase
from airlane.top.values import AirRun
from airlane.top.words import count, duration

if TYPE_CHECKING:
    from airlane.api.client import Client

RECENT_S = 3600.0
_MOST = 200
_SLURM = re.compile(r"Slurm job (\S+)")


class AirRuns:
    """The runs under a client's home; the cluster that is looked at is the one at `url`, called `called`."""

    def __init__(
        self, client: Client, *, url: str = "", called: str = "", now: Callable[[], float] = time.time
    ) -> None:
        self._client, self._url, self._called, self._now = client, url.rstrip("/"), called, now

    def __call__(self) -> tuple[AirRun, ...]:
        """The newest first. Raises AirError."""
        now = self._now()
        views = self._client.list(limit=_MOST)
        return tuple(self._run(view, now) for view in views if _is_recent(view, now))

    def _run(self, view: RunView, now: float) -> AirRun:
        record = view.record
        return AirRun(
            id=record.id,
            experiment=record.experiment_name,
            state=str(view.state),
            phase=_phase(view),
            started_at=view.started_at,
            ended_at=view.ended_at,
            compute=compute_words(record),
            where=record.profile or record.backend,
            slurm=slurm_words(view, now),
            here=self._is_here(view),
        )

    def _is_here(self, view: RunView) -> bool:
        """Whether the cluster is the run's own, or the one that its job was sent to."""
        if f"cluster {view.record.id} " in f"{self._called} ":
            return True
        place = (view.status.place if view.status is not None else None) or ""
        if self._url and place.startswith("Ray job ") and place.endswith(f" on {self._url}"):
            return not view.state.terminal
        state = state_of(view) if view.record.ray is not None else None
        return state is not None and state.dashboard == urlsplit(self._url).netloc


def _is_recent(view: RunView, now: float) -> bool:
    return view.ended_at is None or now - view.ended_at <= RECENT_S


def _phase(view: RunView) -> str:
    phase = view.phase
    return "" if phase is None or phase is Phase.RUNNING else str(phase)


def compute_words(record: RunRecord) -> str:
    """What a run computes on: "16 × H100", "8 GPUs", "4 CPU cores"."""
    known = parse_accelerator_type(record.accelerator_type)
    if known is not None and known.kind is AcceleratorKind.CPU:
        return count(record.accelerators, "CPU core")
    if known is not None and known.model == ANY_MODEL:
        return count(record.accelerators, "GPU")
    return f"{record.accelerators} × {known.model if known else record.accelerator_type}"


def slurm_words(view: RunView, now: float) -> str | None:
    """A run's Slurm job: its number, its partition, and how long it may still take; None where there is none.

    The time is that of the attempt, as far as the run has a limit of its own: Slurm itself is not asked.
    """
    job = _SLURM.search((view.status.place if view.status is not None else None) or "")
    if job is None:
        return None
    partition = _partition(view.record.backend_options)
    return " · ".join(filter(None, (f"job {job[1]}", partition, _time_left(view, now))))


def _partition(options: Mapping[str, Any]) -> str | None:
    found = options.get("partition")
    return found if isinstance(found, str) else None


def _time_left(view: RunView, now: float) -> str | None:
    limit_s = view.record.limits.timeout_s
    if limit_s is None or not view.attempts or view.attempts[-1].ended_at is not None:
        return None
    return f"{duration(max(0.0, view.attempts[-1].started_at + limit_s - now))} left"

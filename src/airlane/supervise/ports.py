"""What the supervisor needs from the world, so that a simulation can stand in for each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from airlane.backends.base import NodePlace
from airlane.launch.order import Order
from airlane.store.records import LastMetric
from airlane.tracking.tracker import AttemptInfo, AttemptOutcome, TrackedRun


class Clock(Protocol):
    """Time, and waiting for it."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Workshop(Protocol):
    """Where the environment is built and the code is laid out on the nodes."""

    @property
    def progress(self) -> str | None:
        """What is being prepared now, for people."""

    def begin(self) -> None:
        """Start to prepare what the run needs before it asks for nodes."""

    def ready(self) -> bool:
        """Whether the preparation is done.

        Raises:
            AirError: it failed.
        """

    def orders(
        self, attempt: int, places: Sequence[NodePlace], port: int, tracked: TrackedRun | None
    ) -> tuple[Order, ...]:
        """Lay out the code for an attempt and write the nodes' orders; one for each place.

        Raises:
            AirError: the code could not be unpacked.
            OSError: the disk refused.
        """

    def clean(self, attempt: int) -> None:
        """Remove the code copies of an attempt that has ended, and secrets that no node will read again."""

    def close(self, *, run_ends: bool) -> None:
        """End whatever preparation is still going on; when the run ends, remove the resolved secrets."""


class Tracking(Protocol):
    """Where attempts are recorded for comparison; never an obstacle to the run."""

    error: str | None
    last_metric: LastMetric | None

    def open(self) -> None: ...

    def settled(self, timeout_s: float) -> bool: ...

    def begin_attempt(self, info: AttemptInfo, timeout_s: float) -> TrackedRun | None: ...

    def watch_metrics(self, files: dict[int, Path]) -> None: ...

    def end_attempt(self, outcome: AttemptOutcome) -> None: ...

    def close(self, timeout_s: float) -> None: ...

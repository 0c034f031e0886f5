"""Between what is known of a cluster and what shows it: the screens know this, and nothing of HTTP or files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from airlane.top.values import NodeDetail, Panel, Snapshot


class Source(Protocol):
    """A cluster that lives, or one that was recorded. Nothing here raises but `stop_job`."""

    async def snapshot(self) -> Snapshot:
        """Ask everything once. Each question has its own deadline; what fails is in its panel."""
        ...

    async def node(self, node_id: str) -> Panel[NodeDetail]:
        """The processes and actors of one node."""
        ...

    async def follow_job_log(self, job_id: str, take: Callable[[str], None]) -> str | None:
        """Hand over the log of a job as it grows, until the job is over; None, or why it cannot be read any more."""
        ...

    async def stop_job(self, job_id: str) -> str:
        """Ask for its end; what became of it, in words. Raises AirError."""
        ...

    def close(self) -> None: ...


class Clock(Protocol):
    """What the screens measure ages with: the time of the recording, when one is replayed."""

    def __call__(self) -> float: ...

"""The supervisor's pen: the only writer of a run's status.json and events.jsonl."""

from __future__ import annotations

import contextlib
from typing import Any

from airlane.store import codec
from airlane.store.disk import Disk
from airlane.store.paths import RunPaths
from airlane.store.records import Status
from airlane.store.states import may_move

RESERVED_BYTES = 16 << 10


class Journal:
    """Writes what happens to a run, and refuses a status that moves backwards.

    A full disk does not stop a run: `put` says whether the status was written, and the caller tries again.
    """

    def __init__(self, paths: RunPaths, disk: Disk) -> None:
        self._paths = paths
        self._disk = disk
        self._last: Status | None = None
        self.lost_events = 0

    def put(self, status: Status) -> bool:
        """Write the status, or the same one again; False if the disk refused it."""
        last = self._last
        if last is not None and last != status and not may_move(last.state, status.state):
            raise AssertionError(f"a run cannot go from {last.state} to {status.state}")
        self._last = status
        if not status.state.terminal:
            return self._write(status)
        written = self._write(status)
        with contextlib.suppress(OSError):
            self._disk.remove(self._paths.reserve)
        return written or self._write(status)

    def reserve(self) -> None:
        """Keep room for the end of the run, which can be told then although the disk is full."""
        with contextlib.suppress(OSError):
            self._disk.replace(self._paths.reserve, b" " * RESERVED_BYTES)

    def _write(self, status: Status) -> bool:
        try:
            self._disk.replace(self._paths.status, codec.encode(status), last=status.state.terminal)
        except OSError:
            return False
        return True

    def event(self, kind: str, now: float, **facts: Any) -> None:
        """Append one event; one that the disk refuses is counted in `lost_events` and left out."""
        line = codec.json_line({"ts": round(now, 3), "type": kind, **facts})
        try:
            self._disk.append(self._paths.events, line)
        except OSError:
            self.lost_events += 1

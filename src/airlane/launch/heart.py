"""Signs of life, for a supervisor on another machine: a line on stdout every so often."""

from __future__ import annotations

import os
import select
import time

BEAT = b'{"beat": 1}\n'
_STDOUT = 1


class Heart:
    """Beats when asked to, no more often than every `interval_s`; without an interval it never does."""

    def __init__(self, interval_s: float | None) -> None:
        self._interval_s = interval_s
        self._next = 0.0

    def beat(self) -> float | None:
        """Beat if it is time; returns how long until the next one is due, None if there is none."""
        if self._interval_s is None:
            return None
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._interval_s
            _write()
        return self._next - now


def _write() -> None:
    """Never waits: a launcher that reads nothing must not hold the watch."""
    try:
        if select.select([], [_STDOUT], [], 0)[1]:
            os.write(_STDOUT, BEAT)
    except OSError:
        return  # nobody is there any more: the watch learns it from stdin

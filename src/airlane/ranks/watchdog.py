"""When silence is taken for a hang. Pure: the caller says what time it is.

Progress is a line, or any byte, that any rank writes. CPU time is none: a rank that waits in a collective spins.
"""

from __future__ import annotations


class Watchdog:
    """`silence_s` None never barks."""

    def __init__(self, silence_s: float | None, now: float) -> None:
        self._silence_s = silence_s
        self._heard_at = now

    def heard(self, now: float) -> None:
        self._heard_at = now

    def barks(self, now: float) -> bool:
        return self._silence_s is not None and now - self._heard_at >= self._silence_s

"""Whole lines out of what a rank writes."""

from __future__ import annotations

_LONGEST = 1 << 16
_OVERDUE_S = 5.0


class Lines:
    """Cuts a stream into lines without their ends; one that never ends is cut at 64 KB.

    Of what a progress bar writes over itself, after carriage returns, the last state is the line.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._since = 0.0

    def feed(self, data: bytes, now: float) -> list[bytes]:
        """The lines that are whole now."""
        if not self._rest:
            self._since = now
        *whole, self._rest = (self._rest + data).split(b"\n")
        if whole:
            self._since = now
        while len(self._rest) > _LONGEST:
            whole.append(self._rest[:_LONGEST])
            self._rest = self._rest[_LONGEST:]
        return [_shown(line) for line in whole]

    def overdue(self, now: float) -> list[bytes]:
        """The beginning of a line that has waited for its end too long: a progress bar, or a question."""
        if not self._rest or now - self._since < _OVERDUE_S:
            return []
        return self.flush()

    def flush(self) -> list[bytes]:
        """What is left at the end."""
        rest, self._rest = self._rest, b""
        return [_shown(rest)] if rest else []


def _shown(line: bytes) -> bytes:
    return line.rstrip(b"\r").rpartition(b"\r")[2]

"""What people see: the ranks' lines on stdout and stderr as they wrote them, our own words on stderr."""

from __future__ import annotations

import os

from airlane.errors import AirError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_SIGNS = {"✓": "+", "✗": "x", "×": "x", "·": "-"}


class ReaderGoneError(AirError):
    """Nobody reads the output any more (`air-ranks ... | head`)."""

    exit_code = 141


class Screen:
    """Writes to two descriptors, whole lines at a time. `ascii_only` where the terminal cannot show our signs."""

    def __init__(self, out: int, errors: int, *, ascii_only: bool = False) -> None:
        self._out = out
        self._errors = errors
        self._ascii_only = ascii_only

    def rank(self, rank: int, lines: Iterable[bytes], *, is_error: bool) -> None:
        """Raises ReaderGoneError."""
        prefix = b"[rank %d] " % rank
        text = b"".join(prefix + line + b"\n" for line in lines)
        if text:
            _write(self._errors if is_error else self._out, text)

    def say(self, *lines: str) -> None:
        """Raises ReaderGoneError."""
        text = "".join(f"{line}\n" for line in lines)
        if self._ascii_only:
            for sign, plain in _SIGNS.items():
                text = text.replace(sign, plain)
        _write(self._errors, text.encode("ascii" if self._ascii_only else "utf-8", errors="backslashreplace"))


def _write(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError as error:
        raise ReaderGoneError("nobody reads the output any more") from error

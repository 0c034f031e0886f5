"""What a command writes to: results on stdout, everything else on stderr, plain where nobody is looking."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TextIO, cast

from airlane.errors import AirError
from airlane.frozen import frozen

DEFAULT_COLUMNS = 80
# One character for one: columns keep their width.
_ASCII = str.maketrans({"✓": "+", "✗": "x", "·": "-", "×": "x", "…": "~", "–": "-", "—": "-", "→": ">"})
# Marks are shown before the run's supervisor is forked, and rich must wait until then: its import takes 0.1 s, a third
# of the time to the first line of a short run. So the colour of a word is written here, and layouts are rich's.
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


@frozen
class Look:
    """How text may look: in colour or not, and how wide. `columns` is None where lines are not to be cut."""

    colour: bool = False
    columns: int | None = DEFAULT_COLUMNS

    def paint(self, text: str, *styles: str) -> str:
        if not self.colour or not text:
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"

    @property
    def ok(self) -> str:
        return self.paint("✓", "green")

    @property
    def bad(self) -> str:
        return self.paint("✗", "red")

    @property
    def warn(self) -> str:
        return self.paint("!", "yellow")

    @property
    def later(self) -> str:
        return self.paint("·", "dim")


PLAIN = Look()


class OutputError(AirError):
    """The result could not be written to stdout (a full disk; a closed pipe stays a BrokenPipeError)."""


class _Ascii:
    """A stream in an encoding without our marks: each becomes a character of ASCII."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(text.translate(_ASCII))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Screen:
    """Where a command writes. `live` says whether a line on stderr may be rewritten."""

    def __init__(self, out: TextIO, err: TextIO, env: Mapping[str, str]) -> None:
        self.out_has_marks = _has_marks(out)
        self._out = out if self.out_has_marks else cast("TextIO", _Ascii(out))
        self.err_has_marks = _has_marks(err)
        self.err = err if self.err_has_marks else cast("TextIO", _Ascii(err))
        self.out_look = _look(out, env)
        self.err_look = _look(err, env)
        self.live = err.isatty() and env.get("TERM") != "dumb"

    @staticmethod
    def of_process() -> Screen:
        for stream in (sys.stdout, sys.stderr):
            # A path that is not UTF-8 must not keep the rest of a line from being shown.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # they are TextIOWrappers here
        return Screen(sys.stdout, sys.stderr, os.environ)

    @property
    def out_is_terminal(self) -> bool:
        return self._out.isatty()

    def show(self, text: str) -> None:
        """A line (or several) of the result, on stdout.

        Raises:
            OutputError: it could not be written. BrokenPipeError: nobody reads it any more.
        """
        with _writing():
            self._out.write(text + "\n")
            self._out.flush()

    def show_bytes(self, chunk: bytes) -> None:
        """A piece of a log, as it is, on stdout."""
        with _writing():
            self._out.flush()
            self._out.buffer.write(chunk)
            self._out.buffer.flush()

    def say(self, text: str = "") -> None:
        """A line (or several) for people, on stderr."""
        self.write_err(text + "\n")

    def write_err(self, text: str) -> None:
        """Something for people; where it cannot be written, the command does its work all the same."""
        with contextlib.suppress(OSError):
            self.err.write(text)
            self.err.flush()


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"the output could not be written: {(error.strerror or str(error)).lower()}") from error


def _has_marks(stream: TextIO) -> bool:
    try:
        "✓✗⠋×·…".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _look(stream: TextIO, env: Mapping[str, str]) -> Look:
    if not stream.isatty():
        return Look(colour=bool(env.get("FORCE_COLOR")) and not env.get("NO_COLOR"), columns=None)
    colour = not env.get("NO_COLOR") and env.get("TERM") != "dumb"
    return Look(colour=colour, columns=_columns(stream, env))


def _columns(stream: TextIO, env: Mapping[str, str]) -> int:
    if env.get("COLUMNS", "").isdigit():
        return max(1, int(env["COLUMNS"]))
    try:
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_COLUMNS
    except (OSError, ValueError):
        return DEFAULT_COLUMNS

"""A program on a terminal of its own, and what that terminal shows: as much of a VT100 as Textual asks for.

Where something is asked of it that it does not know, it fails: no picture of the screen is better than a wrong one.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from rich.cells import cell_len

_SEQUENCE = re.compile(
    r"\x1b\[(?P<mark>[?>=<]?)(?P<numbers>[0-9;:]*)(?P<middle>[ $]?)(?P<end>[@-~])"
    r"|\x1b[PX^_](?P<told>.*?)\x1b\\|\x1b\](?P<title>.*?)(?:\x07|\x1b\\)|\x1b(?P<single>[=>78DEMHc]|\([AB0])",
    re.DOTALL,
)
_UNFINISHED = re.compile(r"\x1b(\[[?>=<]?[0-9;:]*[ $]?|[PX^_\]][^\x07\x1b]*\x1b?|\(?)?$")
_ALTERNATE = 1049
_CURSOR = 25
# The terminal becomes the one that Ctrl-C is typed on.
_BECOME = "import os, sys; os.login_tty(0); os.execvp(sys.argv[1], sys.argv[1:])"
_IGNORED = "mhlnqrtucxpgS"  # colours, modes, and questions to which it has no answer


class Grid:
    """The cells of a screen, the cursor, and the modes that are set."""

    def __init__(self, columns: int, lines: int) -> None:
        self.modes: set[int] = {_CURSOR}
        self.title = ""
        self._rest = ""
        self.resize(columns, lines)

    def resize(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self._cells = [[" "] * columns for _ in range(lines)]
        self._x = self._y = 0

    @property
    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self._cells)

    def feed(self, text: str) -> None:
        text = self._rest + text
        unfinished = _UNFINISHED.search(text)
        self._rest = unfinished[0] if unfinished else ""
        text = text[: len(text) - len(self._rest)]
        position = 0
        for found in _SEQUENCE.finditer(text):
            self._write(text[position : found.start()])
            self._obey(found)
            position = found.end()
        self._write(text[position:])

    def _write(self, text: str) -> None:
        for sign in text:
            if sign == "\r":
                self._x = 0
            elif sign == "\n":
                self._line_feed()
            elif sign == "\b":
                self._x = max(0, self._x - 1)
            elif sign >= " ":
                self._put(sign)
            else:
                assert sign in "\x07\x0f\x00", f"the terminal was sent {sign!r}"

    def _put(self, sign: str) -> None:
        width = cell_len(sign)
        if width == 0:
            return
        if self._x + width > self.columns:
            self._x = 0
            self._line_feed()
        self._cells[self._y][self._x : self._x + width] = [sign, *[""] * (width - 1)]
        self._x += width

    def _line_feed(self) -> None:
        if self._y + 1 < self.lines:
            self._y += 1
        else:
            self._cells = [*self._cells[1:], [" "] * self.columns]

    def _obey(self, found: re.Match[str]) -> None:
        if found["title"] is not None:
            self.title = found["title"].partition(";")[2]
        end = found["end"]
        if end is None:
            return
        numbers = [int(number or 0) for number in re.split("[;:]", found["numbers"])]
        if found["mark"] == "?" and end in "hl":
            for mode in numbers:
                self._set(mode, on=end == "h")
        elif found["mark"] or end in _IGNORED:
            return
        else:
            self._move(end, numbers)

    def _set(self, mode: int, *, on: bool) -> None:
        (self.modes.add if on else self.modes.discard)(mode)
        if mode == _ALTERNATE:
            self.resize(self.columns, self.lines)

    def _move(self, end: str, numbers: Sequence[int]) -> None:
        first = numbers[0]
        by = max(1, first)
        moves: dict[str, Callable[[], None]] = {
            "H": lambda: self._go(first - 1, (numbers[1] if len(numbers) > 1 else 1) - 1),
            "f": lambda: self._go(first - 1, (numbers[1] if len(numbers) > 1 else 1) - 1),
            "A": lambda: self._go(self._y - by, self._x),
            "B": lambda: self._go(self._y + by, self._x),
            "C": lambda: self._go(self._y, self._x + by),
            "D": lambda: self._go(self._y, self._x - by),
            "G": lambda: self._go(self._y, by - 1),
            "d": lambda: self._go(by - 1, self._x),
            "J": lambda: self._clear(first),
            "K": lambda: self._clear_line(first),
        }
        assert end in moves, f"the terminal was sent an unknown sequence that ends in {end!r}"
        moves[end]()

    def _go(self, y: int, x: int) -> None:
        self._y, self._x = min(max(0, y), self.lines - 1), min(max(0, x), self.columns - 1)

    def _clear(self, how: int) -> None:
        rows = {0: range(self._y + 1, self.lines), 1: range(self._y)}.get(how, range(self.lines))
        for row in rows:
            self._cells[row] = [" "] * self.columns
        if how < 2:
            self._clear_line(how)

    def _clear_line(self, how: int) -> None:
        line = self._cells[self._y]
        cells = {0: range(self._x, self.columns), 1: range(min(self._x + 1, self.columns))}.get(
            how, range(self.columns)
        )
        for cell in cells:
            line[cell] = " "


class Terminal:
    """A command on a terminal of its own. What it has left behind there can be seen after its end."""

    def __init__(
        self, argv: Sequence[str], *, columns: int = 80, lines: int = 24, env: Mapping[str, str] | None = None
    ) -> None:
        self.grid = Grid(columns, lines)
        self.raw = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._theirs, self._ours = pty.openpty()
        termios.tcsetwinsize(self._ours, (lines, columns))
        self.settings_before = termios.tcgetattr(self._ours)
        line = [sys.executable, "-I", "-S", "-c", _BECOME, *argv]
        self._process = subprocess.Popen(line, stdin=self._ours, stdout=self._ours, stderr=self._ours, env=env)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def text(self) -> str:
        return self.grid.text

    def until(self, pattern: str | Callable[[str], bool], *, within_s: float = 30.0) -> str:
        """Wait until the screen shows it."""
        shows = pattern if callable(pattern) else lambda text: re.search(pattern, text) is not None
        deadline = time.monotonic() + within_s
        while not shows(self.text):
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"not within {within_s:g} s: {pattern}\n{self.text}"
            assert self._read(min(left_s, 0.1)), f"it ended before {pattern}\n{self.text}"
        return self.text

    def watch(self, seconds: float) -> str:
        """What it shows after so long."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0 and self._read(left_s):
            pass
        return self.text

    def type(self, keys: str) -> None:
        os.write(self._theirs, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        self.grid.resize(columns, lines)
        termios.tcsetwinsize(self._ours, (lines, columns))
        self._process.send_signal(signal.SIGWINCH)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self, *, within_s: float = 20.0) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        deadline = time.monotonic() + within_s
        while self._process.poll() is None:
            self._read(0.05)
            assert time.monotonic() < deadline, f"it has not ended within {within_s:g} s\n{self.text}"
        while self._read(0.05, to_its_end=True):
            pass
        return self._process.returncode

    def left_behind(self) -> list[str]:
        """What a program has not put back, in words; nothing where the terminal is as it was."""
        modes = {_ALTERNATE: "the alternate screen", 1000: "mouse", 1003: "mouse", 1006: "mouse", 2004: "paste"}
        wrong = [name for mode, name in modes.items() if mode in self.grid.modes]
        wrong += [] if _CURSOR in self.grid.modes else ["the cursor is hidden"]
        return wrong + ([] if termios.tcgetattr(self._ours) == self.settings_before else ["the terminal's settings"])

    def close(self) -> None:
        """End it, if it is there. Harmless twice."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for end in (self._theirs, self._ours):
            with contextlib.suppress(OSError):
                os.close(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, timeout_s: float, *, to_its_end: bool = False) -> bool:
        """Take what has been written, if there is any; False when there will be no more."""
        ready, _, _ = select.select([self._theirs], [], [], timeout_s)
        if not ready:
            return not to_its_end
        piece = os.read(self._theirs, 1 << 16)
        self.raw += piece
        self.grid.feed(self._decoder.decode(piece))
        return bool(piece)

"""One line on a terminal that says what is going on, rewritten until there is something to show."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from airlane.cli.screen import DEFAULT_COLUMNS, Screen
from airlane.cli.words import clip, clock

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_REPAINT_S = 0.1
_CLEAR = "\r\x1b[K"


class LiveLine:
    """A spinner, what is going on, and for how long. Says nothing where nobody is looking at a terminal.

    `tick=True` repaints from a thread of its own: only after the run's supervisor was forked. `close` is harmless when
    repeated, and nothing is painted after it.
    """

    def __init__(self, screen: Screen, *, tick: bool, now: Callable[[], float] = time.monotonic) -> None:
        self._screen = screen
        self._now = now
        self._started_at = now()
        self._words = ""
        self._frame = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if tick and screen.live:
            self._thread = threading.Thread(target=self._tick, daemon=True)
            self._thread.start()

    def update(self, phase: str, detail: str | None = None) -> None:
        """What is going on now; the clock begins again with another phase."""
        with self._lock:
            if phase != self._words.split("  ")[0]:
                self._started_at = self._now()
            self._words = f"{phase}  {detail}" if detail else phase
            self._paint()

    def close(self) -> None:
        """Take the line away."""
        with self._lock:
            if not self._closed.is_set() and self._screen.live and self._words:
                self._screen.write_err(_CLEAR)
            self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _tick(self) -> None:
        while not self._closed.wait(_REPAINT_S):
            with self._lock:
                self._paint()

    def _paint(self) -> None:
        if self._closed.is_set() or not self._screen.live or not self._words:
            return
        look = self._screen.err_look
        self._frame += 1
        columns = (look.columns or DEFAULT_COLUMNS) - 1
        line = clip(
            f"{_FRAMES[self._frame % len(_FRAMES)]} {self._words} · {clock(self._now() - self._started_at)}", columns
        )
        self._screen.write_err(_CLEAR + line)

"""One line on a terminal that says what is going on, until there is something to show."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from airlane.cli.screen import Screen
from airlane.cli.words import clock

if TYPE_CHECKING:
    from rich.live import Live
    from rich.spinner import Spinner

# What is over sooner needs no spinner, and does not wait for rich to be imported.
_DELAY_S = 0.3
_PER_SECOND = 10
_CLEAR = "\r\x1b[K"


class StillLine:
    """What is going on before the supervisor is forked: there no thread may run yet, and so no spinner turns."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._shown = False

    def update(self, phase: str, detail: str) -> None:
        if self._screen.live:
            self._screen.write_err(f"{_CLEAR}  {phase}  {detail}")
            self._shown = True

    def close(self) -> None:
        """Take the line away. Harmless when repeated."""
        if self._shown:
            self._screen.write_err(_CLEAR)
            self._shown = False


class LiveLine:
    """A spinner, what is going on, and for how long. Says nothing where nobody is looking at a terminal.

    It is painted from a thread of its own: only after the run's supervisor was forked. `close` is harmless when
    repeated, and nothing is painted after it.
    """

    def __init__(self, screen: Screen, *, delay_s: float = _DELAY_S, now: Callable[[], float] = time.monotonic) -> None:
        self._screen = screen
        self._now = now
        self._said = ("", "", now())
        self._lock = threading.Lock()
        self._closed = False
        self._live: Live | None = None
        self._timer = threading.Timer(delay_s, self.begin)
        self._timer.daemon = True
        if screen.live:
            self._timer.start()

    def update(self, phase: str, detail: str | None = None) -> None:
        """What is going on now; the clock begins again with another phase."""
        before, _, since = self._said
        self._said = (phase, detail or "", since if phase == before else self._now())

    def begin(self) -> None:
        """Show the line, unless it was closed meanwhile."""
        from rich.spinner import Spinner

        spinner = Spinner("dots" if self._screen.err_has_marks else "line", style="cyan")
        live = self._made(spinner)
        with self._lock:
            if not self._closed:
                self._live = live
                live.start()

    def close(self) -> bool:
        """Take the line away; whether there was one."""
        self._timer.cancel()
        with self._lock:
            self._closed = True
            live, self._live = self._live, None
        if live is None:
            return False
        live.stop()
        return True

    def _made(self, spinner: Spinner) -> Live:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        class Steady(Console):
            """A terminal whose cursor stays, so that a stopped or killed `air` never leaves one without it."""

            def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002 - as the base class has it
                return False

        colour = self._screen.err_look.colour
        console = Steady(
            file=self._screen.err,
            force_terminal=True,
            color_system="standard" if colour else None,
            no_color=not colour,
            markup=False,
            emoji=False,
            highlight=False,
        )

        def renderable() -> Spinner:
            phase, detail, since = self._said
            words = "  ".join(part for part in (phase, detail) if part)
            line = Text(f"{words} · {clock(self._now() - since)}")
            line.truncate(console.width - 3, overflow="ellipsis")
            spinner.text = line
            return spinner

        return Live(
            get_renderable=renderable,
            console=console,
            refresh_per_second=_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

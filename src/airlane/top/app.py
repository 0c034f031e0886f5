"""The app of `air top`: it asks the source every few seconds, and shows what came."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from pathlib import Path
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.filter import NoColor

from airlane.top.history import History
from airlane.top.screens.base import TopScreen
from airlane.top.screens.main import MainScreen
from airlane.top.seam import Clock, Source
from airlane.top.settings import DEFAULT_THEME, Settings, read_settings, write_settings
from airlane.top.themes import NAMES, Palette, textual_themes
from airlane.top.values import Snapshot
from airlane.top.view import View, view_of
from airlane.top.words import ASCII, UNICODE, Marks

DEFAULT_INTERVAL_S = 2.0
INTERVALS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_TICK_S = 1.0


def run(
    source: Source,
    *,
    interval_s: float = DEFAULT_INTERVAL_S,
    settings_file: Path | None = None,
    clock: Clock = time.time,
) -> None:
    """Show a cluster until somebody quits. The terminal is as it was before, whatever happens."""
    app = TopApp(source, interval_s=interval_s, settings_file=settings_file, clock=clock, marks=_terminal_marks())
    app.run()


def _terminal_marks() -> Marks:
    """Unicode's, where the terminal takes them."""
    encoding = getattr(sys.__stdout__, "encoding", None) or "ascii"
    try:
        "━▁…·▲".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


class TopApp(App[None]):
    """What lives as long as the screen: the rounds, what is remembered of them, the theme."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "air top"
    CSS = "Screen { background: $background; color: $foreground; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", show=False, priority=True, system=True),
        Binding("q", "quit", show=False),
        Binding("t", "theme", show=False),
        Binding("plus,equals_sign", "faster(1)", show=False),
        Binding("minus", "faster(-1)", show=False),
        Binding("p", "pause", show=False),
    ]

    def __init__(
        self,
        source: Source,
        *,
        interval_s: float = DEFAULT_INTERVAL_S,
        settings_file: Path | None = None,
        clock: Clock = time.time,
        marks: Marks = UNICODE,
    ) -> None:
        super().__init__()
        self.source = source
        self.marks = marks
        self._clock = clock
        self._interval_s = interval_s
        self._settings_file = settings_file
        self._paused = False
        self._asked_at: float | None = None
        self._history = History()
        self._view = View(clock(), marks=marks, interval_s=interval_s)
        self._wake = asyncio.Event()
        if self.no_color:
            self._filters = [NoColor()]
        for theme in textual_themes():
            self.register_theme(theme)
        remembered = read_settings(settings_file).theme
        self._look(remembered if remembered in NAMES else DEFAULT_THEME)

    # The rounds

    @property
    def view(self) -> View:
        """The latest round, as old as it is now."""
        return self._view

    def on_mount(self) -> None:
        self.push_screen(MainScreen())
        self.run_worker(self._ask(), name="rounds")
        self.set_interval(_TICK_S, self._tick)

    async def _ask(self) -> None:
        """One round after the other; a slow answer holds up nothing but the next question."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            if not self._paused:
                self._asked_at = self._clock()
                self.take(await self.source.snapshot())
            await self._rest(started)

    async def _rest(self, started: float) -> None:
        """Until the next round is due: the interval may change meanwhile."""
        loop = asyncio.get_running_loop()
        while self._paused or loop.time() < started + self._interval_s:
            self._wake.clear()
            left = None if self._paused else started + self._interval_s - loop.time()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), left)

    def take(self, snapshot: Snapshot) -> None:
        """Show a round."""
        self._view = view_of(snapshot, self._clock(), history=self._history, marks=self.marks)
        self._tick()

    def _tick(self) -> None:
        """The same round, older."""
        view = self._view
        self._view = View(
            now=self._clock(),
            snapshot=view.snapshot,
            totals=view.totals,
            history=view.history,
            names=view.names,
            marks=self.marks,
            interval_s=self._interval_s,
            paused=self._paused,
            asked_at=self._asked_at,
        )
        if self.screen_stack and isinstance(self.screen, TopScreen) and self.screen.is_mounted:
            self.screen.show(self._view)

    # Keys

    async def action_quit(self) -> None:
        self.exit()

    def action_theme(self) -> None:
        """The next one, which is remembered."""
        name = NAMES[(NAMES.index(self.theme) + 1) % len(NAMES)]
        self._look(name)
        write_settings(self._settings_file, Settings(theme=name))
        for screen in self.screen_stack:
            if isinstance(screen, TopScreen):
                screen.repaint()

    def _look(self, name: str) -> None:
        self.palette = Palette(name, colour=not self.no_color)
        self.theme = name

    def action_faster(self, steps: int) -> None:
        """The next shorter or longer interval."""
        shorter = [one for one in INTERVALS_S if one < self._interval_s]
        longer = [one for one in INTERVALS_S if one > self._interval_s]
        if steps > 0 and shorter:
            self._interval_s = shorter[-1]
        elif steps < 0 and longer:
            self._interval_s = longer[0]
        self._wake.set()
        self._tick()

    def action_pause(self) -> None:
        self._paused = not self._paused
        self._wake.set()
        self._tick()

"""The app of `air top`: it asks the source every few seconds, and shows what came."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import NoColor
from textual.worker import WorkerFailed

from airlane.errors import AirError
from airlane.top.columns import work_key, work_rows
from airlane.top.history import History
from airlane.top.pages import help_page
from airlane.top.screens.base import TopScreen
from airlane.top.screens.confirm import ConfirmScreen
from airlane.top.screens.log import LogScreen
from airlane.top.screens.main import MainScreen
from airlane.top.screens.page import HelpScreen
from airlane.top.seam import Clock, Source
from airlane.top.settings import DEFAULT_THEME, Settings, read_settings, write_settings
from airlane.top.themes import NAMES, Palette, textual_themes
from airlane.top.values import Job, Snapshot, TrainRun
from airlane.top.view import View, view_of
from airlane.top.words import ASCII, UNICODE, Marks

DEFAULT_INTERVAL_S = 2.0
INTERVALS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_TICK_S = 1.0
_NOTICE_S = 6.0
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def run(
    source: Source,
    *,
    interval_s: float = DEFAULT_INTERVAL_S,
    settings_file: Path | None = None,
    clock: Clock = time.time,
) -> None:
    """Show a cluster until somebody quits. The terminal is as it was before, whatever happens.

    A signal that asks for the end ends the process, and an error of our own is raised: both after that.
    """
    app = TopApp(source, interval_s=interval_s, settings_file=settings_file, clock=clock, marks=_terminal_marks())
    app.run()
    if app.ended_by is not None:
        signal.raise_signal(app.ended_by)
    if app.failure is not None:
        raise app.failure


def _terminal_marks() -> Marks:
    """Unicode's, where the terminal takes them."""
    encoding = getattr(sys.__stdout__, "encoding", None) or "ascii"
    try:
        "━▁…·▲".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


class _Terminal(LinuxDriver):
    """Textual draws on stderr; this draws where everything else of a command is, so that stderr may go elsewhere."""

    def __init__(
        self, app: App[None], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        if sys.__stdout__ is not None:
            self._file = sys.__stdout__


class TopApp(App[None]):
    """What lives as long as the screen: the rounds, what is remembered of them, the theme."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "air top"
    CSS = "Screen { background: $background; color: $foreground; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", show=False, priority=True, system=True),
        Binding("ctrl+z", "suspend_process", show=False),
        Binding("q", "quit", show=False),
        Binding("t", "theme", show=False),
        Binding("plus,equals_sign", "faster(1)", show=False),
        Binding("minus", "faster(-1)", show=False),
        Binding("p", "pause", show=False),
        Binding("h,question_mark", "help", show=False),
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
        super().__init__(driver_class=_Terminal)
        self.ended_by: signal.Signals | None = None
        self.failure: Exception | None = None
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
        self._said: tuple[str, float] | None = None
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
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                asyncio.get_running_loop().add_signal_handler(number, self._end, number)
        self.push_screen(MainScreen())
        self.run_worker(self._ask(), name="rounds")
        self.set_interval(_TICK_S, self._tick)

    def _end(self, number: signal.Signals) -> None:
        self.ended_by = number
        self.exit()

    def _fatal_error(self) -> None:
        """Nothing is printed here: Textual would show every variable, and what a cluster tells may be anybody's."""
        self.failure = self._exception
        if isinstance(self.failure, WorkerFailed) and isinstance(self.failure.error, Exception):
            self.failure = self.failure.error
        self._close_messages_no_wait()

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
        if not self.is_running:  # the timer may outlive what it shows
            return
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
            notice=self._notice(),
        )
        if self.screen_stack and isinstance(self.screen, TopScreen) and self.screen.is_mounted:
            self.screen.show(self._view)

    def say(self, text: str) -> None:
        """Tell what became of a key, for some seconds."""
        self._said = (text, time.monotonic())
        self._tick()

    def _notice(self) -> str | None:
        if self._said is None or time.monotonic() - self._said[1] > _NOTICE_S:
            return None
        return self._said[0]

    # Jobs

    def job(self, key: str) -> Job | None:
        """The job of a row of jobs and runs."""
        snapshot = self._view.snapshot
        rows = [] if snapshot is None else work_rows(snapshot)
        work = next((row for row in rows if work_key(row) == key), None)
        if isinstance(work, TrainRun):
            return next((row for row in rows if isinstance(row, Job) and row.driver_id == work.job_id), None)
        return work if isinstance(work, Job) else None

    def show_log(self, key: str) -> None:
        job = self.job(key)
        if job is None:
            self.say(f"Only jobs have a log here. air logs {key.partition(' ')[2]} shows that of a run.")
        else:
            self.push_screen(LogScreen(job.id))

    def ask_to_stop(self, key: str) -> None:
        job = self.job(key)
        if job is None:
            self.say(f"Only jobs are stopped here. air cancel run {key.partition(' ')[2]} stops a run.")
        elif job.over:
            self.say(f"{job.id} is over already: {job.state}.")
        elif not job.submitted:
            self.say(f"{job.id} is a driver that was started without a job: Ray cannot stop it. End its process.")
        else:
            self.run_worker(self._stop(job), name="stop")

    async def _stop(self, job: Job) -> None:
        if not await self.push_screen_wait(ConfirmScreen(f"Stop {job.id}?", job.entrypoint)):
            return
        self.say(f"{job.id} is asked to stop.")
        try:
            self.say(await self.source.stop_job(job.id))
        except AirError as error:
            self.say(f"! {error.message}")
        self._wake.set()

    # Keys

    def action_tab(self, index: int) -> None:
        """From wherever one is, to one of the lists."""
        while not isinstance(self.screen, MainScreen):
            self.pop_screen()
        self.screen.action_tab(index)

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(help_page))

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

"""A run while it is watched: for people (its log on stdout, the rest on stderr), or as one line of JSON an event."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from airlane.cli.envelope import data_line, event_line
from airlane.cli.layout import hanging
from airlane.cli.live import LiveLine
from airlane.cli.run_json import run_facts
from airlane.cli.run_pages import verdict
from airlane.cli.run_words import cause_words
from airlane.cli.screen import Screen
from airlane.errors import EXIT_INTERRUPTED
from airlane.logs.tail import LineCutter
from airlane.store.runs import RunView
from airlane.store.states import Phase

if TYPE_CHECKING:
    from airlane.api import Run, Update


class Watch(Protocol):
    """What shows a run as it goes."""

    def take(self, update: Update) -> None:
        """Show one thing that happened."""

    def ended(self, view: RunView) -> None:
        """Show how it ended."""

    def interrupted(self, view: RunView) -> int:
        """Say that the run goes on; the exit code."""

    def close(self) -> object:
        """Leave the screen as it should be left. Harmless when repeated."""


class TextWatch:
    """Phases in one rewritten line until the first line of the log, then the log as it is, then the verdict."""

    def __init__(self, run: Run, screen: Screen) -> None:
        self._run = run
        self._screen = screen
        self._line: LiveLine | None = None
        self._inside_line = False
        self._log_begun = False

    def take(self, update: Update) -> None:
        from airlane.api import LogChunk, PhaseChanged

        if isinstance(update, LogChunk):
            self.close()
            self._log_begun = True
            self._screen.show_bytes(update.data)
            self._inside_line = not update.data.endswith(b"\n")
        elif isinstance(update, PhaseChanged):
            self._phase(update.phase, update.detail)

    def ended(self, view: RunView) -> None:
        self.close()
        self._end_line()
        self._screen.say(verdict(view, self._screen.err_look, time.time()))

    def interrupted(self, view: RunView) -> int:
        was_live = self.close()
        if view.state.terminal:
            self.ended(view)
        else:
            after = "" if was_live else "\n"  # the ^C that the terminal shows went with the live line
            self._screen.say(f"{after}Stopped watching. The run goes on: air logs {self._run.id}")
        return EXIT_INTERRUPTED

    def close(self) -> bool:
        """As it should be left; whether a line had to be taken away."""
        line, self._line = self._line, None
        return line is not None and line.close()

    def _phase(self, phase: Phase | None, detail: str | None) -> None:
        if phase is Phase.RETRYING:
            self.close()
            self._end_line()
            self._log_begun = False
            for line in retry_lines(self._run.view(), detail):
                look = self._screen.err_look
                self._screen.say("\n".join(hanging(f"{look.warn} ", line, look, indent=2)))
        elif phase is not None and not self._log_begun:  # the news of a phase may come after the first line of it
            self._line = self._line or LiveLine(self._screen)
            self._line.update(phase, detail)

    def _end_line(self) -> None:
        """The log may end inside a line: what follows on a terminal begins a new one."""
        if self._inside_line and self._screen.out_is_terminal:
            self._screen.say()
        self._inside_line = False


def retry_lines(view: RunView, detail: str | None) -> list[str]:
    """Why there is another attempt, and when."""
    ended = [attempt for attempt in view.attempts if attempt.state is not None]
    lines = [f"attempt {one.number} {one.state}: {cause_words(one.cause)}" for one in ended[-1:]]
    return [*lines, detail] if detail else lines


class JsonWatch:
    """One JSON object a line: STATUS, LOG, and at the end an envelope."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._lines: dict[int, LineCutter] = {}

    def take(self, update: Update) -> None:
        from airlane.api import LogChunk, StatusChanged

        if isinstance(update, LogChunk):
            self._log(update.node, self._lines.setdefault(update.node, LineCutter()).feed(update.data))
        elif isinstance(update, StatusChanged):
            self._event("STATUS", status=update.state, previous_status=update.previous)

    def ended(self, view: RunView) -> None:
        self._flush()
        now = time.time()
        self._screen.show(data_line(run_facts(view, now), now))

    def interrupted(self, view: RunView) -> int:
        self._flush()
        now = time.time()
        self._screen.show(data_line({**run_facts(view, now), "watching": False}, now))
        return EXIT_INTERRUPTED

    def close(self) -> None:
        """Nothing is held open."""

    def _flush(self) -> None:
        for node, cutter in self._lines.items():
            self._log(node, cutter.rest())

    def _log(self, node: int, lines: list[bytes]) -> None:
        for line in lines:
            self._event("LOG", node=node, line=line.decode("utf-8", "replace"))

    def _event(self, kind: str, **facts: object) -> None:
        self._screen.show(event_line(kind, time.time(), **facts))

from __future__ import annotations

import io
import re
from typing import TextIO

import pytest

from airlane.cli.live import LiveLine, StillLine
from airlane.cli.screen import Look, Screen


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.kept = io.BytesIO()
        super().__init__(self.kept, encoding=encoding, write_through=True)

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        return self.kept.getvalue().decode(self.encoding)


def pipe() -> TextIO:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def test_a_terminal_has_colour_and_a_width() -> None:
    screen = Screen(Terminal(), Terminal(), {"COLUMNS": "100"})
    assert screen.err_look == Look(colour=True, columns=100)
    assert screen.live


def test_a_pipe_has_neither_and_no_spinner() -> None:
    screen = Screen(pipe(), pipe(), {"COLUMNS": "100"})
    assert screen.out_look == screen.err_look == Look(colour=False, columns=None)
    assert not screen.live


def test_stdout_and_stderr_are_looked_at_apart() -> None:
    screen = Screen(pipe(), Terminal(), {})
    assert (screen.out_look.colour, screen.err_look.colour) == (False, True)


def test_no_color_and_a_dumb_terminal_are_honoured() -> None:
    assert not Screen(Terminal(), Terminal(), {"NO_COLOR": "1"}).out_look.colour
    dumb = Screen(Terminal(), Terminal(), {"TERM": "dumb"})
    assert not dumb.out_look.colour
    assert not dumb.live


def test_marks_become_ascii_where_the_encoding_has_none() -> None:
    terminal = Terminal("latin-1")
    Screen(terminal, terminal, {}).say("✓ ✗ · 8 × H100 cut…")
    assert terminal.text() == "+ x - 8 x H100 cut~\n"


def test_a_log_is_shown_byte_for_byte_and_in_order() -> None:
    terminal = Terminal()
    screen = Screen(terminal, terminal, {})
    screen.show("before")
    screen.show_bytes(b"\xff\x00raw")
    screen.show("after")
    assert terminal.kept.getvalue() == b"before\n\xff\x00rawafter\n"


def shown(terminal: Terminal) -> list[str]:
    """What the live line said, one entry a painting, without colours and with * for the spinner."""
    words = re.sub(r"\x1b\[[\d;]*m", "", terminal.text())
    return re.findall("\\* [^\r\n\x1b]*", re.sub("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "*", words))


def test_the_live_line_says_what_goes_on_and_for_how_long_and_leaves_nothing() -> None:
    terminal = Terminal()
    now = [0.0]
    line = LiveLine(Screen(terminal, terminal, {"COLUMNS": "40"}), delay_s=600, now=lambda: now[0])
    line.update("queued", "2nd in line")
    now[0] = 12.0
    line.update("queued", "1st in line")
    line.begin()
    line.close()
    line.close()
    line.begin()
    line.update("too late")
    assert set(shown(terminal)) == {"* queued  1st in line · 0:12"}
    assert terminal.text().endswith("\r\x1b[1A\x1b[2K")
    assert "\x1b[?25l" not in terminal.text()  # the cursor is never hidden


def test_the_clock_of_the_live_line_begins_again_with_another_phase() -> None:
    terminal = Terminal()
    now = [0.0]
    line = LiveLine(Screen(terminal, terminal, {"COLUMNS": "40"}), delay_s=600, now=lambda: now[0])
    line.update("queued", "2nd in line")
    now[0] = 70.0
    line.update("starting")
    now[0] = 71.0
    line.begin()
    line.close()
    assert set(shown(terminal)) == {"* starting · 0:01"}


def test_the_live_line_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    line = LiveLine(Screen(terminal, terminal, {"COLUMNS": "20"}), delay_s=600, now=lambda: 0.0)
    line.update("environment", "downloading a package with a long name")
    line.begin()
    line.close()
    assert set(shown(terminal)) == {"* environment  dow…"}


def test_the_live_line_is_ascii_where_the_encoding_is() -> None:
    terminal = Terminal("latin-1")
    line = LiveLine(Screen(terminal, terminal, {"COLUMNS": "40"}), delay_s=600, now=lambda: 0.0)
    line.update("queued")
    line.begin()
    line.close()
    assert "queued - 0:00" in terminal.text()
    assert terminal.text().isascii()


def test_a_step_before_the_fork_is_shown_by_this_thread_alone_and_taken_away() -> None:
    terminal = Terminal()
    line = StillLine(Screen(terminal, terminal, {}))
    line.update("code", "packing 10 %")
    line.close()
    line.close()
    assert terminal.text() == "\r\x1b[K  code  packing 10 %\r\x1b[K"


def test_the_live_line_says_nothing_in_a_pipe() -> None:
    stream = pipe()
    line = LiveLine(Screen(stream, stream, {}), delay_s=0)
    line.update("queued")
    line.close()
    still = StillLine(Screen(stream, stream, {}))
    still.update("code", "packing")
    still.close()
    stream.seek(0)
    assert stream.read() == ""

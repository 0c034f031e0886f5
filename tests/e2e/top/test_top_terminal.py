"""The screen of `air top` on a terminal: keys, sizes, a head that goes away, and every way to end it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from made_head import MadeHead
from terminal_screen import Terminal

from .conftest import Desk

# A source that raises, in place of the one that never does.
CRASH = """
import sys
from airlane.cli.main import main
from airlane.top.head import Head

async def snapshot(self):
    raise RuntimeError("made up")

Head.snapshot = snapshot
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def head() -> Iterator[MadeHead]:
    """A made-up cluster of four nodes, which every test leaves as it was."""
    with MadeHead() as made:
        yield made


@pytest.fixture
def shown(desk: Desk, head: MadeHead) -> Terminal:
    """`air top` on a made-up cluster, in 80 columns and 24 lines."""
    terminal = desk.terminal("--address", head.url, "--every", "0.5")
    terminal.until("gpu-0003")
    return terminal


def test_q_puts_the_terminal_back(shown: Terminal) -> None:
    assert "the alternate screen" in shown.left_behind()
    shown.type("q")
    assert (shown.end(), shown.left_behind()) == (0, [])


def test_ctrl_c_ends_it_at_once(shown: Terminal) -> None:
    shown.type("\x03")
    assert (shown.end(within_s=10), shown.left_behind()) == (0, [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_puts_the_terminal_back(shown: Terminal, number: signal.Signals) -> None:
    shown.signal(number)
    assert (shown.end(within_s=10), shown.left_behind()) == (-number, [])


def test_a_crash_of_our_own_puts_the_terminal_back_and_is_told(desk: Desk, head: MadeHead) -> None:
    line = [sys.executable, "-c", CRASH, "top", "--address", head.url]
    with Terminal(line, env=desk.env) as crashed:
        assert (crashed.end(), crashed.left_behind()) == (1, [])
        assert crashed.text.strip().splitlines() == [
            "air top itself failed: RuntimeError: made up",
            "  again with -v shows where",
            "  air top --record FILE keeps what it is shown, for a report",
        ]
    with Terminal([*line, "-v"], env=desk.env) as crashed:
        assert (crashed.end(), crashed.left_behind()) == (1, [])
        assert "RuntimeError: made up" in crashed.text
        assert "test_a_crash" not in crashed.text


def test_a_head_that_goes_away_is_told_and_comes_back_by_itself(shown: Terminal, head: MadeHead) -> None:
    head.stop()
    text = shown.until("does not answer")
    assert "gpu-0003" in text
    head.start()
    shown.until(lambda text: "does not answer" not in text and "gpu-0003" in text)
    shown.type("q")
    assert (shown.end(), shown.left_behind()) == (0, [])


def test_what_fails_is_named_and_keeps_what_it_had(shown: Terminal, head: MadeHead) -> None:
    head.trouble("/api/jobs/", "error")
    text = shown.until("jobs .*500")
    assert "raysubmit_made0000" in text
    head.trouble("/api/jobs/", "none")
    shown.until(lambda text: "500" not in text)


def test_keys_lead_to_every_list_and_back(shown: Terminal) -> None:
    shown.type("3/gpu-0002")  # in one go, as from a slow line
    shown.until("nodes 4 /gpu-0002 1")
    assert "paused" not in shown.text
    shown.type("\r")  # the filter stays
    shown.until("Enter open")
    shown.type("\r")  # and its row opens
    shown.until("GPU +NAME.*PROCESSES")
    shown.type("\x1b")
    shown.until("nodes 4")
    for key, words in (("4", "actor classes"), ("5", "made-99"), ("h", "the next list, and the one before")):
        shown.type(key)
        shown.until(words)
    shown.type("\x1b")
    shown.until("made-99")
    shown.type("2")
    shown.until("ENTRYPOINT")
    shown.type("G")
    shown.type("l")
    shown.until("step 11 .*größer 训练")
    shown.type("q")
    assert (shown.end(), shown.left_behind()) == (0, [])


def test_it_fits_the_terminal_whatever_its_size(shown: Terminal) -> None:
    for columns, lines in ((200, 50), (30, 8), (80, 24)):
        shown.resize(columns, lines)
        shown.watch(1)
    shown.until("gpu-0003")
    shown.type("q")
    assert (shown.end(), shown.left_behind()) == (0, [])


def test_what_was_recorded_is_shown_again(desk: Desk, head: MadeHead, tmp_path: Path) -> None:
    file = tmp_path / "seen.zst"
    live = desk.terminal("--address", head.url, "--every", "0.5", "--record", str(file))
    live.until("gpu-0003")
    live.watch(1)
    live.type("q")
    assert live.end() == 0
    again = desk.terminal("--replay", str(file))
    again.until("gpu-0003")
    again.type("q")
    assert (again.end(), again.left_behind()) == (0, [])
    done = desk.top("--once", "--replay", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert "gpu-0003" in done.stdout

from __future__ import annotations

from airlane.ranks.lines import Lines
from airlane.ranks.watchdog import Watchdog


def test_lines_are_shown_when_they_are_whole() -> None:
    lines = Lines()
    assert lines.feed(b"on", 0) == []
    assert lines.feed(b"e\ntwo\nth", 0) == [b"one", b"two"]
    assert lines.flush() == [b"th"]
    assert lines.flush() == []


def test_a_line_without_an_end_is_cut_before_it_fills_the_memory() -> None:
    lines = Lines()
    shown = [piece for _ in range(100) for piece in lines.feed(b"x" * 10_000, 0)]
    assert {len(piece) for piece in shown} == {1 << 16}
    assert sum(map(len, [*shown, *lines.flush()])) == 1_000_000


def test_of_a_progress_bar_the_last_state_is_the_line() -> None:
    assert Lines().feed(b" 1%\r 2%\r 3%\n", 0) == [b" 3%"]


def test_windows_line_ends_are_line_ends() -> None:
    assert Lines().feed(b"a\r\nb\r\n", 0) == [b"a", b"b"]


def test_an_unfinished_line_is_shown_after_a_while() -> None:
    lines = Lines()
    lines.feed(b"50%\r60%", 100)
    assert lines.overdue(101) == []
    assert lines.overdue(106) == [b"60%"]
    assert lines.overdue(200) == []


def test_the_watchdog_barks_after_silence_and_not_before() -> None:
    watchdog = Watchdog(10, now=0)
    assert not watchdog.barks(9)
    watchdog.heard(9)
    assert not watchdog.barks(18)
    assert watchdog.barks(19)


def test_without_a_limit_the_watchdog_never_barks() -> None:
    assert not Watchdog(None, now=0).barks(1e9)

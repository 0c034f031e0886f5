"""Numbers, times and foreign words in cells of the screen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from airlane.top import words
from airlane.top.words import ASCII, UNICODE

ANY_TEXT = st.text(st.characters(codec=None), max_size=40)


@given(ANY_TEXT, st.integers(0, 30))
def test_any_text_is_cut_to_exactly_as_many_cells(text: str, cells: int) -> None:
    cleaned = words.clean(text)
    assert cell_len(words.fit(cleaned, cells)) == cells
    assert cell_len(words.fit(cleaned, cells, right=True)) == cells
    assert cell_len(words.cut(cleaned, cells)) <= cells


@given(ANY_TEXT)
def test_clean_text_can_be_printed_and_written(text: str) -> None:
    cleaned = words.clean(text)
    assert cleaned.isprintable()
    cleaned.encode()
    assert words.clean(text, ASCII).isascii()
    assert words.clean(cleaned) == cleaned


@given(ANY_TEXT, st.integers(1, 20))
def test_wrapped_lines_fit_and_lose_no_letter(text: str, cells: int) -> None:
    cleaned = words.clean(text)
    lines = words.wrapped(cleaned, cells)
    wide = max((cell_len(sign) for sign in cleaned), default=1)
    assert all(cell_len(line) <= max(cells, wide) for line in lines)
    assert "".join(lines).replace(" ", "") == cleaned.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "cells", "cut"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
        ("anything", 1, "…"),
        ("anything", 0, ""),
    ],
)
def test_a_cut_is_between_letters_and_marked(text: str, cells: int, cut: str) -> None:
    assert words.cut(text, cells) == cut


def test_a_family_of_emoji_has_the_width_that_is_counted() -> None:
    assert words.clean("👩\u200d👩\u200d👧 ❤\ufe0f") == "👩👩👧 ❤"


@pytest.mark.parametrize(
    ("percent", "said"),
    [
        (None, "   -  "),
        (0.0, "  0%  "),
        (69.9, " 70%  "),
        (70.0, " 70%! "),
        (89.9, " 90%! "),
        (90.0, " 90%!!"),
        (100.0, "100%!!"),
        (1e9, "999%!!"),
    ],
)
def test_a_share_is_marked_from_70_and_from_90_percent(percent: float | None, said: str) -> None:
    assert words.percent_words(percent) == said


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (None, "-"),
        (0, "0B"),
        (-5, "0B"),
        (812, "812B"),
        (999.6, "1.0kB"),
        (3_400, "3.4kB"),
        (190e6, "190MB"),
        (9.96e9, "10GB"),
        (2.5e12, "2.5TB"),
        (7e18, "7000000TB"),
    ],
)
def test_sizes_are_short(amount: float | None, said: str) -> None:
    assert words.size(amount) == said


@pytest.mark.parametrize(
    ("used", "total", "said"),
    [
        (14.2e9, 24e9, "14/24GB"),
        (0.3e12, 1e12, "0.3/1.0TB"),
        (None, 24e9, "-/24GB"),
        (5e9, None, "5.0GB"),
        (None, None, "-"),
        (0, 0, "0.0/0B"),
    ],
)
def test_a_part_is_said_in_the_unit_of_the_whole(used: float | None, total: float | None, said: str) -> None:
    assert words.used_of(used, total) == said


@pytest.mark.parametrize(
    ("seconds", "said", "ago"),
    [
        (None, "-", "-"),
        (-3, "0s", "now"),
        (0.5, "0s", "now"),
        (59.9, "59s", "59s ago"),
        (761, "12m 41s", "12m ago"),
        (3_900, "1h 05m", "1h ago"),
        (270_000, "3d 03h", "3d ago"),
    ],
)
def test_times_are_said_as_people_say_them(seconds: float | None, said: str, ago: str) -> None:
    assert words.duration(seconds) == said
    assert words.ago(seconds) == ago


def test_resources_are_said_in_words() -> None:
    assert words.resources({"CPU": 0.5, "GPU": 1.0, "memory": 2e9, "TPU": 0.0}) == "0.5 CPU, 1 GPU, 2.0GB memory"
    assert words.resources({}) == "nothing"


@pytest.mark.parametrize(
    ("percent", "drawn"),
    [(None, "    "), (0, "────"), (0.9, "────"), (1, "━───"), (50, "━━──"), (250, "━━━━"), (-3, "────")],
)
def test_a_bar_is_as_long_as_its_share(percent: float | None, drawn: str) -> None:
    assert "".join(words.bar(percent, 4, UNICODE)) == drawn


def test_a_spark_line_shows_the_latest_at_its_right_end_and_gaps() -> None:
    assert words.spark([0.0, None, 50.0, 100.0], 6, UNICODE) == "  ▁ ▅█"
    assert words.spark([0.0, None, 50.0, 100.0], 2, UNICODE) == "▅█"
    assert words.spark([5.0], 0, UNICODE) == ""
    assert words.spark([0.0, 0.0], 2, UNICODE, most=0.0) == "▁▁"

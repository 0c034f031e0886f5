"""Ids of runs: they sort by time and can be read aloud."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from airlane.store.ids import ALPHABET, LENGTH, is_id, new_id, next_id

FIRST, LAST = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (2026, 2060))
TIMES = st.floats(FIRST, LAST - 3600)


@given(TIMES)
def test_an_id_has_eight_characters_that_are_not_mistaken_for_others(now: float) -> None:
    made = new_id(now)
    assert is_id(made)
    assert len(made) == LENGTH == 8
    assert not set(made) & set("ilouILOU")


@given(TIMES, TIMES)
def test_ids_sort_as_the_times_do(one: float, two: float) -> None:
    earlier, later = sorted((one, two))
    assert new_id(earlier) <= new_id(later)
    assert new_id(earlier) < new_id(later) or later - earlier < 1 / 1024


@given(TIMES)
def test_the_next_id_is_another_and_sorts_right_after(now: float) -> None:
    made = new_id(now)
    assert made < next_id(made) <= new_id(now + 2 / 1024)


def test_a_thousand_ids_of_one_moment_differ_and_keep_their_order() -> None:
    ids = [new_id(1_800_000_000.123)]
    for _ in range(1000):
        ids.append(next_id(ids[-1]))
    assert ids == sorted(set(ids))


def test_the_alphabet_sorts_as_its_numbers_do() -> None:
    assert list(ALPHABET) == sorted(ALPHABET)
    assert len(set(ALPHABET)) == 32


def test_a_clock_before_2026_or_after_2060_gives_an_id_all_the_same() -> None:
    assert is_id(new_id(0.0))
    assert is_id(new_id(LAST + 1e9))
    assert is_id(next_id("zzzzzzzz"))


def test_what_is_no_id() -> None:
    good = new_id(1_800_000_000.0)
    assert not any(map(is_id, ("", good[:-1], good + "0", good[:-1] + "Z", "../../..", "0000000u", "0000000\n")))

from __future__ import annotations

import pytest

from airlane.cli import words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0s"),
        (0, "0.0s"),
        (0.34, "0.3s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (41.2, "41s"),
        (59.6, "1m 00s"),
        (182, "3m 02s"),
        (3599.6, "1h 00m"),
        (3900, "1h 05m"),
        (86_400, "1d 00h"),
        (270_000, "3d 03h"),
    ],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "just now"), (0.5, "just now"), (41, "41s ago"), (720, "12m ago"), (7199, "1h ago"), (200_000, "2d ago")],
)
def test_ago_names_the_largest_unit(seconds: float, text: str) -> None:
    assert words.ago(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (12.9, "0:12"), (75, "1:15"), (3723, "1:02:03")])
def test_a_clock_counts_up(seconds: float, text: str) -> None:
    assert words.clock(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (9_960, "10 kB"),
        (999_600, "1.0 MB"),
        (1_200_000, "1.2 MB"),
        (190_000_000, "190 MB"),
        (2_500_000_000_000_000, "2500 TB"),
    ],
)
def test_sizes_have_two_or_three_digits(size: int, text: str) -> None:
    assert words.size(size) == text


def test_json_times_are_utc_with_microseconds() -> None:
    assert words.iso(1_796_034_067.25) == "2026-11-30T10:21:07.250000+00:00"
    assert words.iso(1.9999999) == "1970-01-01T00:00:02.000000+00:00"
    assert words.iso(None) is None

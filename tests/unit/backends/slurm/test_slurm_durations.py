from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlane.backends.slurm.durations import read_duration, write_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("8:00", 480),
        ("8:00:00", 28800),
        ("2-0", 172800),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("1-02:03:04", 93784),
        ("00:01:00", 60),
        ("UNLIMITED", None),
        ("INFINITE", None),
        ("NONE", None),
        ("1:2:3:4", None),
        ("", None),
        ("8h", None),
    ],
)
def test_a_length_of_time_is_read_as_slurm_reads_it(text: str, seconds: int | None) -> None:
    assert read_duration(text) == seconds


@given(st.integers(0, 400 * 86400))
def test_what_is_written_is_read_back(seconds: int) -> None:
    assert read_duration(write_duration(seconds)) == seconds


def test_days_stand_before_a_dash() -> None:
    assert write_duration(93784) == "1-02:03:04"
    assert write_duration(3600) == "01:00:00"

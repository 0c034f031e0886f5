"""Getting at what may be of any form."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlane.top import fields

ODD: list[Any] = [
    None,
    True,
    "",
    "x",
    [],
    {},
    math.nan,
    math.inf,
    -math.inf,
    10**400,
    "9" * 5000,
    "nan",
    "1e999",
    "٣" * 3,
]


@pytest.mark.parametrize("content", ODD)
def test_what_is_no_number_is_none(content: Any) -> None:
    assert fields.number(content) in (None, 333.0)  # digits of other scripts are digits
    assert fields.whole(content) in (None, 333)


@pytest.mark.parametrize(("content", "expected"), [(0, 0.0), ("0", 0.0), (" 1.5 ", 1.5), (-2, -2.0), ("1e3", 1000.0)])
def test_a_number_may_come_as_text(content: Any, expected: float) -> None:
    assert fields.number(content) == expected


def test_a_time_in_nanoseconds_keeps_its_last_digits() -> None:
    assert fields.whole("1796096878598939649") == 1796096878598939649


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("python träin.py 🚀", "python träin.py 🚀"),
        ("a\x1b[2Jb\x07", "a[2Jb"),
        ("a\n\n  b\t", "a   b"),
        ("a\ud83dz", "az"),
        ("\u202eevil", "evil"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        (18269, "18269"),
        (None, ""),
        (["a"], ""),
        (True, ""),
    ],
)
def test_text_is_fit_for_a_terminal(content: Any, shown: str) -> None:
    assert fields.text(content) == shown


def test_a_huge_text_is_cut_with_a_mark() -> None:
    assert fields.text("ü" * 10**6, 10) == "ü" * 9 + "…"


@given(st.text(st.characters()), st.integers(1, 50))
def test_whatever_is_there_can_be_written_and_does_not_steer_a_terminal(content: str, most: int) -> None:
    shown = fields.text(content, most)
    assert len(shown) <= most
    assert not any(mark < " " or "\x7f" <= mark < "\xa0" for mark in shown)
    shown.encode()


def test_python_writes_what_the_fast_reader_refuses_and_it_is_read_all_the_same() -> None:
    assert fields.read_json(b'{"a": NaN, "b": "\\udc80", "c": "\xff"}')["b"] == "\udc80"


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"a": 1', b'{"a"', b"\xff\xfe", b"[" * 200_000])
def test_what_is_no_json_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        fields.read_json(body)

"""Signs of life on stdout, with a pipe in its place and a clock that stands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from airlane.launch import heart
from airlane.launch.heart import BEAT, Heart


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [50.0]
    monkeypatch.setattr(heart, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    return clock


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    monkeypatch.setattr(heart, "_STDOUT", ends[1])
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue  # the test has closed it


def beats(pipe: tuple[int, int]) -> int:
    try:
        text = os.read(pipe[0], 1 << 16)
    except BlockingIOError:
        return 0
    assert text.replace(BEAT, b"") == b""
    return text.count(BEAT)


def test_one_that_was_not_asked_for_never_beats(pipe: tuple[int, int], now: list[float]) -> None:
    assert Heart(None).beat() is None
    assert beats(pipe) == 0
    assert now == [50.0]


def test_it_beats_at_once_and_then_once_an_interval(pipe: tuple[int, int], now: list[float]) -> None:
    made = Heart(2.0)
    assert made.beat() == 2.0
    assert beats(pipe) == 1
    now[0] += 1.5
    assert made.beat() == 0.5
    assert beats(pipe) == 0
    now[0] += 0.5
    assert made.beat() == 2.0
    assert beats(pipe) == 1


def test_what_was_missed_is_not_made_up_for(pipe: tuple[int, int], now: list[float]) -> None:
    made = Heart(1.0)
    made.beat()
    now[0] += 3600
    assert made.beat() == 1.0
    assert beats(pipe) == 2


def test_a_launcher_that_reads_nothing_does_not_hold_it(pipe: tuple[int, int], now: list[float]) -> None:
    made = Heart(1.0)
    for _ in range(10_000):  # more than any pipe holds
        made.beat()
        now[0] += 1
    assert beats(pipe) > 1000


@pytest.mark.parametrize("closed", [0, 1])
def test_a_launcher_that_is_gone_does_not_hold_it(pipe: tuple[int, int], now: list[float], closed: int) -> None:
    os.close(pipe[closed])
    assert Heart(1.0).beat() == 1.0
    assert now == [50.0]

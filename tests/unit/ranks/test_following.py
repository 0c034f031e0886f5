"""What is done while ranks run, with a crew that plays the seats."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import cast

import pytest

from airlane.ranks import following as module
from airlane.ranks.crew import Crew, Event, News
from airlane.ranks.decide import DONE, FAILED, HUNG, LOST, PORT_TAKEN, STOPPED
from airlane.ranks.following import Asked, Following
from airlane.ranks.outcome import Outcome
from airlane.ranks.output import Output
from airlane.ranks.screen import Screen

from .made import mapped

RANKS = mapped((), (), ranks_per_node=2)
NO_PORT = b"The server socket has failed to listen. code: -98, name: EADDRINUSE\n"


class Clock:
    """Time passes when news is asked for."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    monotonic = time


class Seats:
    """Ranks that do as a script says: what each tells at a time, and how each answers a request to end."""

    def __init__(self, clock: Clock, *told: tuple[float, News], deaf: Iterable[int] = ()) -> None:
        self.clock = clock
        self.told = sorted(told, key=lambda item: item[0])
        self.requests: list[tuple[float, str, tuple[int, ...]]] = []
        self._deaf = set(deaf)

    def news(self, wait_s: float) -> list[News]:
        self.clock.now += wait_s
        due = [news for at, news in self.told if 1000 + at <= self.clock.now]
        self.told = [item for item in self.told if 1000 + item[0] > self.clock.now]
        return due

    def tell(self, numbers: Iterable[int], request: str) -> None:
        seats = tuple(numbers)
        self.requests.append((self.clock.now - 1000, request, seats))
        word = request.partition(" ")[0]
        for seat in set(seats) - self._deaf:
            self.told = [item for item in self.told if item[1].seat != seat]
            stack = (
                b'Current thread 0x1 (most recent call first):\n  File "a.py", line 1 in f\n' if word == "dump" else b""
            )
            end = Event("ended", self.clock.now, signal=6 if word == "dump" else 15, asked=True)
            self.told.append((self.clock.now - 1000, News(seat, (end,), errors=stack, is_last=True)))


def exits(seat: int, at: float, code: int = 0, errors: bytes = b"") -> tuple[float, News]:
    return at, News(seat, (Event("ended", 1000 + at, code=code),), errors=errors, is_last=True)


def says(seat: int, at: float) -> tuple[float, News]:
    return at, News(seat, out=b"step\n")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def followed(seats: Seats, *, asked: Asked | None = None, watchdog_s: float | None = None) -> Outcome:
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        screen = Screen(null, null)
        return Following(
            cast("Crew", seats),
            RANKS,
            Output(screen, RANKS, None),
            asked=asked or Asked(),
            watchdog_s=watchdog_s,
            stop_grace_s=25,
            say=screen.say,
        ).run()
    finally:
        os.close(null)


def test_ranks_that_all_exit_with_0_are_done_and_nobody_is_asked_to_end(clock: Clock) -> None:
    seats = Seats(clock, *(exits(seat, seat + 1) for seat in range(4)))
    assert followed(seats).why == DONE
    assert seats.requests == []


def test_the_first_rank_that_fails_ends_the_others_at_once_with_little_grace(clock: Clock) -> None:
    seats = Seats(clock, exits(2, 10.0, 3, b"ValueError: x\n"))
    outcome = followed(seats)
    assert outcome.first is not None
    assert (outcome.why, outcome.first.rank, outcome.first.code, list(outcome.words)) == (
        FAILED,
        2,
        3,
        ["ValueError: x"],
    )
    ((at, request, told),) = seats.requests
    assert at == pytest.approx(10, abs=0.3)
    assert (request, set(told)) == ("stop 1.5", {0, 1, 3})


def test_the_earliest_of_two_failures_is_the_cause_though_it_was_heard_later(clock: Clock) -> None:
    late = (10.0, News(0, (Event("ended", 1009.0, code=1),), is_last=True))
    early = (10.2, News(3, (Event("ended", 1008.5, code=7),), is_last=True))
    first = followed(Seats(clock, late, early, deaf=[3])).first
    assert first is not None
    assert first.rank == 3


def test_silence_of_all_ranks_is_a_hang_and_shows_every_stack(clock: Clock) -> None:
    seats = Seats(clock, *(says(seat, 5.0) for seat in range(4)))
    outcome = followed(seats, watchdog_s=60)
    assert outcome.why == HUNG
    assert [(request, len(told)) for _, request, told in seats.requests] == [("dump", 4)]
    assert seats.requests[0][0] == pytest.approx(65, abs=0.6)
    assert {rank: lines[-1] for rank, lines in outcome.stacks.items()} == dict.fromkeys(
        range(4), '  File "a.py", line 1 in f'
    )


def test_one_rank_that_writes_is_progress_for_all(clock: Clock) -> None:
    steps = [says(0, at) for at in range(0, 301, 50)]
    ends = [exits(seat, 310) for seat in range(4)]
    assert followed(Seats(clock, *steps, *ends), watchdog_s=60).why == DONE


def test_a_rank_that_does_not_even_answer_the_watchdog_is_given_up_after_a_while(clock: Clock) -> None:
    outcome = followed(Seats(clock, deaf=[3]), watchdog_s=60)
    assert outcome.why == HUNG
    assert clock.now < 1000 + 60 + 40
    assert outcome.stacks[3] == []


def test_a_seat_that_is_lost_ends_the_generation_and_is_its_cause(clock: Clock) -> None:
    seats = Seats(clock, exits(0, 10.0, 1), (11.0, News(2, is_last=True, lost="gone")), deaf=[2])
    outcome = followed(seats)
    assert outcome.first is not None
    assert (outcome.why, outcome.first.rank, outcome.first.lost) == (LOST, 2, "gone")
    assert outcome.lost == {2}


def test_a_keeper_that_is_killed_takes_its_rank_with_it(clock: Clock) -> None:
    seats = Seats(clock, (5.0, News(1, (Event("lost", 1005.0),), is_last=True)))
    assert followed(seats).why == LOST


def test_a_rank_that_could_not_be_started_is_the_cause_with_the_reason(clock: Clock) -> None:
    seats = Seats(clock, (1.0, News(1, (Event("failed", 1001.0, why="train.py is not there"),), is_last=True)))
    first = followed(seats).first
    assert first is not None
    assert (first.code, first.words) == (127, "could not be started: train.py is not there")


def test_a_port_that_somebody_took_is_told_apart_from_a_failure(clock: Clock) -> None:
    assert followed(Seats(clock, exits(0, 5.0, 1, NO_PORT))).why == PORT_TAKEN
    assert followed(Seats(clock, exits(1, 5.0, 1, NO_PORT))).why == FAILED
    assert followed(Seats(clock, exits(0, 5.0, 1, b"ValueError\n"))).why == FAILED


def test_a_request_to_stop_gives_the_ranks_the_time_that_was_set(clock: Clock) -> None:
    asked = Asked()
    asked.hear(15)
    seats = Seats(clock)
    assert followed(seats, asked=asked).why == STOPPED
    assert seats.requests[0][1] == "stop 25"


def test_a_second_request_to_stop_waits_no_longer(clock: Clock) -> None:
    asked = Asked()
    asked.hear(2)
    asked.hear(2)
    seats = Seats(clock)
    followed(seats, asked=asked)
    assert "kill" in [request for _, request, _ in seats.requests]


def test_what_cannot_be_ended_does_not_hold_the_launcher_for_ever(clock: Clock) -> None:
    outcome = followed(Seats(clock, exits(0, 1.0, 1), deaf=[2]))
    assert clock.now < 1000 + 15
    assert [end.lost for end in outcome.ends if end.rank == 2] == ["its processes do not end"]
    assert outcome.why == FAILED

"""What people read at the end of a generation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airlane.ranks.decide import DONE, FAILED, HUNG, LOST, PORT_TAKEN, STOPPED
from airlane.ranks.ends import RankEnd
from airlane.ranks.outcome import Outcome
from airlane.ranks.report import again_line, duration, outcome_lines

from .made import ended, mapped

RANKS = mapped(("0", "1"), ("4", "5"))


def test_the_rank_that_failed_first_is_told_first_with_its_last_words_and_the_others_after_it() -> None:
    first = ended(3, 101.5, 3)
    outcome = Outcome(FAILED, 100.0, (ended(0, 103, 143, asked=True), first), first, ["ValueError: x"])
    assert outcome_lines(outcome, RANKS, 3) == [
        "✗ rank 3 on node 1 (10.0.0.2, GPU 5) exited with code 3, 1.5 s after its start",
        "    ValueError: x",
        "  rank 0 was stopped because of it",
    ]


def test_a_lost_node_is_told_by_its_address() -> None:
    first = RankEnd(2, 5.0, lost="its node does not answer any more")
    lines = outcome_lines(Outcome(LOST, 0.0, (first,), first), RANKS, 5)
    assert lines == [
        "✗ rank 2 on node 1 (10.0.0.2, GPU 4) was lost: its node does not answer any more, 5.0 s after its start"
    ]


def test_a_seat_that_is_lost_before_ranks_are_numbered_is_told_all_the_same() -> None:
    first = RankEnd(0, 5.0, lost="its node has died")
    assert outcome_lines(Outcome(LOST, 0.0, (first,), first), None, 5) == ["✗ a rank was lost: its node has died"]


def test_a_good_end_a_stop_and_a_hang_have_their_words() -> None:
    good = Outcome(DONE, 0.0, (ended(0, 1, 0), ended(1, 1, 0)))
    assert outcome_lines(good, RANKS, 761) == ["✓ all of 2 ranks exited with code 0 after 12m 41s"]
    assert outcome_lines(replace(good, why=STOPPED), RANKS, 2) == ["stopped after 2.0 s, as asked"]
    hung = outcome_lines(Outcome(HUNG, 0.0, stacks={0: [], 1: []}), RANKS, 9)
    assert hung[0] == "  ranks 0-1 are at"


def test_why_it_starts_again_is_said() -> None:
    assert again_line(Outcome(FAILED, 0), 2, 3) == "starting again: restart 2 of 3"
    assert "another port" in again_line(Outcome(PORT_TAKEN, 0), 0, 3)


@pytest.mark.parametrize(
    ("seconds", "words"), [(-1, "0.0 s"), (0.42, "0.4 s"), (41.4, "41 s"), (182, "3m 02s"), (7500, "2h 05m")]
)
def test_durations_are_written_for_people(seconds: float, words: str) -> None:
    assert duration(seconds) == words

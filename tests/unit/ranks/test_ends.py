"""Which rank failed first, and what is said of the others."""

from __future__ import annotations

import pytest

from airlane.ranks.crew import why_lost
from airlane.ranks.ends import RankEnd, first_failure, folded

from .made import ended


def first(*ends: RankEnd) -> int | None:
    found = first_failure(ends)
    return None if found is None else found.rank


def test_the_earliest_failure_is_the_cause_in_whatever_order_it_was_heard() -> None:
    assert first(ended(0, 10.2), ended(3, 10.1), ended(1, 10.3)) == 3


def test_ranks_that_were_asked_to_end_are_no_cause() -> None:
    assert first(ended(0, 9.0, 1, asked=True), ended(1, 10.0)) == 1


def test_ranks_that_exited_with_0_are_no_cause() -> None:
    assert first(ended(0, 1.0, 0), ended(1, 2.0, 0)) is None


def test_a_lost_node_is_the_cause_of_what_failed_before_it_was_missed() -> None:
    assert first(ended(0, 10.0), ended(2, 12.0, lost="gone"), ended(3, 12.3, lost="gone")) == 2


def test_the_lowest_of_the_ranks_that_were_lost_together_stands_for_their_node() -> None:
    assert first(ended(3, 12.0, lost="gone"), ended(2, 12.4, lost="gone")) == 2


def test_a_node_that_is_lost_long_after_a_failure_did_not_cause_it() -> None:
    assert first(ended(0, 10.0), ended(2, 30.0, lost="gone")) == 0


def test_codes_are_those_that_a_shell_reports() -> None:
    ends = [RankEnd(0, 0, exit_code=3), RankEnd(0, 0, signal=9), RankEnd(0, 0, lost="x"), RankEnd(0, 0, error="x")]
    assert [end.code for end in ends] == [3, 137, 1, 127]


def test_an_end_is_told_in_words() -> None:
    assert RankEnd(0, 0, exit_code=3).words == "exited with code 3"
    assert RankEnd(0, 0, signal=11).words == "was killed by SIGSEGV"
    assert RankEnd(0, 0, signal=9, out_of_memory=True).words == "was killed by SIGKILL (the machine ran out of memory)"
    assert RankEnd(0, 0, signal=200).words == "was killed by signal 200"


def test_what_followed_is_folded_into_a_line_each() -> None:
    cause = ended(5, 1.0)
    ends = [cause, ended(0, 2.0), ended(1, 2.0), ended(2, 2.1, 134), ended(6, 3.0, 0)]
    stopped = [ended(rank, 3.0, 143, asked=True) for rank in (3, 4, 7)]
    assert folded([*ends, *stopped], cause) == [
        "after it, ranks 0-1 exited with code 1; rank 2 exited with code 134",
        "ranks 3-4, 7 were stopped because of it",
    ]


def test_a_rank_that_was_alone_leaves_nothing_to_fold() -> None:
    assert folded([ended(0, 1.0)], ended(0, 1.0)) == []


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("ActorUnavailableError", "The actor 1a is unavailable: RPC", "its Ray worker does not answer"),
        (
            "ActorDiedError",
            "died.\n\tpid: 1\nThe actor died because its node has died. Node Id: 7",
            "its node has died",
        ),
        (
            "ActorDiedError",
            "x\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR",
            "its Ray worker has died",
        ),
        (
            "ActorDiedError",
            "The actor is dead because its worker process has died. Worker exit type: NODE_OUT_OF_MEMORY",
            "Ray killed its worker, because the node ran out of memory",
        ),
        ("SomethingNew", "", "Ray: SomethingNew"),
    ],
)
def test_what_ray_says_of_a_lost_seat_is_told_in_few_words(kind: str, text: str, words: str) -> None:
    assert why_lost(kind, text) == words

"""Which process is which rank, and which GPU it finds under which number."""

from __future__ import annotations

import itertools

import pytest

from airlane.errors import BackendError
from airlane.ranks.rank_map import SeatFacts, number, spans
from airlane.ranks.shape import Shape

from .made import host, mapped

HOSTS = {one.node_id: one for one in (host("10.0.0.9"), host("10.0.0.10"))}
NINE, TEN = HOSTS


def test_ranks_are_the_same_in_whatever_order_the_seats_were_placed() -> None:
    seats = [(NINE, "1"), (NINE, "0"), (TEN, "10"), (TEN, "9")]
    maps = set()
    for placed in itertools.permutations(seats):
        facts = [SeatFacts(seat, node, (gpu,)) for seat, (node, gpu) in enumerate(placed)]
        ranks = number(facts, HOSTS, Shape(2, 2, 1, 1))
        maps.add(tuple((p.rank, p.local_rank, p.node_rank, p.host.address, placed[p.seat][1]) for p in ranks.places))
    assert maps == {
        (
            (0, 0, 0, "10.0.0.9", "0"),
            (1, 1, 0, "10.0.0.9", "1"),
            (2, 0, 1, "10.0.0.10", "9"),
            (3, 1, 1, "10.0.0.10", "10"),
        )
    }


def test_the_local_rank_is_the_place_of_the_ranks_gpu_among_all_that_its_node_was_granted() -> None:
    facts = [SeatFacts(seat, NINE, (gpu,)) for seat, gpu in enumerate(["7", "2", "10"])]
    ranks = number(facts, HOSTS, Shape(1, 3, 1, 1))
    assert [(place.gpus, place.gpus[place.local_rank], place.seat) for place in ranks.places] == [
        (("2", "7", "10"), "2", 1),
        (("2", "7", "10"), "7", 0),
        (("2", "7", "10"), "10", 2),
    ]


@pytest.mark.parametrize("kind", ["GPU-5f2a", "MIG-9c1e"])
def test_gpus_with_names_keep_the_order_that_the_raylet_was_given(kind: str) -> None:
    order = tuple(f"{kind}-{letter}" for letter in "cab")
    facts = [SeatFacts(seat, NINE, (f"{kind}-{letter}",), order) for seat, letter in enumerate("abc")]
    assert number(facts, HOSTS, Shape(1, 3, 1, 1)).places[0].gpus == order


def test_seats_that_share_a_node_where_distinct_nodes_were_wanted_are_refused() -> None:
    facts = [SeatFacts(seat, NINE) for seat in range(4)]
    with pytest.raises(BackendError, match=r"4 on 10.0.0.9 ranks where 2 nodes, 2 ranks each"):
        number(facts, HOSTS, Shape(2, 2, 0, 1))


def test_unequal_nodes_are_refused() -> None:
    facts = [SeatFacts(0, NINE), SeatFacts(1, NINE), SeatFacts(2, NINE), SeatFacts(3, TEN)]
    with pytest.raises(BackendError, match=r"3 on 10.0.0.9, 1 on 10.0.0.10"):
        number(facts, HOSTS, Shape(2, 2, 0, 1))


def test_a_given_topology_numbers_the_nodes() -> None:
    facts = [SeatFacts(0, NINE), SeatFacts(1, TEN)]
    ranks = number(facts, HOSTS, Shape(2, 1, 0, 1), ("10.0.0.10",))
    assert [place.host.address for place in ranks.places] == ["10.0.0.10", "10.0.0.9"]


def test_the_map_has_a_line_for_each_node() -> None:
    assert mapped(("0", "1"), ("0", "1")).lines() == [
        "node 0  10.0.0.1   ranks 0-1   GPUs 0,1",
        "node 1  10.0.0.2   ranks 2-3   GPUs 0,1",
    ]
    assert mapped((), ranks_per_node=1).lines() == ["node 0  10.0.0.1   rank 0"]


def test_numbers_are_written_as_spans() -> None:
    assert spans([5, 0, 1, 2, 7, 8]) == "0-2, 5, 7-8"
    assert spans([3]) == "3"

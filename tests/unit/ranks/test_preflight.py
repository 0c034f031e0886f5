"""What a preflight's numbers say about nodes."""

from __future__ import annotations

import json

from airlane.ranks.decide import FAILED
from airlane.ranks.outcome import Outcome
from airlane.ranks.preflight import Measured, failure, measure_lines, rate, slow_nodes

from .made import ended, mapped

HOSTS = {node: f"10.0.0.{node + 1}" for node in range(4)}


def told(measured: Measured, rank: int, step: str, **fields: object) -> None:
    measured.hear(rank, json.dumps({"preflight": step, **fields}).encode())


def ring(*speeds: float) -> Measured:
    measured = Measured()
    for node, speed in enumerate(speeds):
        told(measured, node, "pair", nodes=[node, (node + 1) % len(speeds)], bytes_per_s=speed)
    return measured


def test_a_node_that_is_slow_towards_both_neighbours_is_named_and_its_neighbours_are_not() -> None:
    assert slow_nodes(ring(1e9, 1.1e9, 10e9, 11e9, 12e9, 10e9), {**HOSTS, 4: "e", 5: "f"}) == [
        "node 1 (10.0.0.2) is slow: 1.1 GB/s to others, and 10.0 GB/s are usual"
    ]


def test_with_equal_nodes_none_is_called_slow() -> None:
    assert slow_nodes(ring(10e9, 9e9, 11e9, 10e9), HOSTS) == []


def test_two_nodes_are_too_few_to_tell_which_is_slow() -> None:
    assert slow_nodes(ring(1e6), {0: "a", 1: "b"}) == []


def test_a_node_that_is_slow_inside_is_named() -> None:
    measured = Measured(inside={0: 400e9, 1: 390e9, 2: 20e9})
    assert slow_nodes(measured, HOSTS) == ["node 2 (10.0.0.3) is slow: 20.0 GB/s inside it, and 390.0 GB/s are usual"]


def test_measures_are_shown_from_the_smallest_part_to_the_whole() -> None:
    measured = ring(2e9)
    told(measured, 0, "node", node=0, bytes_per_s=5e9)
    told(measured, 1, "node", node=0, bytes_per_s=4e9)
    told(measured, 0, "all", bytes_per_s=3e9)
    told(measured, 1, "all", bytes_per_s=2.5e9)
    lines = measure_lines(measured, {0: "a"})
    assert lines[0] == "inside node 0 (a)  4.0 GB/s"
    assert lines[-1] == "all-reduce over all ranks  2.5 GB/s"


def test_lines_of_others_are_passed_over() -> None:
    measured = Measured()
    for line in (b"", b"hello", b"[1]", b"{}", b"null", b'{"preflight": "new"}'):
        measured.hear(0, line)
    assert measured == Measured()


def test_the_node_that_did_not_join_is_named_and_not_those_that_waited_for_it() -> None:
    ranks = mapped(("0",), ("0",), ("0",))
    measured = Measured(started={0, 1, 2}, joined=set())
    first = ended(0, 1.0)
    assert "node 0" in failure(Outcome(FAILED, 0, (first,), first), measured, ranks).message
    measured.started.discard(2)
    assert "node 2 (10.0.0.3)" in failure(Outcome(FAILED, 0, (first,), first), measured, ranks).message
    measured.started.add(2)
    measured.joined |= {0, 2}
    assert failure(Outcome(FAILED, 0, (first,), first), measured, ranks).host == "10.0.0.2"


def test_rates_have_units() -> None:
    assert [rate(11.24e9), rate(830e6), rate(4e5)] == ["11.2 GB/s", "830 MB/s", "0 MB/s"]

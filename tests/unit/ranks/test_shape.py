"""What is asked of a cluster, against what it has."""

from __future__ import annotations

import pytest

from airlane.errors import CapacityError
from airlane.ranks.shape import Request, Shape, plan_shape, waiting_for

from .made import host

TWO_OF_EIGHT = [host("10.0.0.1"), host("10.0.0.2")]
CPU_HEAD = host("10.0.0.9", gpus=0, cpus=64)


def planned(request: Request, *hosts: object) -> tuple[int, int, int]:
    shape = plan_shape(request, list(hosts))  # type: ignore[arg-type]
    return shape.nodes, shape.ranks_per_node, shape.gpus_per_rank


def test_without_a_number_every_gpu_of_the_cluster_gets_a_rank_and_nodes_without_get_none() -> None:
    assert planned(Request(), *TWO_OF_EIGHT, CPU_HEAD) == (2, 8, 1)


def test_where_there_are_no_gpus_each_node_gets_one_rank_unless_told_otherwise() -> None:
    hosts = [host("10.0.0.1", gpus=0), host("10.0.0.2", gpus=0)]
    assert planned(Request(), *hosts) == (2, 1, 0)
    assert planned(Request(per_node="auto"), *hosts) == (2, 8, 0)
    assert planned(Request(per_node=3), *hosts) == (2, 3, 0)


def test_a_number_of_processes_takes_gpus_where_there_are_any_unless_they_are_not_wanted() -> None:
    assert planned(Request(2, 2, 4), *TWO_OF_EIGHT) == (2, 4, 1)
    assert planned(Request(2, 2, 4, takes_gpus=False), *TWO_OF_EIGHT) == (2, 4, 0)
    assert planned(Request(2, 2, "cpu"), *TWO_OF_EIGHT) == (2, 8, 0)


def test_unequal_nodes_get_as_many_ranks_as_the_least_of_those_that_are_needed() -> None:
    small = host("10.0.0.3", gpus=4)
    assert planned(Request(takes_gpus=True), *TWO_OF_EIGHT, small) == (3, 4, 1)
    assert planned(Request(2, 2, takes_gpus=True), *TWO_OF_EIGHT, small) == (2, 8, 1)


def test_of_a_range_of_nodes_as_many_are_taken_as_there_are() -> None:
    assert planned(Request(1, 4, 8), *TWO_OF_EIGHT)[0] == 2
    assert planned(Request(1, 1, 8), *TWO_OF_EIGHT)[0] == 1
    with pytest.raises(CapacityError):
        plan_shape(Request(3, 4, 8), TWO_OF_EIGHT)


def test_too_many_nodes_are_refused_with_the_numbers_and_a_line_that_fits() -> None:
    with pytest.raises(CapacityError) as refused:
        plan_shape(Request(3, 3, 8, takes_gpus=True), TWO_OF_EIGHT)
    assert refused.value.message == (
        "no room for 3 nodes with 8 GPUs and 8 CPUs each: 2 of the cluster's 2 nodes can hold that "
        "(10.0.0.1: 8 GPUs, 8 CPUs; 10.0.0.2: 8 GPUs, 8 CPUs)"
    )
    assert refused.value.hint == "air-ranks --nodes 2 --gpus-per-node 8 ..."


@pytest.mark.parametrize(
    ("request_", "hint"),
    [
        (Request(1, 1, 16, takes_gpus=True), "air-ranks --nodes 1 --gpus-per-node 8 ..."),
        (Request(1, 1, 8, takes_gpus=True, cpus_per_rank=4), "air-ranks --nodes 1 --gpus-per-node 2 ..."),
        (Request(1, 1, 8, takes_gpus=True, cpus_per_rank=64), "air-ranks --cpus-per-rank 0 --gpus-per-node 8 ..."),
    ],
    ids=["GPUs", "CPUs", "a CPU too many"],
)
def test_too_large_nodes_are_refused_with_what_lacks(request_: Request, hint: str) -> None:
    with pytest.raises(CapacityError, match="none of the cluster's 2 nodes can hold that") as refused:
        plan_shape(request_, TWO_OF_EIGHT)
    assert refused.value.hint == hint


def test_gpus_that_are_asked_for_where_none_are_lead_to_ranks_without() -> None:
    with pytest.raises(CapacityError) as refused:
        plan_shape(Request(1, 1, 8, takes_gpus=True), [CPU_HEAD])
    assert refused.value.hint == "air-ranks --cpu-only ..."


def test_many_nodes_are_counted_by_size_in_a_refusal() -> None:
    hosts = [host(f"10.0.1.{index}") for index in range(20)] + [CPU_HEAD]
    with pytest.raises(CapacityError, match=r"\(20 with 8 GPUs, 8 CPUs; 1 with 0 GPUs, 64 CPUs\)"):
        plan_shape(Request(32, 32, 8), hosts)


def test_a_cluster_without_a_live_node_says_so() -> None:
    with pytest.raises(CapacityError, match="no node that is alive"):
        plan_shape(Request(), [])


def test_what_is_waited_for_names_who_is_busy_and_with_how_much() -> None:
    shape = Shape(2, 8, 1, 1)
    hosts = [host("10.0.0.1"), host("10.0.0.2", busy_gpus=6)]
    assert waiting_for(shape, hosts) == ("1 of 2 nodes with 8 GPUs and 8 CPUs free (10.0.0.2: 2 of 8 GPUs free)")


def test_what_is_waited_for_says_when_nodes_have_left() -> None:
    assert "2 nodes with 8 GPUs and 8 CPUs are needed, and 1 are there" in waiting_for(
        Shape(2, 8, 1, 1), [host("10.0.0.1")]
    )

"""What an entrypoint asks for, beside what a cluster has. The answers are those of Ray 2.60, shortened."""

from __future__ import annotations

from typing import Any

import pytest

from airlane.cluster.job_waiting import amounts_words, asked_for, check_capacity, waiting_words
from airlane.cluster.jobs import JobRequest, JobState, RayJob
from airlane.errors import CapacityError

PENDING = RayJob("j", None, JobState.PENDING)
URL = "http://head:8265"


def node(state: str = "ALIVE", **resources: float) -> dict[str, Any]:
    return {"state": state, "resources_total": {"memory": 16e9, **resources}}


def usage(*nodes: dict[str, list[float]]) -> dict[str, Any]:
    by_node = {f"id{n}": found for n, found in enumerate(nodes)}
    return {"data": {"clusterStatus": {"loadMetricsReport": {"usageByNode": by_node}}}}


def test_what_was_not_asked_for_is_not_looked_for() -> None:
    assert asked_for(JobRequest("x")) == {}
    assert asked_for(JobRequest("x", num_cpus=0, num_gpus=0.5, memory_bytes=10, resources={"tpu": 1})) == {
        "GPU": 0.5,
        "memory": 10.0,
        "tpu": 1.0,
    }


@pytest.mark.parametrize("asked", [{}, {"GPU": 2.0}, {"CPU": 4.0, "GPU": 1.0}, {"memory": 16e9}, {"licence": 1.0}])
def test_what_one_node_has_is_taken(asked: dict[str, float]) -> None:
    check_capacity(asked, [node(CPU=1), node(CPU=4, GPU=2, licence=1)], url=URL)


@pytest.mark.parametrize(
    ("asked", "words", "option"),
    [
        (
            {"GPU": 8.0},
            "cluster at http://head:8265 has 8 GPUs, which the entrypoint asks for. The most on one node: 2 GPUs",
            "--entrypoint-num-gpus",
        ),
        ({"CPU": 4.0, "GPU": 2.0}, "has 4 CPUs, 2 GPUs together", "--entrypoint-resources"),
        (
            {"memory": 64e9},
            "has 64.0 GB of memory, which the entrypoint asks for. The most on one node: 16.0 GB",
            "memory",
        ),
        (
            {"licence": 1.0},
            "has 1 licence, which the entrypoint asks for. The most on one node: 0 licence",
            "resources",
        ),
        ({"DEAD": 1.0}, "The most on one node: 0 DEAD", "resources"),
    ],
)
def test_what_no_node_can_ever_hold_is_refused_with_the_numbers(
    asked: dict[str, float], words: str, option: str
) -> None:
    rows = [node(CPU=4), node(CPU=1, GPU=2), node("DEAD", GPU=16, DEAD=1)]
    with pytest.raises(CapacityError) as caught:
        check_capacity(asked, rows, url=URL)
    assert words in caught.value.message
    assert option in str(caught.value.hint)
    assert "--may-grow" in str(caught.value.hint)


def test_a_cluster_of_dead_nodes_holds_nothing() -> None:
    with pytest.raises(CapacityError, match="has no node that lives"):
        check_capacity({"CPU": 1.0}, [node("DEAD", CPU=8)], url=URL)


def test_what_waits_for_busy_nodes_says_what_is_free() -> None:
    busy = usage({"CPU": [3.0, 4.0], "GPU": [1.0, 2.0]}, {"CPU": [0.0, 4.0]})
    assert waiting_words(PENDING, {"CPU": 2.0, "GPU": 1.0}, busy) == (
        "waits for a node with 2 CPUs, 1 GPU free; the most free on one: 4 CPUs, 1 GPU"
    )


def test_names_of_resources_are_found_in_camel_case() -> None:
    free = usage({"specialHardware": [0.0, 1.0], "memory": [0.0, 10.0]})
    assert waiting_words(PENDING, {"special_hardware": 1.0, "memory": 10.0}, free) == "starts"
    assert waiting_words(PENDING, {"special_hardware": 2.0}, free).endswith("the most free on one: 1 special_hardware")


@pytest.mark.parametrize("answer", [None, {}, {"data": {"clusterStatus": None}}, usage(), "x", usage({"CPU": [1.0]})])
def test_an_answer_that_cannot_be_read_is_no_reason_to_fail(answer: Any) -> None:
    assert waiting_words(PENDING, {"CPU": 1.0}, answer) == "starts"


def test_of_a_job_that_another_submitted_all_that_waits_is_told() -> None:
    answer = {
        "data": {"clusterStatus": {"loadMetricsReport": {"resourceDemand": [[{"GPU": 8.0}, 1], [{"CPU": 1.0}, 3]]}}}
    }
    assert waiting_words(PENDING, {}, answer) == "starts, or waits for resources: 8 GPUs; 1 CPU"
    assert waiting_words(PENDING, {"CPU": 1.0}, answer) == "starts"


def test_a_runtime_environment_takes_its_time() -> None:
    job = RayJob("j", None, JobState.PENDING, has_runtime_env=True)
    assert waiting_words(job, {}, None) == "sets up the runtime environment"


def test_amounts_are_written_for_people() -> None:
    assert amounts_words({"GPU": 0.5, "CPU": 1.0, "memory": 16e9, "TPU": 4.0}) == (
        "0.5 GPUs, 1 CPU, 16.0 GB of memory, 4 TPU"
    )

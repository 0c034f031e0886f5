"""Whether a cluster can ever hold a run. The rows are those of Ray 2.60's /api/v0/nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airlane.backends.base import Compute
from airlane.backends.ray.capacity import (
    ListedNode,
    bundle,
    check,
    missing_words,
    read_nodes,
    shapes,
    waiting_words,
)
from airlane.backends.ray.options import RayOptions
from airlane.cluster.rest import Dashboard
from airlane.errors import BackendError, CapacityError

URL = "http://10.0.0.1:8265"
SHARED = RayOptions(storage=Path("/fsx"))


def node(number: int, **total: float) -> ListedNode:
    own = {f"node:10.0.0.{number}": 1.0, "memory": 1e9, "object_store_memory": 1e8}
    return ListedNode(f"id{number}", f"n{number}", f"10.0.0.{number}", True, number == 1, {**total, **own})


def gpus(number: int, count: float = 2, cpus: float = 2, model: str | None = None) -> ListedNode:
    found = node(number, GPU=count, CPU=cpus)
    return found if model is None else replace(found, total={**found.total, f"accelerator_type:{model}": 1.0})


def asked(nodes: int, kind: str, per_node: int, *, simulate: bool = False) -> Compute:
    return Compute(nodes, per_node, kind, simulate)


def refused(compute: Compute, nodes: list[ListedNode], options: RayOptions = SHARED) -> CapacityError:
    with pytest.raises(CapacityError) as caught:
        check(compute, nodes, options, url=URL)
    return caught.value


@pytest.mark.parametrize(
    ("compute", "options", "expected"),
    [
        (asked(2, "CPU_4xCORE", 4), RayOptions(), {"CPU": 4.0}),
        (asked(2, "GPU_2xANY", 2), RayOptions(), {"GPU": 2.0, "CPU": 2.0}),
        (asked(2, "GPU_8xH100", 8), RayOptions(), {"GPU": 8.0, "CPU": 8.0, "accelerator_type:H100": 0.001}),
        (asked(1, "h100_80gb", 4), RayOptions(), {"GPU": 4.0, "CPU": 4.0, "accelerator_type:H100": 0.001}),
        (asked(1, "GPU_2xANY", 2), RayOptions(cpus_per_accelerator=0), {"GPU": 2.0}),
        (asked(1, "GPU_2xANY", 2), RayOptions(cpus_per_accelerator=12), {"GPU": 2.0, "CPU": 24.0}),
        (asked(1, "CPU_2xCORE", 2), RayOptions(cpus_per_accelerator=12), {"CPU": 2.0}),
        (
            asked(1, "GPU_1xA10", 1),
            RayOptions(accelerators={"A10": "A10G"}),
            {"GPU": 1.0, "CPU": 1.0, "accelerator_type:A10G": 0.001},
        ),
        (asked(1, "GPU_8xH100", 8, simulate=True), RayOptions(), {"CPU": 1.0}),
        (asked(1, "CPU_2xCORE", 2), RayOptions(resources={"fast_disk": 1.0}), {"CPU": 2.0, "fast_disk": 1.0}),
    ],
)
def test_a_bundle_is_what_one_node_must_have(compute: Compute, options: RayOptions, expected: dict[str, float]) -> None:
    assert bundle(compute, options) == expected


def test_a_run_that_fits_is_told_where_it_goes() -> None:
    lines = check(asked(2, "GPU_2xANY", 2), [gpus(1), gpus(2), gpus(3)], SHARED, url=URL)
    assert lines == (f"2 nodes with 2 GPUs, 2 CPUs; the Ray cluster at {URL} has 3 like that",)
    lines = check(asked(1, "CPU_1xCORE", 1), [gpus(1)], SHARED, url=URL)
    assert lines == (f"1 node with 1 CPU; the Ray cluster at {URL} has 1 like that",)


def test_without_shared_storage_people_are_told_where_checkpoints_stay() -> None:
    assert "storage in the profile" in check(asked(1, "CPU_1xCORE", 1), [gpus(1)], RayOptions(), url=URL)[-1]


def test_too_many_nodes_are_refused_with_the_numbers_and_what_would_fit() -> None:
    error = refused(asked(4, "GPU_2xANY", 2), [gpus(1), gpus(2), gpus(3)])
    assert error.message == f"The Ray cluster at {URL} has 3 nodes with 2 GPUs, 2 CPUs (asked for: 4)"
    assert error.hint == "use num_accelerators: 6 or fewer; its nodes: 3 nodes with 2 GPUs, 2 CPUs"


def test_too_much_for_any_node_is_refused_with_what_nodes_have() -> None:
    error = refused(asked(1, "GPU_8xANY", 8), [gpus(1), gpus(2, 4, 16)])
    assert error.message == f"The Ray cluster at {URL} has no node with 8 GPUs, 8 CPUs (asked for: 1)"
    assert error.hint == "its nodes: 1 node with 2 GPUs, 2 CPUs; 1 node with 4 GPUs, 16 CPUs"


def test_one_large_node_is_not_several() -> None:
    error = refused(asked(2, "GPU_2xANY", 2), [gpus(1, 8, 64)])
    assert "has 1 node with 2 GPUs, 2 CPUs (asked for: 2)" in error.message


def test_dead_nodes_hold_nothing() -> None:
    dead = ListedNode("id9", "n9", "10.0.0.9", False, False, gpus(9).total, "health check failed")
    assert "has 1 node with" in refused(asked(2, "GPU_2xANY", 2), [gpus(1), dead]).message
    error = refused(asked(2, "GPU_2xANY", 2), [dead])
    assert error.message == f"The Ray cluster at {URL} has no living node (asked for: 2 nodes with 2 GPUs, 2 CPUs)"


def test_another_model_is_refused_with_both_ways_to_take_it() -> None:
    error = refused(asked(1, "GPU_1xA10", 1), [gpus(1, model="A10G")])
    assert "no node with 1 × A10, 1 CPU" in error.message
    assert "GPU_1xANY takes GPUs of any model" in str(error.hint)
    assert 'accelerators = { A10 = "A10G" }' in str(error.hint)
    assert "1 node with 2 × A10G, 2 CPUs" in str(error.hint)
    check(asked(1, "GPU_1xA10", 1), [gpus(1, model="A10G")], RayOptions(accelerators={"A10": "A10G"}), url=URL)
    check(asked(1, "GPU_1xANY", 1), [gpus(1, model="A10G")], RayOptions(), url=URL)


def test_gpus_without_a_model_fit_any_alone() -> None:
    error = refused(asked(1, "GPU_1xH100", 1), [gpus(1)])
    assert "GPU_1xANY takes GPUs of any model; Ray does not tell the model" in str(error.hint)


def test_in_a_mixed_cluster_the_model_decides() -> None:
    mixed = [gpus(1, model="H100"), gpus(2, model="A100"), gpus(3, model="H100")]
    check(asked(2, "GPU_1xH100", 2), mixed, SHARED, url=URL)
    assert "has 2 nodes with 2 × H100" in refused(asked(3, "GPU_1xH100", 2), mixed).message


def test_gpu_nodes_without_cpus_are_explained() -> None:
    error = refused(asked(1, "GPU_2xANY", 2), [gpus(1, cpus=0)])
    assert "cpus_per_accelerator" in str(error.hint)
    check(asked(1, "GPU_2xANY", 2), [gpus(1, cpus=0)], RayOptions(cpus_per_accelerator=0), url=URL)


def test_a_cluster_without_gpus_suggests_to_simulate_them() -> None:
    assert "--simulate" in str(refused(asked(1, "GPU_8xH100", 8), [node(1, CPU=4)]).hint)
    check(asked(1, "GPU_8xH100", 8, simulate=True), [node(1, CPU=4)], SHARED, url=URL)


def test_a_resource_that_only_some_nodes_have_counts() -> None:
    options = RayOptions(resources={"fast_disk": 1.0})
    nodes = [node(1, CPU=4, fast_disk=1), node(2, CPU=4)]
    check(asked(1, "CPU_1xCORE", 1), nodes, options, url=URL)
    assert "1 CPU, 1 × fast_disk (asked for: 2)" in refused(asked(2, "CPU_1xCORE", 1), nodes, options).message


def test_a_cluster_that_grows_refuses_nothing_and_says_what_is_waited_for() -> None:
    lines = check(asked(4, "GPU_2xANY", 2), [gpus(1)], RayOptions(autoscales=True), url=URL)
    assert "the run waits until the cluster has grown by 3 nodes" in lines
    assert missing_words({"GPU": 2.0}, 4, [gpus(1).total]) == "the Ray cluster has 1 node with 2 GPUs (asked for: 4)"
    assert missing_words({"GPU": 8.0}, 1, [gpus(1).total]) == "the Ray cluster has no node with 8 GPUs (asked for: 1)"
    assert missing_words({"GPU": 2.0}, 1, [gpus(1).total]) is None


def test_waiting_names_how_many_nodes_are_free_and_how_many_are_wanted() -> None:
    need = {"GPU": 2.0, "CPU": 2.0}
    total = gpus(1).total
    busy, free = {"GPU": 1.0, "CPU": 2.0}, {"GPU": 2.0, "CPU": 2.0}
    assert waiting_words(need, 2, [(total, busy), (total, free), (total, {})]) == (
        "1 of 3 nodes with 2 GPUs, 2 CPUs is free; asked for 2"
    )
    assert waiting_words(need, 2, [(total, busy)] * 2) == "0 of 2 nodes with 2 GPUs, 2 CPUs are free; asked for 2"
    assert waiting_words(need, 1, [(total, free), (total, busy)]) == (
        "1 node with 2 GPUs, 2 CPUs is free: Ray is setting them aside"
    )


def test_what_ray_rounds_still_fits() -> None:
    assert missing_words({"CPU": 2.0}, 1, [{"CPU": 1.9999999}]) is None
    assert missing_words({"CPU": 2.0}, 1, [{"CPU": 1.9999}]) is not None


def test_a_long_list_of_shapes_is_cut() -> None:
    told = shapes([node(number, CPU=number) for number in range(1, 20)])
    assert len(told) == 6
    assert told[-1] == "14 other kinds of nodes"
    assert shapes([node(1)]) == ("1 node with nothing",)


class Answering(Dashboard):
    """A dashboard that says one thing."""

    def __init__(self, said: Any) -> None:
        super().__init__(URL)
        self._said = said

    def get_json(self, path: str) -> Any:
        assert path.startswith("/api/v0/nodes?"), path
        assert "limit=10000" in path
        return self._said


def row(**changed: Any) -> dict[str, Any]:
    return {
        "node_id": "abc",
        "node_ip": "10.0.0.1",
        "is_head_node": True,
        "state": "ALIVE",
        "state_message": None,
        "node_name": "lab-0",
        "resources_total": {"CPU": 2.0, "GPU": 2.0, "accelerator_type:H100": 1.0},
        "labels": {},
        **changed,
    }


def listed(*rows: dict[str, Any]) -> tuple[ListedNode, ...]:
    return read_nodes(Answering({"data": {"result": {"total": len(rows), "result": list(rows)}}}))


def test_the_list_of_nodes_is_read() -> None:
    (found,) = listed(row())
    assert found == ListedNode(
        "abc", "lab-0", "10.0.0.1", True, True, {"CPU": 2.0, "GPU": 2.0, "accelerator_type:H100": 1.0}
    )
    assert found.model == "H100"


def test_what_a_row_leaves_open_is_no_obstacle() -> None:
    nodes = listed(row(node_id=None), row(resources_total=None, node_name="", is_head_node=None, state="DEAD"))
    assert nodes == (ListedNode("abc", "10.0.0.1", "10.0.0.1", False, False, {}),)
    assert nodes[0].model is None


@pytest.mark.parametrize("said", [None, [], {"data": None}, {"data": {"result": {"result": [{"node_id": "x"}]}}}])
def test_an_answer_of_another_form_is_an_error_and_no_empty_cluster(said: Any) -> None:
    with pytest.raises(BackendError, match="cannot be read") as caught:
        read_nodes(Answering(said))
    assert caught.value.hint

"""How a cluster is shared out among workers."""

from __future__ import annotations

from typing import Any

import pytest
from recipes.engine.cluster import Cluster, Share, contradictions, share
from recipes.errors import RecipeError


@pytest.fixture(autouse=True)
def no_world_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def node(cpus: float, gpus: float = 0, *, alive: bool = True) -> dict[str, Any]:
    return {"Alive": alive, "Resources": {"CPU": cpus, **({"GPU": gpus} if gpus else {})}}


def test_without_gpus_and_a_word_there_is_one_worker_with_all_cores() -> None:
    assert share(Cluster(), [node(8)]) == Share(workers=1, least=1, cpus=8, gpu=False)


def test_each_gpu_has_a_worker_and_its_share_of_the_cores() -> None:
    assert share(Cluster(), [node(96, 8), node(96, 8)]) == Share(workers=16, least=16, cpus=12, gpu=True)


def test_the_run_says_how_many_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert share(Cluster(), [node(2)]) == Share(workers=2, least=2, cpus=1, gpu=False)
    assert share(Cluster(workers=1), [node(2)]).workers == 1


def test_cores_are_shared_out_so_that_all_workers_have_room() -> None:
    assert share(Cluster(workers=3), [node(3), node(3)]).cpus == 1
    assert share(Cluster(workers=2), [node(3), node(3)]).cpus == 3


def test_a_dead_node_counts_for_nothing() -> None:
    with pytest.raises(RecipeError, match=r"cluster\.workers=4: the cluster has room for 2 \(2 GPUs and 16 CPUs, "):
        share(Cluster(workers=4, cpus_per_worker=8), [node(16, 2), node(16, 2, alive=False)])


def test_an_elastic_training_needs_room_for_the_least() -> None:
    assert share(Cluster(workers=8, min_workers=2), [node(4, 4)]) == Share(workers=8, least=2, cpus=2, gpu=True)
    with pytest.raises(RecipeError, match=r"cluster\.min_workers=5: the cluster has room for 4"):
        share(Cluster(workers=8, min_workers=5), [node(4, 4)])


def test_settings_without_workers_are_refused() -> None:
    assert [*contradictions(Cluster())] == []
    wrong = Cluster(workers=2, min_workers=4, cpus_per_worker=0, max_failures=-1)
    assert [*contradictions(wrong)] == [
        "cluster.cpus_per_worker=0 has to be 1 or more",
        "cluster.max_failures=-1 has to be 0 or more",
        "cluster.min_workers=4 is more than cluster.workers=2",
    ]

"""A rank's variables, under torchrun's names."""

from __future__ import annotations

from airlane.ranks.rank_map import RankMap
from airlane.ranks.variables import Generation, rank_variables

from .made import mapped, settings

GENERATION = Generation(number=2, restarts=1, address="10.0.0.1", port=29500)


def variables(ranks: RankMap, rank: int, **fields: object) -> dict[str, str]:
    return rank_variables(ranks.places[rank], ranks, GENERATION, settings(**fields), "run-1")


def test_a_rank_finds_what_it_finds_under_torchrun() -> None:
    found = variables(mapped(("0", "1"), ("0", "1")), 3, max_restarts=4, role="trainer")
    assert found == {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "ROLE_NAME": "trainer",
        "ROLE_RANK": "3",
        "ROLE_WORLD_SIZE": "4",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RESTART_COUNT": "1",
        "TORCHELASTIC_MAX_RESTARTS": "4",
        "TORCHELASTIC_RUN_ID": "run-1",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NODE_RANK": "1",
        "NUM_NODES": "2",
        "AIR_RANKS_GENERATION": "2",
    }


def test_ranks_of_a_node_see_all_its_gpus_and_find_their_own_by_the_local_rank() -> None:
    ranks = mapped(("GPU-b", "GPU-a"))
    found = [variables(ranks, rank) for rank in (0, 1)]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in found] == ["GPU-a,GPU-b"] * 2
    assert [each["LOCAL_RANK"] for each in found] == ["0", "1"]
    assert "CUDA_DEVICE_ORDER" not in found[0]


def test_with_a_virtual_local_rank_each_sees_its_own_gpu_alone() -> None:
    ranks = mapped(("4", "5"))
    found = [variables(ranks, rank, virtual_local_rank=True) for rank in (0, 1)]
    assert [(each["LOCAL_RANK"], each["CUDA_VISIBLE_DEVICES"]) for each in found] == [("0", "4"), ("0", "5")]


def test_ranks_without_gpus_are_told_that_there_are_none() -> None:
    ranks = mapped((), ranks_per_node=2)
    assert variables(ranks, 1)["CUDA_VISIBLE_DEVICES"] == ""
    assert variables(ranks, 1, virtual_local_rank=True)["LOCAL_RANK"] == "1"


def test_what_the_user_has_set_is_kept_and_what_the_launcher_owns_is_not_given_away() -> None:
    ranks = mapped(("0", "1"))
    assert "OMP_NUM_THREADS" not in variables(ranks, 0, sent={"OMP_NUM_THREADS": "8"})
    found = variables(ranks, 0, env={"OMP_NUM_THREADS": "4", "RANK": "77"})
    assert (found["OMP_NUM_THREADS"], found["RANK"]) == ("4", "0")


def test_a_rank_that_is_alone_may_use_every_core() -> None:
    assert "OMP_NUM_THREADS" not in variables(mapped(("0",)), 0)

"""What a cluster can hold: that of the lab, two idle nodes and a dead one with 8 CPUs, 4000 MB and 2 GPUs each."""

from __future__ import annotations

from typing import Any

import pytest

from airlane.backends.base import Compute, NodeSize
from airlane.backends.slurm.capacity import check, max_time_s, node_size
from airlane.backends.slurm.cluster import read_gres, read_groups
from airlane.backends.slurm.options import read_options
from airlane.errors import AirError, CapacityError, ConfigError, SlurmUnavailableError
from unit.backends.slurm.answers import PARTITIONS, REFUSED, failed, lab_cluster, said

SHAPE = "its nodes: gpu:2, 8 CPUs, 4000 MB"


@pytest.mark.parametrize(
    ("options", "compute", "lines"),
    [
        (
            {"cpus_per_accelerator": 4},
            Compute(1, 2, "GPU_2xH100"),
            ("2 × H100 on 1 node of Slurm's partition gpu (2 of 3 free now)",),
        ),
        (
            {},
            Compute(1, 2, "GPU_2xH100"),
            (
                "2 × H100 on 1 node of Slurm's partition gpu (2 of 3 free now)",
                "the cluster's default says how many CPUs it gets: cpus_per_accelerator = 4 takes a fair share",
            ),
        ),
        ({}, Compute(1, 1, "CPU_1xCORE"), ("1 CPU core on 1 node of Slurm's partition gpu (2 of 3 free now)",)),
        (
            {},
            Compute(3, 2, "CPU_2xCORE"),
            (
                "6 CPU cores on 3 nodes of Slurm's partition gpu (2 of 3 free now)",
                "only 2 nodes that could hold it are up: it waits for others",
            ),
        ),
        (
            {"exclude": "scan1"},
            Compute(2, 2, "CPU_2xCORE"),
            (
                "4 CPU cores on 2 nodes of Slurm's partition gpu (1 of 2 free now)",
                "only 1 node that could hold it is up: it waits for others",
            ),
        ),
        (
            {"partition": "small", "time": "1:00:00"},
            Compute(1, 2, "CPU_2xCORE"),
            (
                "2 CPU cores on 1 node of Slurm's partition small (2 of 3 free now)",
                "partition small ends runs after 00:10:00",
            ),
        ),
        (
            {},
            Compute(1, 8, "GPU_8xH100", simulate=True),
            ("8 × simulated H100 on 1 node of Slurm's partition gpu (2 of 3 free now)",),
        ),
        (
            {"partition": "off,gpu", "memory_per_node": "3G"},
            Compute(1, 1, "CPU_1xCORE"),
            ("1 CPU core on 1 node of Slurm's partition gpu (2 of 3 free now)",),
        ),
    ],
)
def test_a_run_that_fits_is_told_where(options: dict[str, Any], compute: Compute, lines: tuple[str, ...]) -> None:
    assert check(compute, read_options(options), lab_cluster()) == lines


@pytest.mark.parametrize(
    ("options", "compute", "kind", "message", "hint"),
    [
        (
            {},
            Compute(1, 8, "GPU_8xH100"),
            CapacityError,
            "no node of Slurm's partition 'gpu' can hold the run (asked for: 1 node with gpu:8)",
            SHAPE,
        ),
        (
            {"accelerators": {"H100": "gpu:h100"}},
            Compute(1, 1, "GPU_1xH100"),
            CapacityError,
            "no node of Slurm's partition 'gpu' can hold the run (asked for: 1 node with gpu:h100:1)",
            f'{SHAPE}; a model is named by accelerators = {{ H100 = "gpu:NAME" }} in the profile',
        ),
        (
            {"memory_per_node": "200G"},
            Compute(1, 1, "CPU_1xCORE"),
            CapacityError,
            "no node of Slurm's partition 'gpu' can hold the run (asked for: 1 node with 1 CPU, 204800 MB of memory)",
            SHAPE,
        ),
        (
            {},
            Compute(5, 2, "CPU_2xCORE"),
            CapacityError,
            "Slurm's partition 'gpu' has 3 nodes like that (asked for: 5 nodes with 2 CPUs)",
            "use num_accelerators: 6 or fewer",
        ),
        (
            {"partition": "small"},
            Compute(2, 2, "CPU_2xCORE"),
            CapacityError,
            "Slurm's partition 'small' has 1 node like that for one run (asked for: 2 nodes with 2 CPUs)",
            "use num_accelerators: 2 or fewer",
        ),
        (
            {"exclude": "scan[1-3]"},
            Compute(1, 1, "CPU_1xCORE"),
            CapacityError,
            "no node of Slurm's partition 'gpu' can hold the run (asked for: 1 node with 1 CPU)",
            "its nodes: none",
        ),
        (
            {"partition": "off"},
            Compute(1, 1, "CPU_1xCORE"),
            ConfigError,
            "Slurm's partition 'off' is closed",
            "sinfo shows those that are up; set partition",
        ),
        (
            {"partition": "smal"},
            Compute(1, 1, "CPU_1xCORE"),
            ConfigError,
            "the cluster has no partition 'smal'",
            "Did you mean `small`? partitions: gpu, small, off",
        ),
    ],
)
def test_a_run_that_never_fits_is_refused_with_what_there_is(
    options: dict[str, Any], compute: Compute, kind: type[AirError], message: str, hint: str
) -> None:
    with pytest.raises(kind) as caught:
        check(compute, read_options(options), lab_cluster())
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("gres", "told"),
    [
        ("gpu:a100:4", ("its accelerators are gpu:a100 (the file says H100)",)),
        ("gpu:nvidia_h100_80gb_hbm3:4", ()),
        ("gpu:4", ()),
    ],
)
def test_accelerators_of_another_model_are_told(gres: str, told: tuple[str, ...]) -> None:
    slurm = lab_cluster(sinfo=said(f"2|8|4000|idle|{gres}|scan[1-2]\n"))
    lines = check(Compute(1, 4, "GPU_8xH100"), read_options({"cpus_per_node": 8}), slurm)
    assert lines[1:] == told


def test_a_cluster_without_a_default_partition_asks_for_one() -> None:
    slurm = lab_cluster(scontrol_partition=said(PARTITIONS.replace("Default=YES", "Default=NO")))
    with pytest.raises(ConfigError) as caught:
        check(Compute(1, 1, "CPU_1xCORE"), read_options({}), slurm)
    assert caught.value.message == "the cluster has no default partition"
    assert caught.value.hint == "set partition in the profile; partitions: gpu, small, off"


def test_slurm_that_does_not_answer_is_no_refusal() -> None:
    with pytest.raises(SlurmUnavailableError):
        check(Compute(1, 1, "CPU_1xCORE"), read_options({}), lab_cluster(scontrol_partition=failed(REFUSED)))


@pytest.mark.parametrize(
    ("partition", "limit_s"), [(None, None), ("small", 600), ("small,off", 86400), ("small,gpu", None)]
)
def test_the_longest_limit_of_the_partitions_counts(partition: str | None, limit_s: int | None) -> None:
    options = read_options({"partition": partition} if partition else {})
    assert max_time_s(options, lab_cluster()) == limit_s


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("(null)", {}),
        ("gpu:2", {"gpu": 2}),
        ("gpu:h100:8(S:0-1),nvme:1", {"gpu:h100": 8, "nvme": 1}),
        ("gpu:h100:4,gpu:a100:4", {"gpu:h100": 4, "gpu:a100": 4}),
        ("gpu:h100:4(S:0),gpu:h100:4(S:1)", {"gpu:h100": 8}),
        ("bandwidth:lustre:no_consume:4G", {"bandwidth:lustre:no_consume": 4 * 2**30}),
        ("craynetwork", {"craynetwork": 1}),
    ],
)
def test_the_gres_of_a_node_are_counted_by_name(text: str, counts: dict[str, int]) -> None:
    assert read_gres(text) == counts


def test_plain_gpu_counts_every_type_of_it() -> None:
    (group,) = read_groups("4|64|500000|mixed+drain|gpu:h100:4,gpu:a100:2|gpu[1-4]\n")
    assert (group.has("gpu"), group.has("gpu:h100"), group.has("gpu:b300")) == (6, 4, 0)
    assert not group.fit


def test_a_whole_node_is_what_so_many_nodes_have() -> None:
    assert node_size(2, read_options({}), lab_cluster()) == NodeSize(gpus=2, cpus=8)
    mixed = (
        "2|64|500000|idle|gpu:h100:8|gpu[1-2]\n4|128|500000|idle|(null)|cpu[1-4]\n1|64|500000|down|gpu:h100:8|gpu3\n"
    )
    cluster = lab_cluster(sinfo=said(mixed))
    assert node_size(2, read_options({}), cluster) == NodeSize(gpus=8, cpus=64)
    assert node_size(3, read_options({}), cluster) == NodeSize(gpus=0, cpus=128)
    with pytest.raises(CapacityError, match=r"the cluster has 6 nodes that are fit for a run \(asked for: 7\)"):
        node_size(7, read_options({}), cluster)

"""What the local backend says this machine has, and what it refuses."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airlane.backends import local
from airlane.backends.base import Compute, NodeSize
from airlane.backends.local import LocalBackend, visible_gpus
from airlane.backends.registry import BACKENDS, make_backend
from airlane.errors import CapacityError, ConfigError
from airlane.launch import cores, nvml
from airlane.launch.nvml import Gpu
from airlane.store.paths import Home


def _gpu(index: int, name: str = "NVIDIA H100 80GB HBM3") -> Gpu:
    return Gpu(index, name, f"GPU-{index}{index}aa-bb", 80 * 2**30, 0, 0.0, None, None)


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalBackend:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(6)), raising=False)
    monkeypatch.setattr(cores, "quota_cores", lambda: None)
    return LocalBackend(Home(tmp_path / "home"), {})


def _has_gpus(monkeypatch: pytest.MonkeyPatch, *found: Gpu) -> None:
    monkeypatch.setattr(nvml, "gpus", lambda: found)


def test_cores_that_fit_are_told(backend: LocalBackend) -> None:
    assert backend.check(Compute(1, 1, "CPU_1xCORE")) == ("1 core on this machine",)
    assert backend.check(Compute(2, 3, "CPU_3xCORE")) == ("6 cores on this machine",)


def test_nodes_may_share_the_cores_but_one_node_must_fit(backend: LocalBackend) -> None:
    assert backend.check(Compute(4, 6, "CPU_6xCORE")) == ("4 nodes share this machine's 6 cores",)
    with pytest.raises(CapacityError) as caught:
        backend.check(Compute(1, 7, "CPU_7xCORE"))
    assert caught.value.message == "This machine has 6 cores (asked for: 7 on each node)."
    assert caught.value.hint == "use accelerator_type: CPU_6xCORE, or --simulate"


def test_gpus_of_a_faked_driver_that_fit_are_told(backend: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    _has_gpus(monkeypatch, *map(_gpu, range(8)))
    assert backend.check(Compute(1, 8, "GPU_8xH100")) == ("8 × H100 on this machine",)
    assert backend.check(Compute(1, 8, "GPU_8xA100")) == (
        "8 × NVIDIA H100 80GB HBM3 on this machine (the file says A100)",
    )


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        (0, "This machine has no GPU (asked for: 8 × H100)."),
        (2, "This machine has 2 × NVIDIA H100 80GB HBM3 (asked for: 8 × H100)."),
    ],
)
def test_gpus_of_a_faked_driver_that_can_never_fit_are_refused(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, gpus: int, message: str
) -> None:
    _has_gpus(monkeypatch, *map(_gpu, range(gpus)))
    with pytest.raises(CapacityError) as caught:
        backend.check(Compute(1, 8, "GPU_8xH100"))
    assert caught.value.message == message
    assert caught.value.hint == "try it without GPUs: add --simulate; or run it on a cluster: -p PROFILE"


@pytest.mark.parametrize(
    ("visible", "indexes"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("0,2", [0, 2]),
        (" 1 ", [1]),
        ("GPU-22aa", [2]),
        ("GPU-00aa-bb,GPU-11aa-bb", [0, 1]),
        ("-1", []),
        ("7", []),
        ("NoDevFiles", []),
        ("0,-1,1", [0]),  # CUDA ignores what comes after a name it does not know
        ("0,nonsense,1", [0]),
    ],
)
def test_cuda_visible_devices_says_which_gpus_of_a_faked_driver_count(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, indexes: list[int]
) -> None:
    _has_gpus(monkeypatch, *map(_gpu, range(3)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.index for gpu in visible_gpus()] == indexes


def test_simulated_accelerators_are_limited_by_an_option(tmp_path: Path) -> None:
    backend = LocalBackend(Home(tmp_path), {"simulated_slots": 8})
    assert backend.check(Compute(1, 8, "GPU_8xH100", simulate=True)) == ("8 simulated accelerators on this machine",)
    with pytest.raises(CapacityError, match=r"16 simulated accelerators are more than .* \(8\)"):
        backend.check(Compute(2, 8, "GPU_8xH100", simulate=True))


def test_checking_changes_nothing(backend: LocalBackend, tmp_path: Path) -> None:
    backend.check(Compute(1, 1, "CPU_1xCORE"))
    backend.check(replace(Compute(1, 8, "GPU_8xH100"), simulate=True))
    assert list(tmp_path.iterdir()) == []


def test_gpus_have_one_pool_for_the_whole_machine_whatever_tmpdir_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/scratch/me")
    assert Path("/tmp/airlane-gpus") == local.GPU_POOL


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slots": 1}, "the local backend has no option 'slots'"),
        ({"simulated_slots": "8"}, "simulated_slots must be a whole number above 0, not '8'"),
        ({"simulated_slots": True}, "simulated_slots must be a whole number above 0, not True"),
        ({"simulated_slots": 0}, "simulated_slots must be a whole number above 0, not 0"),
    ],
)
def test_a_wrong_option_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_backend("local", Home(tmp_path), options)
    assert caught.value.message == message


def test_an_unknown_backend_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no backend 'cloud'") as caught:
        make_backend("cloud", Home(tmp_path), {})
    assert caught.value.hint == f"backends: {', '.join(BACKENDS)}"


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_of_the_registry_can_be_made_and_knows_its_name(tmp_path: Path, name: str) -> None:
    assert make_backend(name, Home(tmp_path), {}).name == name


def test_several_nodes_share_the_machine_and_one_has_all_of_it(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    _has_gpus(monkeypatch, *map(_gpu, range(4)))
    assert backend.node_size(1) == NodeSize(gpus=4, cpus=6)
    assert backend.node_size(4) == NodeSize(gpus=1, cpus=1)
    assert backend.node_size(50) == NodeSize(gpus=0, cpus=1)


def test_gpus_of_any_model_will_do_where_the_file_says_so(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    _has_gpus(monkeypatch, *map(_gpu, range(4)))
    assert backend.check(Compute(1, 4, "GPU_4xANY")) == ("4 × NVIDIA H100 80GB HBM3 on this machine",)
    with pytest.raises(CapacityError, match=r"4 × NVIDIA H100 80GB HBM3 \(asked for: 8 × GPU\)"):
        backend.check(Compute(1, 8, "GPU_8xANY"))

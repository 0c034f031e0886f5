"""What a node says of itself before it gets an order."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from airlane.launch import member
from airlane.launch.cores import usable_cores
from airlane.launch.interface import is_own
from airlane.launch.member import hello


def test_slurms_variables_are_what_is_told(tmp_path: Path) -> None:
    told = hello(
        {
            "SLURMD_NODENAME": "gpu-b1",
            "SLURM_STEP_ID": "3",
            "SLURM_CPUS_PER_TASK": "1",
            "CUDA_VISIBLE_DEVICES": "0,GPU-8f",
        },
        str(tmp_path),
    )
    assert (told["host"], told["step"], told["cores"]) == ("gpu-b1", "3", 1)
    assert told["devices"] == ["0", "GPU-8f"]
    assert told["shared"] is True
    assert abs(told["time"] - time.time()) < 60
    assert 20_000 <= told["port"] < 30_000


def test_a_node_without_slurms_variables_says_what_it_is(tmp_path: Path) -> None:
    told = hello({}, str(tmp_path / "not there"))
    assert told["host"] == os.uname().nodename
    assert (told["devices"], told["step"], told["shared"]) == ([], None, False)
    assert told["cores"] == usable_cores()


@pytest.mark.parametrize("devices", ["", "0", "0,1", ",", "0,"])
def test_the_visible_devices_are_taken_apart(tmp_path: Path, devices: str) -> None:
    told = hello({"CUDA_VISIBLE_DEVICES": devices}, str(tmp_path))
    assert told["devices"] == [name for name in ("0", "1") if name in devices]


@pytest.mark.parametrize("launcher", [None, "127.0.0.1", "no such host.invalid", "", "fe80::1"])
def test_the_address_is_one_of_this_machine_whatever_is_known_of_the_launcher(
    tmp_path: Path, launcher: str | None
) -> None:
    environ = {} if launcher is None else {"SLURM_LAUNCH_NODE_IPADDR": launcher}
    assert is_own(hello(environ, str(tmp_path))["address"])


def test_a_machine_with_nothing_but_loopback_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member, "reachable_address", lambda _towards=None: None)
    assert hello({}, str(tmp_path))["address"] == "127.0.0.1"

"""How Ray is started on a node, without starting it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airlane.launch import ray_daemons
from airlane.launch.ray_daemons import Daemons, RayFailedError, base_environment, primary_address, tail
from airlane.launch.ray_ports import take_block
from airlane.launch.ray_settings import RaySettings

SETTINGS = RaySettings(
    folder="/runs/x/ray",
    command_file="/runs/x/command.sh",
    hosts=("alpha", "alpha", "beta"),
    addresses=("10.0.0.1", "10.0.0.1", "10.0.0.2"),
    gpus_per_node=8,
    cpus_per_node=None,
    object_store_bytes=None,
    ready_timeout_s=60.0,
    public=False,
)


@pytest.fixture(autouse=True)
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", "/tmp/air-x-0-0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7")
    monkeypatch.setattr(ray_daemons, "granted_cores", lambda _environ: 64)


def options(settings: RaySettings, rank: int, head: str | None = None) -> dict[str, str]:
    daemons = Daemons(settings, rank, lambda: False)
    ports = take_block()
    ports.give_back()
    words = daemons._arguments(ports, head)
    return dict(word.removeprefix("--").partition("=")[::2] for word in words)


def test_a_head_keeps_its_dashboard_to_itself_and_a_worker_joins_it() -> None:
    head, worker = options(SETTINGS, 0), options(SETTINGS, 2, "10.0.0.1:20000")
    assert head["dashboard-host"] == "127.0.0.1"
    assert "disable-usage-stats" in head
    assert (worker["address"], worker["node-ip-address"], worker["node-name"]) == (
        "10.0.0.1:20000",
        "10.0.0.2",
        "node-2",
    )
    assert not {"head", "port", "dashboard-port", "ray-client-server-port"} & worker.keys()
    assert options(replace(SETTINGS, public=True), 0)["dashboard-host"] == "0.0.0.0"  # noqa: S104 - what is tested


def test_nodes_of_one_host_share_its_cores() -> None:
    assert options(SETTINGS, 0)["num-cpus"] == "32"
    assert options(SETTINGS, 2, "10.0.0.1:20000")["num-cpus"] == "64"
    assert options(replace(SETTINGS, cpus_per_node=4), 0)["num-cpus"] == "4"


@pytest.mark.parametrize(("visible", "gpus"), [("0,1", "2"), ("", "0"), ("GPU-a,GPU-b,GPU-c", "3")])
def test_ray_is_told_of_no_more_gpus_than_are_visible(monkeypatch: pytest.MonkeyPatch, visible: str, gpus: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert options(SETTINGS, 0)["num-gpus"] == gpus


def test_nodes_of_this_machine_have_loopback_addresses_of_their_own() -> None:
    local = replace(SETTINGS, addresses=("127.0.0.1",) * 3)
    assert [Daemons(local, rank, lambda: False).address for rank in range(3)] == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
    assert Daemons(replace(local, public=True), 1, lambda: False).address == primary_address()


@pytest.mark.parametrize(
    ("given", "name", "expected"),
    [
        ({"RAY_AUTH_TOKEN": "another cluster's"}, "RAY_AUTH_TOKEN", None),
        ({"RAY_ADDRESS": "elsewhere:6379"}, "RAY_ADDRESS", None),
        ({"RAY_DEDUP_LOGS": "1"}, "RAY_DEDUP_LOGS", "1"),
        ({}, "RAY_DEDUP_LOGS", "0"),
        ({"RAY_AUTH_MODE": "disabled"}, "RAY_AUTH_MODE", "token"),
        ({}, "RAY_AUTH_TOKEN_PATH", "/runs/x/ray/token"),
    ],
)
def test_the_environment_leads_to_this_cluster_alone(given: dict[str, str], name: str, expected: Any) -> None:
    assert base_environment(SETTINGS, given).get(name) == expected


@pytest.mark.parametrize(
    ("said", "starts", "raises"),
    [
        ("Exception: The current node timed out during startup.", 2, False),
        ("Unable to connect to GCS", 1, True),
    ],
)
def test_a_node_that_was_too_slow_for_ray_is_started_again_and_a_broken_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, said: str, starts: int, raises: bool
) -> None:
    program = tmp_path / "ray"
    counted = tmp_path / "starts"
    first = f'[ "$(wc -l <"{counted}")" = 2 ] || {{ echo "{said}"; exit 1; }}'
    program.write_text(f'#!/bin/sh\necho x >>"{counted}"\n{first}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    daemons = Daemons(replace(SETTINGS, folder=str(tmp_path)), 2, lambda: False)
    try:
        daemons.start("10.0.0.1:20000", time.monotonic() + 60).give_back()
        assert not raises
    except RayFailedError:
        assert raises
    assert len(counted.read_text().splitlines()) == starts


def test_the_end_of_a_log_is_told_without_empty_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n\n" for number in range(30)))
    assert tail(str(log)) == [f"line {number}" for number in range(18, 30)]
    assert tail(str(tmp_path / "none")) == []

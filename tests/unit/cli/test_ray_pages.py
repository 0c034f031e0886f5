"""What `air ray` shows: compared whole, without a cluster."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from airlane.api.clusters import ClusterRequest
from airlane.cli.commands.ray import minutes
from airlane.cli.ray_pages import (
    allocated_line,
    cluster_facts,
    cluster_table,
    cluster_words,
    node_line,
    ready_page,
    status_page,
)
from airlane.cli.screen import PLAIN
from airlane.cluster.state import ClusterNode, ClusterState
from airlane.cluster.status import ClusterStatus, Demand, RayNode, Use
from airlane.spec.load import load_text
from airlane.store.records import Limits, RayRecord
from airlane.store.runs import RunView
from golden_text import check_golden

from .made_runs import NOW, running

STATE = ClusterState(
    ready=True,
    address="10.2.0.16:20304",
    client="10.2.0.16:20306",
    dashboard="127.0.0.1:20305",
    host="gpu-b16",
    nodes=(
        ClusterNode(0, "a", "gpu-b16", "10.2.0.16", 96, 8),
        ClusterNode(1, "b", "gpu-b17", "10.2.0.17", 96, 8),
    ),
)


def cluster_view(*, public: bool = False) -> RunView:
    view = running()
    limits = Limits(0, 14400.0, 30.0, 300.0)
    record = replace(view.record, nodes=2, ray=RayRecord(None, None, 600.0, public), limits=limits)
    return replace(view, record=record)


@pytest.mark.parametrize("public", [False, True])
def test_a_ready_cluster_says_how_it_is_used(*, public: bool) -> None:
    state = replace(STATE, dashboard="10.2.0.16:20305") if public else STATE
    page = ready_page(cluster_view(public=public), state)
    assert page.startswith("Ray cluster ready at 10.2.0.16:20304     16 GPUs, 192 CPUs\n")
    check_golden("ray_ready_public.txt" if public else "ray_ready.txt", page)


def test_the_commands_name_the_profile_that_was_named() -> None:
    page = ready_page(cluster_view(), STATE, profile="hpc")
    assert "air ray down -p hpc 7m0c2x1a" in page
    assert "air ray exec -p hpc --cluster 7m0c2x1a -- python train.py" in page


def test_the_status_shows_nodes_use_and_what_waits() -> None:
    nodes = (
        RayNode("node-1", "10.2.0.17", "DEAD", head=False, cpus=96, gpus=8, why="health check failed"),
        RayNode("node-0", "10.2.0.16", "ALIVE", head=True, cpus=96, gpus=8, why=None),
    )
    use = (Use("GPU", 4, 8), Use("CPU", 1.5, 96), Use("object_store_memory", 1e9, 2e11))
    status = ClusterStatus(nodes, use, (Demand(3, {"GPU": 8.0}),))
    check_golden("ray_status.txt", status_page(cluster_view(), STATE, status, PLAIN, NOW))


def test_the_list_says_how_far_each_is() -> None:
    joining = replace(STATE, ready=False, nodes=STATE.nodes[:1])
    rows = [(cluster_view(), STATE), (cluster_view(), joining), (cluster_view(), None)]
    assert [cluster_words(view, state) for view, state in rows] == ["ready", "1 of 2 nodes", "starting"]
    check_golden("ray_list.txt", cluster_table(rows, PLAIN, NOW))


def test_each_step_on_the_way_has_a_line() -> None:
    view = cluster_view()
    assert allocated_line(view, PLAIN).startswith("✓ allocated")
    assert node_line(0, "gpu-b16", "10.2.0.16:20304", PLAIN) == "✓ head        gpu-b16     10.2.0.16:20304"
    assert node_line(1, "gpu-b17", "10.2.0.17", PLAIN) == "✓ worker      gpu-b17     10.2.0.17"


def test_the_facts_of_a_cluster_are_json_and_hold_no_token() -> None:
    facts = json.loads(json.dumps(cluster_facts(cluster_view(), STATE)))
    assert (facts["ready"], facts["gpus"], facts["client_address"]) == (True, 16, "ray://10.2.0.16:20306")
    assert not any("token" in name for name in facts)
    assert "address" not in cluster_facts(cluster_view(), None)


@pytest.mark.parametrize(
    ("text", "expected"), [("4h", 240), ("90m", 90), ("90", 90), ("1d12h", 2160), ("1h30m", 90), ("2d", 2880)]
)
def test_a_time_is_read_in_days_hours_and_minutes(text: str, expected: int) -> None:
    assert minutes(text) == expected


@pytest.mark.parametrize("text", ["", "0", "0h", "4x", "h", "-1h", "1.5h"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a time such as 4h"):
        minutes(text)


@pytest.mark.parametrize(
    "request_",
    [
        ClusterRequest(2, "CPU_4xCORE", 4),
        ClusterRequest(2, "GPU_4xANY", 4, image="ghcr.io/me/ray:1", timeout_minutes=240, name="mine", public=True),
    ],
)
def test_what_up_asks_for_is_a_workload(request_: ClusterRequest, tmp_path: Path) -> None:
    workload = load_text(request_.workload_text(), file="up", base_dir=tmp_path).workload
    assert workload.ray is not None
    assert (workload.compute.nodes, workload.compute.accelerators_per_node) == (2, 4)
    assert (workload.max_retries, workload.timeout_minutes) == (0, request_.timeout_minutes)
    assert workload.ray.dashboard == ("public" if request_.public else "private")

"""Reading what a dashboard answers. The answers are those of Ray 2.60, shortened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airlane.cluster.state import read_state
from airlane.cluster.status import NODES, USAGE, Demand, Use, read_log_names, read_status


def row(name: str, *, state: str = "ALIVE", head: bool = False, cpus: float = 2.0) -> dict[str, Any]:
    return {
        "node_id": f"id-{name}",
        "node_ip": "10.0.0.1",
        "is_head_node": head,
        "state": state,
        "state_message": None if state == "ALIVE" else "health check failed",
        "node_name": name,
        "resources_total": {"CPU": cpus, "GPU": 1.0, "memory": 1e9, "object_store_memory": 5e8, "node:10.0.0.1": 1.0},
    }


def answers(rows: list[dict[str, Any]], report: dict[str, Any] | None) -> dict[str, Any]:
    return {
        NODES: {"data": {"result": {"total": len(rows), "result": rows}}},
        USAGE: {"data": {"clusterStatus": None if report is None else {"loadMetricsReport": report}}},
    }


def test_what_placement_groups_set_aside_is_no_resource() -> None:
    usage = {
        "CPU": [1.0, 2.0],
        "CPUGroup00Ff04Deddf8C": [0.0, 1.0],
        "bundleGroup0Ff04Deddf8C": [0.0, 1000.0],
        "node:InternalHead": [0.0, 1.0],
        "objectStoreMemory": [1e8, 5e8],
    }
    status = read_status(answers([row("node-0", head=True)], {"usage": usage}))
    assert status.use == (
        Use("GPU", 0.0, 1.0),
        Use("CPU", 1.0, 2.0),
        Use("memory", 0.0, 1e9),
        Use("object_store_memory", 1e8, 5e8),
    )


def test_a_dead_node_is_listed_and_offers_nothing() -> None:
    status = read_status(answers([row("node-0", head=True), row("node-1", state="DEAD")], {}))
    assert status.alive == 1
    assert [(node.name, node.state, node.why) for node in status.nodes] == [
        ("node-0", "ALIVE", None),
        ("node-1", "DEAD", "health check failed"),
    ]
    assert {use.resource: use.total for use in status.use}["CPU"] == 2.0


def test_what_waits_is_told_by_shape_groups_too() -> None:
    report = {
        "resourceDemand": [[{"CPU": 8.0}, 3]],
        "pgDemand": [[{"bundles": [[{"GPU": 1.0, "CPU": 2.0}, 4]], "strategy": "PACK"}, 1]],
    }
    status = read_status(answers([row("node-0")], report))
    assert status.demands == (Demand(3, {"CPU": 8.0}), Demand(1, {"GPU": 4.0, "CPU": 8.0}))


def test_a_cluster_without_a_report_yet_has_its_totals() -> None:
    status = read_status(answers([row("node-0")], None))
    assert Use("CPU", 0.0, 2.0) in status.use
    assert status.demands == ()


@pytest.mark.parametrize("answer", [{}, {NODES: {"data": {}}, USAGE: {"data": {}}}, {NODES: [], USAGE: []}])
def test_an_answer_of_another_form_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="in a form that is not known"):
        read_status(answer)


def test_the_names_of_logs_come_from_every_kind_once() -> None:
    answer = {"data": {"result": {"raylet": ["raylet.out", "raylet.err"], "internal": ["raylet.out", "x.log"]}}}
    assert read_log_names(answer) == ("raylet.err", "raylet.out", "x.log")


def test_a_cluster_whose_head_has_not_started_has_no_state(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    (tmp_path / "cluster.json").write_text('{"phase": "starting"}')
    assert read_state(tmp_path) is None


def test_the_state_adds_up_what_the_nodes_offer(tmp_path: Path) -> None:
    node = {"node": 0, "node_id": "a", "host": "alpha", "address": "10.0.0.1", "cpus": 4, "gpus": 2}
    fields = {
        "phase": "ready",
        "address": "10.0.0.1:20000",
        "client": "10.0.0.1:20002",
        "dashboard": "127.0.0.1:20001",
        "host": "alpha",
        "nodes": [node, {**node, "node": 1, "host": "beta"}],
    }
    (tmp_path / "cluster.json").write_text(json.dumps(fields))
    state = read_state(tmp_path)
    assert state is not None
    assert (state.ready, state.cpus, state.gpus) == (True, 8, 4)

"""What an agent's actor can do before anything of ours is on its node, and which of a node's files travel."""

from __future__ import annotations

import ast
import io
import sys
import tarfile
from pathlib import Path

import pytest

from airlane.backends.ray import agent
from airlane.backends.ray.agent import travels
from airlane.backends.ray.package import kit


def test_the_actors_class_needs_nothing_of_ours_to_arrive_on_a_node() -> None:
    """Ray carries it there by value, and our package comes after it."""
    tree = ast.parse(Path(agent.__file__).read_text(encoding="utf-8"))
    imported = {name.name for node in tree.body if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize(
    "path",
    [
        "attempts/2/nodes/1.log",
        "attempts/2/nodes/1.json",
        "attempts/2/nodes/1.metrics.jsonl",
        "attempts/2/ray/start-1.log",
    ],
)
def test_what_a_node_writes_goes_to_the_supervisor(path: str) -> None:
    assert travels(2, 1)(path)


@pytest.mark.parametrize(
    "path",
    [
        "attempts/2/nodes/1.order.json",
        "attempts/2/nodes/1.json.next",
        "attempts/2/nodes/0.log",
        "attempts/2/nodes/10.log",
        "attempts/1/nodes/1.log",
        "attempts/2/ray/cluster.json",
        "attempts/2/ray/start-0.log",
        "attempts/2/code/train.log",
        "private/0.json",
        "command.sh",
    ],
)
def test_what_others_write_and_what_is_secret_stays(path: str) -> None:
    assert not travels(2, 1)(path)


def test_the_first_node_tells_all_others_of_the_runs_own_cluster() -> None:
    assert travels(0, 0)("attempts/0/ray/cluster.json")


def test_what_removes_an_agents_files_is_in_what_every_agent_gets() -> None:
    with tarfile.open(fileobj=io.BytesIO(kit())) as archive:
        assert agent._AFTER in archive.getnames()

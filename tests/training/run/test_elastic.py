"""A training that goes on with the workers that a cluster still has room for."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .recipe_process import Recipe, ray_cluster

pytestmark = pytest.mark.long

TWO_NODES = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
for line in sys.stdin:
    cluster.remove_node(second, allow_graceful=False)
    print("lost", flush=True)
cluster.shutdown()
"""


@pytest.fixture
def two_nodes(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with ray_cluster(TWO_NODES, tmp_path / "ray.log") as found:
        yield found


def test_a_node_that_is_lost_for_good_leaves_fewer_workers_and_the_same_losses(
    two_nodes: tuple[str, subprocess.Popen[str]], tmp_path: Path
) -> None:
    address, nodes = two_nodes
    words = ("cluster.min_workers=1", "training.step_s=0.3", "training.steps=40")
    recipe = Recipe(tmp_path, address, *words)
    recipe.wait_for("step  8/40")
    assert "2 parameters, 40 steps, 2 workers (CPU)" in recipe.lines
    assert nodes.stdin is not None
    assert nodes.stdout is not None
    nodes.stdin.write("lose\n")
    nodes.stdin.flush()
    assert nodes.stdout.readline() == "lost\n"
    assert recipe.wait() == 0, recipe.lines
    assert "2 parameters, 40 steps, 1 worker (CPU)" in recipe.lines
    assert [line for line in recipe.lines if re.fullmatch(r"worker \d on [\d.]+ .*died: it(s node| cannot).*", line)]
    alone = Recipe(tmp_path / "alone", None, "cluster.workers=1", "training.steps=40")
    assert alone.wait() == 0, alone.lines
    assert recipe.losses() == alone.losses()
    assert recipe.answer == alone.answer

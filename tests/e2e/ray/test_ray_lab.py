"""The cluster that other tests run on is what they take it for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ray_lab import RayLab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAM = """
import ray
ray.init(logging_level="error")
print(len({node["NodeManagerAddress"] for node in ray.nodes()}), ray.cluster_resources()["GPU"])
"""


def test_a_program_finds_three_nodes_with_two_gpus_each(ray_lab: RayLab, ray_python: Path) -> None:
    env = {**os.environ, **ray_lab.env}
    done = subprocess.run([ray_python, "-c", PROGRAM], check=False, env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == "3 6.0\n", done.stderr


@pytest.mark.long
def test_a_cluster_of_its_own_can_lose_a_node_and_get_another_and_leaves_nothing(
    ray_lab: RayLab, ray_python: Path, tmp_path: Path
) -> None:
    others = set(ray_lab.pids())
    with RayLab(tmp_path, ray_python, nodes=2, token=False, dead_after_s=2) as lab:
        lab.hang_raylet(1)
        lab.wait_until_dead(1, within_s=20)
        lab.wake_raylet(1)
        assert lab.add_node() == 2
        lab.kill_raylet(2)
        lab.wait_until_dead(2, within_s=20)
        assert lab.state(0) == "ALIVE"
    assert lab.pids() == []
    assert others <= set(ray_lab.pids())

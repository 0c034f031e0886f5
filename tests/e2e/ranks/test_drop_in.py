"""A script written for torchrun, unchanged, on two nodes: the same as torchrun's own result."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import Ranks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).parent / "programs" / "train.py"

NO_TORCH_ON_NODE_1 = """
import os, sys
if "preflight_rank" in " ".join(sys.orig_argv) and os.environ["AIR_TEST_RAY_LAB"].endswith("/1"):
    sys.modules["torch"] = None
"""


def test_a_script_for_torchrun_runs_unchanged_on_two_nodes_with_torchruns_own_result(ranks: Ranks) -> None:
    ranks.write("train.py", SCRIPT.read_text())
    words = [
        "--nnodes",
        "2",
        "--nproc_per_node",
        "2",
        "--rdzv-backend=c10d",
        "--rdzv_endpoint=x:1",
        "train.py",
        "--lr=1",
    ]
    ours = ranks.run(*words, "a b", timeout_s=500)
    assert ours.code == 0, ours.errors
    single = [
        str(ranks.python.with_name("torchrun")),
        "--standalone",
        "--nproc-per-node",
        "4",
        "train.py",
        "--lr=1",
        "a b",
    ]
    theirs = subprocess.run(
        single, cwd=ranks.folder, env=ranks.env, capture_output=True, text=True, check=True, timeout=500
    )
    lines = theirs.stdout.splitlines()
    for kind in ("sum", "weights", "elastic"):
        assert sorted(ours.said(f"{kind} .*")) == sorted(line for line in lines if line.startswith(kind))
    assert len(ours.said("sum .*")) == 4
    assert "! not needed here, and not used: --rdzv-backend, --rdzv-endpoint" in ours.errors
    assert "node 1  127.0.0." in ours.errors
    ranks.assert_nothing_left()


def test_a_preflight_measures_the_way_between_nodes_and_the_whole_before_the_workload(ranks: Ranks) -> None:
    ranks.write("x.py", "print('workload')")
    done = ranks.run("--nodes", "2", "--nproc-per-node", "2", "--cpu-only", "--preflight", "x.py", timeout_s=500)
    assert done.code == 0, done.errors
    measured = [line for line in done.errors.splitlines() if line.startswith("  preflight  ")]
    assert [line.split("  ")[2].partition(" (")[0] for line in measured] == [
        "inside node 0",
        "inside node 1",
        "node 0 - node 1",
        "all-reduce over all ranks",
    ]
    assert all(line.endswith("B/s") for line in measured)
    assert len(done.said("workload")) == 4


@pytest.mark.long
def test_a_preflight_names_the_node_that_does_not_take_part(ranks: Ranks) -> None:
    """The fault is made: on one node the ranks of the preflight find no torch."""
    broken = ranks.folder / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(NO_TORCH_ON_NODE_1)
    ranks.write("x.py", "print('workload')")
    env = {"PYTHONPATH": str(broken)}
    done = ranks.run("--nodes", "3", "--nproc-per-node", "1", "--preflight", "x.py", env=env, timeout_s=500)
    assert done.code == 1
    assert "✗ preflight: node 1 (127.0.0.3 lab-1) does not take part in an all-reduce" in done.errors
    assert done.said("workload") == []
    ranks.assert_nothing_left()

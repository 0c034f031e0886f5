"""What cannot run is refused before it is submitted, or told soon after, with what to do about it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Lab
from lab.slurm_runs import SlurmRuns

SOON_S = 20


@pytest.fixture
def runs(lab: Lab, tmp_path: Path) -> SlurmRuns:
    return SlurmRuns(lab, tmp_path)


REFUSALS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "a partition that is not there": (
        {"partition": "mian"},
        {},
        "the cluster has no partition 'mian'",
        "Did you mean `main`?",
    ),
    "more CPUs than a node has": ({}, {"cores": 64}, "64 CPU", "8 CPUs"),
    "more nodes than there are": ({}, {"nodes": 9}, "9", "3"),
    "more GPUs than a node has": (
        {},
        {"compute": {"num_accelerators": 8, "accelerator_type": "GPU_8xH100"}},
        "asked for: 1 node with gpu:8",
        "gpu:h100:2",
    ),
    "a GRES that is not there": (
        {"accelerators": {"A10": "tpu"}},
        {"compute": {"num_accelerators": 1, "accelerator_type": "GPU_1xA10"}},
        "asked for: 1 node with tpu:1",
        "gpu:h100:2",
    ),
    "an option that sbatch does not take": (
        {"sbatch": ["--nonsense"]},
        {},
        "sbatch does not take an option of the profile",
        "sbatch --help",
    ),
    "a license that is not there": ({"sbatch": ["--licenses=matlab"]}, {}, "license", "scontrol show licenses"),
    "more memory than a node has": ({"memory_per_node": "900G"}, {}, "921600 MB of memory", "8000 MB"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_the_cluster_does_not_have_is_refused_at_once(runs: SlurmRuns, what: str) -> None:
    profile, fields, message, hint = REFUSALS[what]
    runs.profile("asks", **profile)
    done = runs.air("run", "-p", "asks", "-f", runs.workload("true", **fields))
    assert done.returncode != 0
    assert message in done.stderr
    assert hint in done.stderr
    assert left_of(runs) == []


def left_of(runs: SlurmRuns) -> list[str]:
    """What a submission left: its run folder, or a job."""
    jobs = runs.lab.run(["squeue", "-h"], check=False).stdout.splitlines()
    return [str(folder) for folder in runs.home.glob("runs/*/*")] + jobs


def test_without_slurms_controller_nothing_is_submitted(runs: SlurmRuns) -> None:
    runs.lab.stop_controller()
    done = runs.air("run", "-p", "lab", "-f", runs.workload("true"))
    assert done.returncode != 0
    assert "scontrol gave no answer in 10 s" in done.stderr
    assert "scontrol ping" in done.stderr
    runs.lab.start_controller()
    assert left_of(runs) == []


def test_without_slurms_programs_nothing_is_submitted(runs: SlurmRuns, tmp_path: Path) -> None:
    done = runs.air("run", "-p", "lab", "-f", runs.workload("true"), env={"PATH": str(tmp_path)})
    assert done.returncode != 0
    assert "scontrol cannot be run: no such file or directory" in done.stderr
    assert left_of(runs) == []


def test_a_home_that_the_nodes_do_not_share_is_told(runs: SlurmRuns) -> None:
    lab = runs.lab
    runs.home.mkdir()
    with lab.unshared(runs.home):
        run = runs.submit("true", max_retries=3)
        facts = runs.ended(run, within_s=SOON_S)
        assert (facts["status"], facts["cause"]["kind"]) == ("FAILED", "setup")
        assert facts["cause"]["summary"] == (
            f"Slurm could not write the run folder on {lab.nodes[0]}: the home is not shared with the nodes"
        )
        assert "set home in the profile" in facts["cause"]["hint"]


def test_a_home_that_one_node_does_not_share_is_told_with_the_node(runs: SlurmRuns) -> None:
    lab = runs.lab
    runs.home.mkdir()
    with lab.unshared(runs.home, lab.nodes[1]):
        run = runs.submit("true", max_retries=3)
        facts = runs.ended(run, within_s=SOON_S)
    assert (facts["status"], facts["cause"]["kind"]) == ("FAILED", "setup")
    assert facts["cause"]["summary"].startswith(f"node 1 ({lab.nodes[1]}) has no {runs.home}")
    assert facts["cause"]["hint"] == "set home in the profile to a folder that all nodes share"


def test_an_interpreter_that_the_nodes_do_not_have_is_told(runs: SlurmRuns) -> None:
    lab = runs.lab
    everywhere = runs.profile("everywhere", python="/nowhere/python")
    folder = runs.folder / "bin"
    folder.mkdir()
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    on_one = runs.profile("on_one", python=str(python))
    missing = runs.submit("true", profile=everywhere, max_retries=3)
    facts = runs.ended(missing, within_s=SOON_S)
    assert (facts["status"], facts["cause"]["kind"]) == ("FAILED", "setup")
    assert facts["cause"]["summary"] == f"{lab.nodes[0]} has no /nowhere/python"
    assert facts["cause"]["hint"] == "set python in the profile to an interpreter that all nodes share"
    with lab.unshared(folder, lab.nodes[1]):
        run = runs.submit("true", profile=on_one, max_retries=3)
        facts = runs.ended(run, within_s=SOON_S)
    assert (facts["status"], facts["cause"]["kind"]) == ("FAILED", "setup")
    assert lab.nodes[1] in facts["cause"]["summary"]
    assert str(python) in facts["cause"]["summary"]

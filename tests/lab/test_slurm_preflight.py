"""A node that is not fit is found before the first attempt, named, and left out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from house.repository import ROOT
from lab.cluster import Lab
from lab.slurm_runs import SlurmRuns

# A /tmp without space, in which this project still is where it was, should it be there.
SMALL_TMP = """
set -e
cd /
mkdir -p /run/kept
mount --bind "$1" /run/kept
mount -t tmpfs -o size=1m small /tmp
case "$1" in /tmp/*) mkdir -p "$1"; mount --bind /run/kept "$1" ;; esac
"""
LARGE_TMP = 'cd /; case "$1" in /tmp/*) umount --lazy "$1" ;; esac; umount --lazy /tmp /run/kept'


@pytest.fixture
def runs(lab: Lab) -> Iterator[SlurmRuns]:
    """With a home outside /tmp, which a test makes smaller on one node."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        found = SlurmRuns(lab, Path(folder))
        found.profile("looks", preflight=True)
        yield found


def test_nodes_that_are_fit_run_the_command(runs: SlurmRuns) -> None:
    run = runs.submit("echo here", profile="looks")
    assert runs.ended(run, within_s=30)["status"] == "SUCCESS"
    assert "here" in runs.log(run, node=1)


def test_a_node_without_space_is_named_and_the_run_goes_on_without_it(runs: SlurmRuns) -> None:
    lab, bad = runs.lab, runs.lab.nodes[0]
    lab.exec(bad, ["sh", "-c", SMALL_TMP, "sh", str(ROOT)])
    try:
        run = runs.submit("echo here", profile="looks")
        facts = runs.ended(run, within_s=60)
    finally:
        lab.exec(bad, ["sh", "-c", LARGE_TMP, "sh", str(ROOT)])
    first, second = facts["attempts"]
    assert facts["status"] == "SUCCESS"
    assert (first["cause"]["kind"], first["cause"]["host"]) == ("node_failed", bad)
    assert f"{bad}: 0.0 GB are free in /tmp (needed: 1.1 GB)" in first["cause"]["summary"]
    assert bad not in second["hosts"]


def test_a_home_that_a_node_does_not_have_is_told_and_not_tried_again(runs: SlurmRuns) -> None:
    bad = runs.lab.nodes[1]
    with runs.lab.unshared(runs.folder, bad):
        run = runs.submit("echo here", profile="looks")
        facts = runs.ended(run, within_s=60)
    assert (facts["status"], facts["cause"]["kind"]) == ("FAILED", "setup")
    assert bad in facts["cause"]["summary"]
    assert "home" in facts["cause"]["hint"]
    assert len(facts["attempts"]) == 1

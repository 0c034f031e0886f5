"""Machines of a Ray cluster that hang, or are lost with everything on them: the head too, with what it alone knows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from e2e.ray_failures.remains import assert_nothing_is_left, commands_of, living
from ray_lab import RayLab
from ray_runs_home import RayRunsHome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Both attempts end on their own; the second goes nowhere near what was lost.
WORK = 'echo "up $AIR_ATTEMPT"; [ "$AIR_ATTEMPT" = 0 ] && exec sleep 600; echo done'


def node_of(runs: RayRunsHome, run_id: str) -> int:
    """A node of the lab, not its head, on which the run is, from what its agents were told."""
    for folder in sorted(runs.lab.sessions.iterdir()):
        if folder.name != "0" and list(folder.glob(f"session_2*/air-{run_id}/*/0/kit")):
            return int(folder.name)
    raise AssertionError("the run is on the head alone")


def first_end(view: dict[str, Any]) -> tuple[str, str]:
    first = view["attempts"][0]
    return first["status"], first["cause"]["kind"]


@pytest.mark.long
def test_a_run_goes_on_without_a_node_that_hangs_and_nothing_of_it_is_left_there_when_it_wakes(
    runs: RayRunsHome,
) -> None:
    living(runs.lab, at_least=3)
    run_id = runs.submit(WORK)
    runs.await_log(run_id, "up", node=1)
    runs.await_log(run_id, "up", node=0)
    node = node_of(runs, run_id)
    begun = time.monotonic()
    runs.lab.hang_raylet(node)
    try:
        view = runs.ended(run_id)
        print(f"hung: {time.monotonic() - begun:.1f} s, {view['attempts'][0]['cause']}")
    finally:
        runs.lab.wake_raylet(node)
    assert view["status"] == "SUCCESS"
    assert first_end(view) == ("FAILED", "node_failed")
    assert_nothing_is_left(runs, run_id)
    runs.lab.wait_until_dead(node, within_s=60)


@pytest.mark.long
def test_a_run_goes_on_without_a_machine_that_is_lost(runs: RayRunsHome) -> None:
    living(runs.lab, at_least=3)
    run_id = runs.submit(WORK)
    runs.await_log(run_id, "up", node=1)
    runs.await_log(run_id, "up", node=0)
    node = node_of(runs, run_id)
    begun = time.monotonic()
    runs.lab.kill_node(node)
    view = runs.ended(run_id)
    print(f"lost: {time.monotonic() - begun:.1f} s, {view['attempts'][0]['cause']}")
    assert view["status"] == "SUCCESS"
    assert first_end(view) == ("FAILED", "node_failed")
    assert commands_of(run_id) == []
    runs.lab.wait_until_dead(node, within_s=60)


def test_a_run_whose_cluster_is_lost_says_so_and_keeps_the_lines_that_had_come(
    ray_python: Path, tmp_path: Path
) -> None:
    with RayLab(tmp_path, ray_python, nodes=1, gpus=0) as lab:
        runs = RayRunsHome(tmp_path / "home", lab)
        runs.home.mkdir()
        runs.configure()
        run_id = runs.submit("echo line 1; exec sleep 600", nodes=1)
        runs.await_log(run_id, "line 1")
        lab.kill_node(0)
        begun = time.monotonic()
        assert runs.view(run_id)["status"] == "RUNNING", "a moment of silence is no end"
        view = runs.ended(run_id, within_s=60)
        print(f"cluster lost: {time.monotonic() - begun:.1f} s, {view['cause']}")
        assert (view["status"], view["cause"]["kind"]) == ("FAILED", "node_failed")
        assert "is gone: nothing answers there any more" in view["cause"]["summary"]
        assert runs.air("logs", run_id).stdout == "line 1\n"
        assert commands_of(run_id) == []

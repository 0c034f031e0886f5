"""Runs whose home lies on a disk that is full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from airlane.store.records import CauseKind
from airlane.store.states import State

from .conftest import Lane, ended, kill, processes_of, supervisor_pid, wait_until

FILL = 'cat /dev/zero > "$AIR_CHECKPOINT_DIR/big" || true\n'


@pytest.fixture
def small(lane: Lane, tmp_path: Path) -> Iterator[Lane]:
    """A lane whose home is on a disk of 1 MB."""
    disk = tmp_path / "small disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], check=False)
    if mounted.returncode != 0:
        pytest.skip("may not mount a file system")
    lane.home = disk / "home"
    lane.env["AIR_HOME"] = str(lane.home)
    try:
        yield lane
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_failure_while_the_disk_is_full_says_so(small: Lane) -> None:
    view = ended(small.submit(small.workload(f"{FILL}sleep 0.3; exit 3")))
    assert view.cause is not None
    assert (view.state, view.cause.exit_code) == (State.FAILED, 3)
    assert "no space left" in (view.cause.finding or "")


def test_a_command_survives_a_full_disk_and_its_run_succeeds_when_there_is_room_again(small: Lane) -> None:
    run = small.submit(small.workload(f'{FILL}touch "{small.folder}/filled"; sleep 1; rm "$AIR_CHECKPOINT_DIR/big"'))
    wait_until((small.folder / "filled").exists, within_s=10, what="the disk is full")
    assert ended(run).state is State.SUCCESS


def test_a_supervisor_killed_on_a_full_disk_leaves_one_verdict(small: Lane) -> None:
    run = small.submit(small.workload(f'{FILL}touch "{small.folder}/filled"; sleep 600'))
    wait_until((small.folder / "filled").exists, within_s=10, what="the disk is full")
    kill(supervisor_pid(run.view().paths))
    causes = [small.air("get", run.id).stdout.splitlines()[1] for _ in range(2)]
    assert "FAILED" in causes[0]
    assert causes[0] == causes[1]
    assert processes_of(run.id) == []


def test_an_end_that_cannot_be_written_is_told(lane: Lane) -> None:
    spoil = 'cd "$AIR_CHECKPOINT_DIR/../attempts/0"; mv nodes away; touch nodes'
    view = ended(lane.submit(lane.workload(spoil)))
    assert view.cause is not None
    assert (view.state, view.cause.kind) == (State.FAILED, CauseKind.SETUP)
    assert "could not be written" in view.cause.summary

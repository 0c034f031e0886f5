"""Nothing is left, and the cause is named, whoever is killed without a warning."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from ray_lab import RayLab

from .conftest import Ranks, alive, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STAYS = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print("pids", os.getpid(), child.pid, flush=True)
if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
    child.kill()
    sys.exit(0)
time.sleep(600)
"""


def first_pids(text: str) -> list[int]:
    return [int(pid) for line in re.findall(r"pids ([\d ]+)", text) for pid in line.split()]


@pytest.mark.parametrize(
    "after_s", [3.0, *(pytest.param(after_s, marks=pytest.mark.long) for after_s in (1.0, 5.0, None))]
)
def test_8_nothing_is_left_when_the_launcher_is_killed(ranks: Ranks, after_s: float | None) -> None:
    """Before there is a placement, while seats are taken, and when every rank runs."""
    ranks.write("stays.py", STAYS)
    found: list[int] = []
    with ranks.start("--nodes", "2", "--nproc-per-node", "2", "stays.py") as process:
        assert process.stdout is not None
        if after_s is not None:
            time.sleep(after_s)
        else:
            found = [pid for _ in range(4) for pid in first_pids(process.stdout.readline())]
            assert len(alive(found)) == 8
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not alive(found), within_s=5, what=f"ranks are gone: {alive(found)}")
    ranks.assert_nothing_left(within_s=30)


def test_5_a_seat_that_is_killed_is_the_cause_and_its_rank_ends_with_it(ranks: Ranks) -> None:
    ranks.write("stays.py", STAYS)
    with ranks.start("--nodes", "2", "--nproc-per-node", "1", "stays.py") as process:
        assert process.stdout is not None
        lines = "".join(process.stdout.readline() for _ in range(2))
        seats = [pid for pid in ranks.lab.pids() if b"ray::Seat" in _command_line(pid)]
        assert len(seats) == 2
        found = first_pids(lines)
        os.kill(seats[0], signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.search(r"✗ rank \d on node \d \(.*\) was lost: its Ray worker", errors)
    assert alive(found) == []
    ranks.assert_nothing_left()


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_9_a_node_that_dies_is_the_cause_and_the_next_generation_does_without_it(
    tmp_path: Path, ray_python: Path
) -> None:
    with RayLab(tmp_path, ray_python) as lab:
        ranks = Ranks(tmp_path, ray_python, lab)
        ranks.write("stays.py", STAYS)
        with ranks.start("--nodes", "2", "--gpus-per-node", "2", "--max-restarts", "1", "stays.py") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            lines = "".join(process.stdout.readline() for _ in range(4))
            said = ""
            while "node 1" not in said:
                said += process.stderr.readline()
            address, node = re.findall(r"node 1  (\S+) lab-(\d)", said)[0]
            lab.kill_raylet(int(node))
            killed_s = time.monotonic()
            _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert re.search(rf"✗ rank 2 on node 1 \({address} .*\) was lost: its node does not answer any more", errors)
        again = errors[errors.index("starting again: restart 1 of 1") :]
        assert address not in again
        assert time.monotonic() - killed_s < 60
        assert alive(first_pids(lines)) == []
        ranks.assert_nothing_left(within_s=30)


@pytest.mark.long
def test_9_without_enough_nodes_left_the_launch_ends_with_the_numbers(tmp_path: Path, ray_python: Path) -> None:
    with RayLab(tmp_path, ray_python, nodes=2) as lab:
        ranks = Ranks(tmp_path, ray_python, lab)
        ranks.write("stays.py", STAYS)
        with ranks.start("--nodes", "2", "--gpus-per-node", "2", "--max-restarts", "5", "stays.py") as process:
            assert process.stdout is not None
            for _ in range(4):
                process.stdout.readline()
            lab.kill_raylet(1)
            _, errors = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "✗ no room for 2 nodes with 2 GPUs and 2 CPUs each: 1 of the cluster's 1 node can hold that" in errors


@pytest.mark.long
def test_8_nothing_hangs_and_nothing_is_left_when_the_clusters_head_dies(tmp_path: Path, ray_python: Path) -> None:
    """Ray's own calls would wait a minute for it, and then end the process."""
    with RayLab(tmp_path, ray_python, nodes=1) as lab:
        ranks = Ranks(tmp_path, ray_python, lab)
        ranks.write("stays.py", STAYS)
        with ranks.start("--nproc-per-node", "1", "stays.py") as process:
            assert process.stdout is not None
            found = first_pids(process.stdout.readline())
            (head,) = [pid for pid in lab.pids() if b"gcs_server" in _command_line(pid).partition(b"\0")[0]]
            os.kill(head, signal.SIGKILL)
            _, errors = process.communicate(timeout=45)
        wait_until(lambda: not alive(found), within_s=10, what=f"ranks are gone: {alive(found)}")
    assert process.returncode == 1
    assert re.search(r"✗ rank 0 on node 0 .* was lost: ", errors)

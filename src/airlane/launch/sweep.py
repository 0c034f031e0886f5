"""Ending what a run left behind when its agent is dead: found by AIR_RUN_ID in its environment, or by its mark."""

from __future__ import annotations

import os
import sys
import time

from airlane.launch.mark import is_marked
from airlane.launch.processes import all_pids, descendants, kill_all, lives, read_stat, start_ticks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from airlane.launch.processes import Identity

_PARENT = 1  # position in /proc/PID/stat, as read_stat counts
_PATIENCE_S = 2.0
_PAUSE_S = 0.005


def sweep(
    run_id: str, *, attempt: int | None = None, node: int | None = None, exclude: frozenset[int] = frozenset()
) -> int:
    """SIGKILL every process of this run (of one attempt or node, if given), and their descendants; returns how many.

    A process belongs to the run when the environment it was started with says so, or its mark does. Ourselves, our
    ancestors and the pids in `exclude` are spared. Linux only; elsewhere 0.
    """
    if sys.platform != "linux":
        return 0
    variables = {b"AIR_RUN_ID=" + os.fsencode(run_id)}
    if attempt is not None:
        variables.add(b"AIR_ATTEMPT=%d" % attempt)
    if node is not None:
        variables.add(b"NODE_RANK=%d" % node)

    def belongs(pid: int) -> bool:
        if variables <= _environment(pid):
            return True
        return node is None and is_marked(pid, run_id, attempt) and lives(pid)

    spared = exclude | _ourselves()
    killed: set[Identity] = set()
    deadline = time.monotonic() + _PATIENCE_S
    while found := kill_all(lambda: _members(belongs, spared)):
        killed |= found
        if time.monotonic() > deadline:
            break  # the kernel holds them (a dead network disk): they die when it lets go
        time.sleep(_PAUSE_S)
    return len(killed)


def _members(belongs: Callable[[int], bool], spared: frozenset[int]) -> list[Identity]:
    found = [
        (pid, started)
        for pid in all_pids()
        if pid not in spared
        and belongs(pid)
        and (started := start_ticks(pid)) is not None
        and belongs(pid)  # again: now it is the process with that start
    ]
    below = descendants(*(pid for pid, _ in found)) if found else []
    return [process for process in dict.fromkeys(found + below) if process[0] not in spared]


def _environment(pid: int) -> set[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            return set(file.read().split(b"\0"))
    except OSError:
        return set()


def _ourselves() -> frozenset[int]:
    pids = set()
    pid = os.getpid()
    while pid > 0:
        pids.add(pid)
        pid = int(read_stat(pid)[_PARENT])
    return frozenset(pids)

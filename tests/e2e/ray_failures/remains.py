"""What a run may leave on a cluster when it has ended, however it did: its outbox and its checkpoints, and no more."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airlane.cluster.rest import Dashboard
from airlane.launch.processes import all_pids, environment_text
from ray_lab import RayLab
from ray_runs_home import RayRunsHome

SECRET = f"sesame-{os.urandom(8).hex()}"
_GONE_WITHIN_S = 60.0
_DRIVER = (b"airlane.supervise.batch", b"boot.py")
_AGENT = b"launch/__main__.py"
# What Ray keeps in its cache of packages: nothing of it says anything without a key that is not there.
_PACKAGE = ("start.sh", "boot.py", "after.sh", "kit.tar.gz", "code.tar.gz", "run.sealed")


def assert_nothing_is_left(runs: RayRunsHome, run_id: str) -> None:
    """Fail when anything is, after a while: a process, a placement group, a file, the secret."""
    await_none(lambda: commands_of(run_id) + drivers_of(run_id) + agents_of(run_id), "a process of the run")
    await_none(lambda: actors_on(runs.lab), "an agent's actor")
    await_none(lambda: groups_of(runs.lab, run_id), "a placement group")
    await_none(lambda: files_of(runs.lab, run_id), "a file of the run's")
    await_none(lambda: files_with(SECRET, runs.lab.sessions, runs.folder(run_id)), "a file with the secret")


def living(lab: RayLab, *, at_least: int) -> list[int]:
    """The nodes that the head takes for alive, the head first; new ones are started where they are too few."""
    found = [node for node in range(lab.nodes) if lab.state(node) == "ALIVE"]
    while len(found) < at_least:
        found.append(lab.add_node())
    return found


def await_none(found: Callable[[], list[Any]], what: str) -> None:
    deadline = time.monotonic() + _GONE_WITHIN_S
    while left := found():
        assert time.monotonic() < deadline, f"{what} is left after {_GONE_WITHIN_S:g} s: {left}"
        time.sleep(0.2)


def commands_of(run_id: str) -> list[int]:
    """What the run's command has started."""
    mark = f"AIR_RUN_ID={run_id}".encode()
    return [pid for pid in all_pids() if mark in environment_text(pid).split(b"\0")]


def drivers_of(run_id: str) -> list[int]:
    """The run's supervisor, from its first moment on."""
    return [pid for pid in all_pids() if run_id.encode() in (line := command_line(pid)) and _any(_DRIVER, line)]


def agents_of(run_id: str) -> list[int]:
    """The processes that look after the run's command on its nodes."""
    return [pid for pid in all_pids() if run_id.encode() in (line := command_line(pid)) and _AGENT in line]


def actors_on(lab: RayLab) -> list[int]:
    """The workers of the cluster that are agents' actors."""
    return [pid for pid in lab.pids() if command_line(pid).startswith((b"ray::Agent", b"ray::air.Agent"))]


def groups_of(lab: RayLab, run_id: str) -> list[str]:
    """The run's placement groups that still hold something, or would."""
    answer = Dashboard(lab.url, lab.token, timeout_s=60).get_json("/api/v0/placement_groups?limit=10000")
    rows = answer["data"]["result"]["result"]
    return [str(row) for row in rows if row["name"].startswith(f"air-{run_id}-") and row["state"] != "REMOVED"]


def files_of(lab: RayLab, run_id: str) -> list[Path]:
    """What lies in the nodes' folders of Ray's sessions and has the run's id in its path."""
    found = (path for path in lab.sessions.rglob("*") if run_id in str(path) and path.is_file())
    return [path for path in found if not _may_stay(path)]


def _may_stay(path: Path) -> bool:
    """The outbox and Ray's own logs; what the run has saved; and its package, which is sealed."""
    return bool({"logs", "checkpoints"} & set(path.parts)) or path.name in _PACKAGE or path.suffix == ".lock"


def files_with(secret: str, *folders: Path) -> list[Path]:
    """Those that have the secret in their content."""
    raw = secret.encode()
    return [path for folder in folders for path in folder.rglob("*") if raw in read_bytes(path)]


def command_line(pid: int) -> bytes:
    return read_bytes(Path(f"/proc/{pid}/cmdline"))


def read_bytes(path: Path) -> bytes:
    """Nothing of what is no file, or is gone by now."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


def _any(words: tuple[bytes, ...], line: bytes) -> bool:
    return any(word in line for word in words)

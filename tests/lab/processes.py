"""The processes of this machine, and which of them belong to a PID namespace."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A process as this machine sees it, whatever namespace it is in."""

    pid: int
    parent: int
    argv: tuple[str, ...]
    stopped: bool


def namespace_of(pid: int) -> str | None:
    """The PID namespace a process is in; None where it has ended, or is above our looking into."""
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        return str((PROC / str(pid) / "ns" / "pid").readlink())
    return None


def processes_of(namespace: str) -> list[Process]:
    """Everything in a PID namespace and in those inside it (the containers), zombies apart."""
    everything = {int(folder.name): _read(folder) for folder in PROC.iterdir() if folder.name.isdecimal()}
    alive = {pid: process for pid, process in everything.items() if process}
    members: dict[int, bool] = {}

    def belongs(pid: int) -> bool:
        if pid not in members:
            members[pid] = namespace_of(pid) == namespace or (pid in alive and belongs(alive[pid].parent))
        return members[pid]

    return [process for pid, process in sorted(alive.items()) if belongs(pid)]


def _read(folder: Path) -> Process | None:
    with suppress(FileNotFoundError, ProcessLookupError):
        state, parent, *_ = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        if state == "Z":
            return None
        argv = (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        return Process(int(folder.name), int(parent), tuple(argv), stopped=state == "T")
    return None


def wait_until_ended(pid: int, *, timeout_s: float) -> bool:
    """Whether a process, anybody's, ends within that time."""
    try:
        opened = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([opened], [], [], timeout_s)[0])
    finally:
        os.close(opened)

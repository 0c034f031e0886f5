"""What a lab leaves on the machine, by its number, and how that is removed.

That is a bridge and cables to it, lines of /etc/hosts, cgroups and a folder. Everything else of a lab is inside
namespaces, and goes with its processes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STATE = Path("/var/lib/airlane-lab")
HOSTS = Path("/etc/hosts")
LINKS = Path("/sys/class/net")
CGROUPS = Path("/sys/fs/cgroup")


def folder_of(number: int) -> Path:
    return STATE / str(number)


def bridge_of(number: int) -> str:
    return f"airlab{number}"


def cgroup_of(number: int) -> str:
    return f"airlab{number}"


@contextmanager
def state_lock() -> Iterator[None]:
    """Held while labs are made or removed: a half-made one is never taken for the remains of one."""
    STATE.mkdir(parents=True, exist_ok=True)
    with _locked(STATE / "lock", fcntl.LOCK_EX):
        yield


@contextmanager
def lock_of(number: int) -> Iterator[None]:
    """Held by the keeper of a lab for as long as the lab lives; raises BlockingIOError where it is held."""
    with _locked(folder_of(number) / "keeper.lock", fcntl.LOCK_EX | fcntl.LOCK_NB):
        yield


@contextmanager
def _locked(file: Path, how: int) -> Iterator[None]:
    with file.open("w") as opened:
        fcntl.flock(opened, how)
        yield


def sweep() -> None:
    """Removes what labs left whose keeper was killed; to be called under the state lock."""
    for folder in STATE.iterdir():
        if folder.is_dir():
            with suppress(BlockingIOError), lock_of(int(folder.name)):
                remove(int(folder.name))


def remove(number: int) -> None:
    """The folder goes last: as long as it is there, the next sweep tries again."""
    # The cables too: the kernel takes its time to end a network, and with it the cable to it.
    for link in (bridge_of(number), *(cable.name for cable in LINKS.glob(f"{bridge_of(number)}v*"))):
        subprocess.run(["ip", "link", "delete", link], check=False, capture_output=True)
    remove_host_lines(number)
    for hierarchy in (CGROUPS, *CGROUPS.iterdir()) if CGROUPS.is_dir() else ():
        _remove_cgroup(hierarchy / cgroup_of(number))
    shutil.rmtree(folder_of(number))


def _remove_cgroup(folder: Path) -> None:
    for root, folders, _ in os.walk(folder, topdown=False):
        for name in folders:
            (Path(root) / name).rmdir()
    if folder.is_dir():
        folder.rmdir()


def add_host_lines(number: int, addresses: Iterable[tuple[str, str]]) -> None:
    """Makes names resolve on this machine, by lines that carry the lab's number."""
    lines = [f"{address} {name} {_mark(number)}" for address, name in addresses]
    with HOSTS.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        last = file.read()[-1:]
        file.write(("\n" if last not in ("", "\n") else "") + "\n".join(lines) + "\n")


def remove_host_lines(number: int) -> None:
    """In place, because /etc/hosts may be a mount of its own, as it is in a container."""
    with HOSTS.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read()
        kept = "".join(line for line in text.splitlines(keepends=True) if not line.rstrip().endswith(_mark(number)))
        if kept != text:
            file.seek(0)
            file.write(kept)
            file.truncate()


def _mark(number: int) -> str:
    return f"# airlane lab {number}"

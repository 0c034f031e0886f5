"""Whether the kernel killed something for lack of memory while the command ran."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_KILLED = 137


class OomCount:
    """Kills counted so far: in our own control group (None where it does not count), and on the whole machine."""

    def __init__(self, group: int | None, machine: int | None) -> None:
        self.group = group
        self.machine = machine


def oom_count(root: str = "/") -> OomCount:
    """The counts now; `root` is where /proc and /sys stand."""
    group = None
    for path in counter_files(root):
        group = _counter(path, "oom_kill")
        if group is not None:
            break
    return OomCount(group, _counter(os.path.join(root, "proc/vmstat"), "oom_kill"))


def oom_killed(before: OomCount, after: OomCount, *, exit_code: int | None, signal: str | None) -> bool:
    """Whether a command that ended like this was hit.

    A kill in our own group explains any failure. One elsewhere on the machine only counts where the command, or the
    last program it ran, died of SIGKILL: another group's kill must not be blamed for this run's own mistake.
    """
    if exit_code == 0:
        return False
    if _grew(before.group, after.group):
        return True
    return (signal == "SIGKILL" or exit_code == _KILLED) and _grew(before.machine, after.machine)


def _grew(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after > before


def _counter(path: str, name: str) -> int | None:
    """The number after a name in a file of "name number" lines."""
    for line in _lines(path):
        words = line.split()
        if len(words) == 2 and words[0] == name and words[1].isdigit():  # noqa: PLR2004 - a name and a number
            return int(words[1])
    return None


def counter_files(root: str) -> Iterable[str]:
    """The files that count kills for our control group: version 2 first, then version 1."""
    paths = {}
    for line in _lines(os.path.join(root, "proc/self/cgroup")):
        _, controllers, path = line.rstrip("\n").split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    mounts = list(_cgroup_mounts(root))
    for kind, controller, file in (("cgroup2", "", "memory.events"), ("cgroup", "memory", "memory.oom_control")):
        for mount_kind, mount_root, point, options in mounts:
            if mount_kind == kind and controller in paths and (not controller or controller in options):
                inside = os.path.relpath(paths[controller], mount_root)
                yield os.path.normpath(os.path.join(root, point.lstrip("/"), inside, file))


def _cgroup_mounts(root: str) -> Iterable[tuple[str, str, str, list[str]]]:
    """Kind, root within the hierarchy, mount point and options of each control group mount; proc(5), mountinfo."""
    for line in _lines(os.path.join(root, "proc/self/mountinfo")):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split()[:3]
        if kind.startswith("cgroup"):
            fields = before.split()
            yield kind, fields[3], fields[4], options.split(",")


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readlines()
    except OSError:
        return []

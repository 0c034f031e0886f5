"""How much memory a process may use here: a container, which is in another control group, must not use more."""

from __future__ import annotations

import os

from airlane.launch.oom import counter_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LIMITS = {"memory.events": "memory.max", "memory.oom_control": "memory.limit_in_bytes"}
# Version 1 writes a number near the largest there is where there is no limit.
_NO_LIMIT = 1 << 62


def memory_limit_bytes(root: str = "/") -> int | None:
    """The smallest limit of our control group and those above it; None without one. `root` is where /sys stands.

    Source: cgroups(7), memory.max of version 2 and memory.limit_in_bytes of version 1.
    """
    limits = [limit for file in counter_files(root) for limit in _limits(file, root)]
    return min(limits, default=None)


def _limits(counter_file: str, root: str) -> Iterator[int]:
    name = _LIMITS[os.path.basename(counter_file)]
    folder = os.path.dirname(counter_file)
    top = os.path.join(root, "sys/fs/cgroup")
    while folder.startswith(top):
        try:
            with open(os.path.join(folder, name), encoding="ascii") as file:
                text = file.read().strip()
            if text != "max" and int(text) < _NO_LIMIT:
                yield int(text)
        except (OSError, ValueError):
            pass  # the top of a hierarchy has no limit
        folder = os.path.dirname(folder)

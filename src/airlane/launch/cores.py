"""How many cores a process may use here, whatever the machine has."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_GROUPS = "/sys/fs/cgroup"


def granted_cores(environ: Mapping[str, str]) -> int:
    """The usable cores, or what Slurm granted to this step where that is less: not every cluster binds its steps."""
    for name in ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"):
        if environ.get(name, "").isdigit():
            return max(1, min(usable_cores(), int(environ[name])))
    return usable_cores()


def usable_cores() -> int:
    """The cores this process may use: affinity, and the control group's quota rounded down, but at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = quota_cores()
    return max(1, cores if quota is None else min(cores, quota))


def quota_cores(root: str = _GROUPS) -> int | None:
    """The whole cores that the control group may use; None without a limit. 0 is less than one.

    Source: cgroups(7), cpu.max of version 2 and cpu.cfs_quota_us of version 1.
    """
    try:
        quota, period = _words(f"{root}/cpu.max")
        return None if quota == "max" else int(quota) // int(period)
    except (OSError, ValueError, ZeroDivisionError):
        pass
    try:
        quota_us, period_us = (
            int(*_words(f"{root}/cpu/cpu.cfs_quota_us")),
            int(*_words(f"{root}/cpu/cpu.cfs_period_us")),
        )
        return None if quota_us < 0 else quota_us // period_us
    except (OSError, ValueError, TypeError, ZeroDivisionError):
        return None


def _words(path: str) -> list[str]:
    with open(path, encoding="ascii") as file:
        return file.read().split()

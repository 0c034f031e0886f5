"""The lock that a run's supervisor holds for as long as it lives; the kernel frees it, whatever ends the process."""

from __future__ import annotations

import fcntl
import os
import time
from math import inf
from pathlib import Path

from airlane.store.locks import taken_by_another

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LONGEST_CONTENT = 512
_PAUSE_S = 0.02


def hold(path: Path, *, patience_s: float = inf) -> int:
    """The descriptor of the held lock, for the supervisor to inherit. The file says which machine it was taken on.

    Where another holds it for longer than `patience_s`, it is not locked: a machine that hangs does not let go.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience_s
    try:
        while not _locked(descriptor) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        os.pwrite(descriptor, "\n".join(this_machine()).encode(), 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(path: Path) -> bool | None:
    """Whether some process holds the lock; None where this machine cannot tell.

    A home that several machines share shows the lock to all of them, but not every network file system shows that
    another machine holds it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        if taken_by_another(descriptor):
            return True
        taken_on = set(os.pread(descriptor, _LONGEST_CONTENT, 0).decode(errors="replace").split())
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None if taken_on and taken_on.isdisjoint(this_machine()) else False


def this_machine() -> tuple[str, str]:
    """What names this machine: its host name, which outlives a restart, and its boot, which its containers share."""
    try:
        boot = _BOOT_ID.read_text().strip()
    except OSError:
        boot = ""
    return os.uname().nodename, boot

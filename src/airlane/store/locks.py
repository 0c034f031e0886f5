"""Asking about a file's lock without keeping it."""

from __future__ import annotations

import fcntl


def taken_by_another(descriptor: int) -> bool:
    """Whether some other open file holds the lock; where not, this one shares it until it is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False

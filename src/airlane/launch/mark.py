"""A mark that everything a command starts carries, even with an empty environment: a soft resource limit.

RLIMIT_RTTIME bounds the CPU time of real-time threads between two blocking calls. At more than 30,000 years it bounds
nothing, children inherit it through fork, exec and changes of user, and only a process's own setrlimit changes it.
"""

from __future__ import annotations

import os

_BASE = 1 << 60  # microseconds
_ATTEMPTS = 1 << 12
_PRIME = (1 << 47) - 115
_LINE = b"Max realtime timeout"


def put_mark(run_id: str, attempt: int) -> None:
    """Mark this process, and with it all that it starts; where a limit of the system is in the way, nothing happens."""
    import resource

    limit = getattr(resource, "RLIMIT_RTTIME", None)  # Linux
    if limit is None:
        return
    soft, hard = resource.getrlimit(limit)
    if soft in (hard, resource.RLIM_INFINITY) or soft >= _BASE:
        try:
            resource.setrlimit(limit, (mark_of(run_id, attempt), hard))
        except (OSError, ValueError):
            return  # a lower hard limit


def mark_of(run_id: str, attempt: int) -> int:
    number = 0
    for byte in os.fsencode(run_id):
        number = (number * 257 + byte) % _PRIME
    return _BASE + number * _ATTEMPTS + attempt % _ATTEMPTS


def is_marked(pid: int, run_id: str, attempt: int | None) -> bool:
    """Whether a process descends from this run's command (from one attempt's, if given). Linux only."""
    try:
        with open(f"/proc/{pid}/limits", "rb", buffering=0) as file:
            line = file.read().partition(_LINE)[2]
        soft = int(line.split(maxsplit=1)[0])
    except (OSError, ValueError, IndexError):
        return False  # gone, or unlimited
    wanted = mark_of(run_id, attempt or 0)
    return soft == wanted if attempt is not None else soft // _ATTEMPTS == wanted // _ATTEMPTS

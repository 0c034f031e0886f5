"""Whether a cluster that does not answer is gone for good.

A tunnel that is closed looks like a cluster that has ended. So a refusal counts as an end only when it lasts, and where
the head is known to be this machine, which cannot be out of reach, for a much shorter time.
"""

from __future__ import annotations

import contextlib
import time
from urllib.parse import urlsplit

from airlane.backends.ray.ledger import JobRecord, RayFiles
from airlane.launch.interface import is_own
from airlane.store.paths import RunPaths

GONE_HERE_S = 15.0
GONE_ELSEWHERE_S = 900.0


def note_refusal(run: RunPaths) -> None:
    """The host of the dashboard says that nobody listens there."""
    with contextlib.suppress(OSError):
        RayFiles(run).refused.touch(mode=0o600, exist_ok=False)


def note_answer(run: RunPaths) -> None:
    """The cluster has answered."""
    with contextlib.suppress(OSError):
        RayFiles(run).refused.unlink(missing_ok=True)


def is_gone(run: RunPaths, record: JobRecord) -> bool:
    """Whether it has refused for so long that it is over."""
    try:
        since = RayFiles(run).refused.stat().st_mtime
    except OSError:
        return False
    return time.time() - since > (GONE_HERE_S if _is_here(record) else GONE_ELSEWHERE_S)


def _is_here(record: JobRecord) -> bool:
    """Whether both the dashboard and the head's own address are this machine's: then there is no tunnel between."""
    host = urlsplit(record.url).hostname or ""
    try:
        return record.head is not None and is_own(record.head) and is_own(host)
    except OSError:
        return False

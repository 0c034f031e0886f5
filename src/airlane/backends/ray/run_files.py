"""Which files of a run folder travel between machines, which of them grow, and which must be told before others."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath

from airlane.store.paths import RunPaths
from airlane.store.states import State

# What nobody's choice lets out: secrets, what an agent is told, code, locks, and files that are not finished.
_NEVER = re.compile(
    r"""secrets\.json | [^/]*\.lock | reserve | checkpoints/.* | ray/.*
    | attempts/\d+/code/.* | attempts/\d+/nodes/[^/]*\.(?:order\.json|next)
    | (?:.*/)?\.[^/]+\.[0-9a-f]{12}""",
    re.VERBOSE | re.DOTALL,
)
# Folders that may hold a great deal: nobody looks into them.
_NEVER_ENTERED = re.compile(r"checkpoints|ray|attempts/\d+/code")
# What only the supervisor and the nodes write; everything else in the user's folder is the user's side's own.
_COMES_BACK = re.compile(
    r"status\.json | events\.jsonl | supervisor\.log | uploaded\.json | attempts/.* | tracking/.*",
    re.VERBOSE | re.DOTALL,
)
_STATUS = RunPaths(Path()).status.name


def may_travel(path: str) -> bool:
    return _NEVER.fullmatch(path) is None


def may_enter(folder: str) -> bool:
    return _NEVER_ENTERED.fullmatch(folder) is None


def comes_back(path: str) -> bool:
    """Whether a cluster may write this file in the user's run folder."""
    return may_travel(path) and _COMES_BACK.fullmatch(path) is not None


def grows(path: str) -> bool:
    """Whether a file is only ever appended to."""
    return path.endswith((".log", ".jsonl"))


def is_summary(path: str) -> bool:
    """Whether it says what others say at length: it is read before them, and told after them."""
    return path == _STATUS


def told_after(path: str, content: bytes) -> tuple[str, ...]:
    """How the paths begin of what must be told before this.

    Of a node's record, that is what else the node wrote; of the run's status, all of the attempts that have ended, and
    all of the run once it has: who reads it looks for nothing more of them.
    """
    if not is_summary(path):
        return (f"{path.removesuffix(PurePosixPath(path).suffix)}.",)
    try:
        fields = json.loads(content)
        if State(fields["state"]).terminal:
            return ("",)
        ended = [attempt["number"] for attempt in fields["attempts"] if attempt["ended_at"] is not None]
    except (ValueError, TypeError, KeyError):
        return ()
    return tuple(f"attempts/{number}/" for number in ended)

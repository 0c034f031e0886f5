"""`include_paths`, checked and in the form that everything below works with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from airlane.errors import SnapshotError
from airlane.snapshot.left_out import GIT
from airlane.snapshot.wording import listed


def normalised(include_paths: Sequence[str]) -> tuple[bytes, ...]:
    """Relative paths without "." parts; b"" stands for the root itself.

    Raises:
        SnapshotError: one is empty, absolute, climbs out with "..", or lies in a `.git`.
    """
    return tuple(dict.fromkeys(_normalised(os.fsencode(path)) for path in include_paths))


def _normalised(path: bytes) -> bytes:
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if not path or path.startswith(b"/") or b".." in parts:
        raise SnapshotError(f"include_paths: {os.fsdecode(path)!r} must be a path inside root_path, without `..`")
    if GIT in parts:
        raise SnapshotError(f"include_paths: {os.fsdecode(path)!r} is Git's own folder, which is never packaged")
    return b"/".join(parts)


def parents(path: bytes) -> Iterator[bytes]:
    """The folders above a path, the outermost first, without the root."""
    position = path.find(b"/")
    while position > 0:
        yield path[:position]
        position = path.find(b"/", position + 1)


def lineage(path: bytes) -> tuple[bytes, ...]:
    """The folders above a path and the path itself."""
    return (*parents(path), path) if path else ()


def within(path: bytes, include: Sequence[bytes]) -> bool:
    """Whether a path is one of these or lies below one of them."""
    return any(not chosen or path == chosen or path.startswith(chosen + b"/") for chosen in include)


def missing(paths: Sequence[bytes], where: str) -> SnapshotError:
    """The error for include_paths that name nothing."""
    verb = "does" if len(paths) == 1 else "do"
    return SnapshotError(
        f"include_paths: {listed(paths)} {verb} not exist in {where}",
        hint="paths are relative to root_path, and `*` is an ordinary character in them",
    )

"""Folders that live as long as the command, such as Ray's short temporary folder."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def make_scratch(folders: Iterable[str]) -> None:
    """Make folders that only this user can enter. Raises OSError, also when another user was there first."""
    for folder in folders:
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            found = os.lstat(folder)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                raise
            os.chmod(folder, 0o700)


def remove_left_scratch(run_id: str, *, attempt: int | None = None, node: int | None = None) -> None:
    """Remove what agents of a run (of one attempt, of one node) left that were killed: nothing of them may run now."""
    import glob

    parts = (run_id, "*" if attempt is None else str(attempt), "[0-9]*" if node is None else str(node))
    start = f"/tmp/air-{'-'.join(parts)}"  # noqa: S108 - see rendezvous.ray_tmpdir
    remove_scratch([*glob.glob(start), *glob.glob(f"{start}.box")])


def remove_scratch(folders: Iterable[str]) -> None:
    """Remove folders and all they hold; symbolic links are removed, not followed. What resists is left."""
    for folder in folders:
        if os.path.islink(folder):
            continue
        for parent, inner, files in os.walk(folder, topdown=False):
            for name in files:
                _remove(os.path.join(parent, name), os.unlink)
            for name in inner:
                path = os.path.join(parent, name)
                _remove(path, os.unlink if os.path.islink(path) else os.rmdir)
        _remove(folder, os.rmdir)


def _remove(path: str, how: Callable[[str], None]) -> None:
    try:
        how(path)
    except OSError:
        return

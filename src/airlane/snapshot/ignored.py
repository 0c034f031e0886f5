"""What ignore files say where there is no repository, and in repositories inside the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airlane.errors import SnapshotError
from airlane.snapshot.git import Git
from airlane.snapshot.repository import open_repository, read_working_tree


def ignored_outside_git(folder: Path) -> frozenset[bytes]:
    """What .gitignore files in a plain folder, and the user's core.excludesFile, leave out; Git's own rules decide.

    Raises:
        GitMissingError: git is not installed.
        SnapshotError: git could not read the folder.
    """
    with _empty_git_dir() as git_dir:
        return read_working_tree(Git(folder, git_dir), prefix=b"", untracked="normal").ignored


def ignored_in_nested(folder: Path) -> frozenset[bytes]:
    """The same for a folder that holds its own `.git`: a submodule, a worktree, a clone inside a clone.

    A `.git` that does not work (a submodule copied without its repository) leaves the ignore files to go by.
    """
    try:
        repository = open_repository(folder)
    except SnapshotError:
        repository = None
    if repository is None or repository.prefix:
        return ignored_outside_git(folder)
    return repository.tree.ignored


@contextmanager
def _empty_git_dir() -> Iterator[Path]:
    """The least that git takes for a repository."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="air-git-") as name:
        git_dir = Path(name)
        (git_dir / "objects").mkdir()
        (git_dir / "refs").mkdir()
        (git_dir / "HEAD").write_bytes(os.fsencode("ref: refs/heads/none\n"))
        yield git_dir

"""What ignore files say where there is no repository, and in repositories inside the folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from airlane.errors import SnapshotError
from airlane.frozen import frozen
from airlane.snapshot.git import Git
from airlane.snapshot.repository import Repository, open_repository, read_working_tree


@frozen
class IgnoreRules:
    """What ignore files leave out of a folder: `paths`, relative to it, and a folder once for all that it holds."""

    root: Path
    paths: frozenset[bytes]
    in_repository: bool

    def in_nested(self, folder: bytes) -> frozenset[bytes]:
        """The same for a folder in it with its own `.git`: a submodule, a worktree, a clone inside a clone.

        A `.git` that does not work (a submodule copied without its repository) leaves the ignore files to go by.
        """
        place = self.root / os.fsdecode(folder)
        try:
            repository = open_repository(place)
        except SnapshotError:
            repository = None
        if repository is None or repository.prefix:
            return _outside_git(place)
        return repository.tree.ignored

    def among(self, paths: Iterable[bytes]) -> set[bytes]:
        """Those of these pipes, sockets and devices that a pattern names; `git status` says nothing of such files."""
        by_folder: dict[bytes, list[bytes]] = {}
        for path in paths:
            folder, _, name = path.rpartition(b"/")
            by_folder.setdefault(folder, []).append(name)
        found: set[bytes] = set()
        for folder, names in by_folder.items():
            place = self.root / os.fsdecode(folder)
            prefix = folder + b"/" if folder else b""
            found.update(prefix + name for name in self._check(place, prefix, names))
        return found

    def _check(self, place: Path, prefix: bytes, names: list[bytes]) -> list[bytes]:
        if self.in_repository:
            return Git(place).ask("check-ignore", "-z", "--stdin", stdin=b"\0".join(names)).output.split(b"\0")[:-1]
        with _empty_git_dir() as git_dir:
            paths = b"\0".join(prefix + name for name in names)
            answer = Git(self.root, git_dir).ask("check-ignore", "-z", "--stdin", stdin=paths)
        return [path.removeprefix(prefix) for path in answer.output.split(b"\0")[:-1]]


def ignore_rules(root: Path, repository: Repository | None) -> IgnoreRules:
    """What .gitignore files and the user's core.excludesFile say, in a repository or in a plain folder.

    Raises:
        GitMissingError: git is not installed.
        SnapshotError: git could not read the folder.
    """
    if repository is not None:
        return IgnoreRules(root, repository.tree.ignored, in_repository=True)
    return IgnoreRules(root, _outside_git(root), in_repository=False)


def _outside_git(folder: Path) -> frozenset[bytes]:
    with _empty_git_dir() as git_dir:
        return read_working_tree(Git(folder, git_dir), prefix=b"", untracked="normal").ignored


@contextmanager
def _empty_git_dir() -> Iterator[Path]:
    """The least that git takes for a repository."""
    import tempfile

    try:
        place = tempfile.TemporaryDirectory(prefix="air-git-")
    except OSError as error:
        raise SnapshotError(f"no temporary folder could be made: {error.strerror}", hint="set TMPDIR") from error
    with place as name:
        git_dir = Path(name)
        (git_dir / "objects").mkdir()
        (git_dir / "refs").mkdir()
        (git_dir / "HEAD").write_bytes(os.fsencode("ref: refs/heads/none\n"))
        yield git_dir

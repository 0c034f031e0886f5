"""The repository around a folder: what Git ignores there, what has changed, and the state worth recording."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from airlane.errors import SnapshotError
from airlane.frozen import frozen
from airlane.snapshot.git import Answer, Git
from airlane.snapshot.remote_url import without_credentials

_DIFF_LIMIT_BYTES = 8 << 20
_FIELDS_BEFORE_PATH = {b"1": 8, b"u": 10}


@frozen
class WorkingTree:
    """How a folder differs from its commit. Paths are relative to that folder.

    `ignored` names ignored files, and ignored folders once for all that is in them. `itself_ignored`: the repository
    around the folder wants to know nothing of it.
    """

    commit: str | None
    branch: str | None
    changed: tuple[bytes, ...]
    untracked: tuple[bytes, ...]
    ignored: frozenset[bytes]
    itself_ignored: bool


@frozen
class Repository:
    """A Git repository, seen from one of its folders. `prefix` is that folder's path in it: empty, or ends in "/"."""

    git: Git
    prefix: bytes
    shallow: bool
    tree: WorkingTree

    @property
    def top(self) -> Git:
        """Git at the top of the working tree."""
        depth = self.prefix.count(b"/")
        return Git(self.git.folder.parents[depth - 1]) if depth else self.git


def open_repository(root: Path) -> Repository | None:
    """The repository around a folder; None if there is none, or if it ignores that folder.

    Raises:
        GitMissingError: git is not installed.
        SnapshotError: the repository belongs to somebody else, or is damaged.
    """
    git = Git(root)
    answer = git.ask("rev-parse", "--is-inside-work-tree", "--is-shallow-repository", "--show-prefix")
    if not answer.ok:
        _refuse_unless_absent(answer, root)
        return None
    inside, shallow, prefix = answer.output.split(b"\n", 2)
    if inside != b"true":
        return None
    prefix = prefix.removesuffix(b"\n")
    tree = read_working_tree(git, prefix)
    return None if tree.itself_ignored else Repository(git, prefix, shallow == b"true", tree)


def _refuse_unless_absent(answer: Answer, root: Path) -> None:
    if "dubious ownership" in answer.problem:
        found = re.search(r"dubious ownership in repository at '(.*)'", answer.problem)
        place = found.group(1) if found else str(root)
        raise SnapshotError(
            f"git does not read the repository at {place}: it belongs to another user",
            hint=f"git config --global --add safe.directory '{place}'",
        )
    if "not a git repository" not in answer.problem and "must be run in a work tree" not in answer.problem:
        raise SnapshotError(f"git failed in {root}: {answer.last_words}")


def read_working_tree(git: Git, prefix: bytes, untracked: str = "all") -> WorkingTree:
    """One `git status` of a folder; `prefix` is the folder's path in its repository.

    "matching" lists a folder as ignored only if a pattern says so, never because all that it holds is ignored: such a
    folder (an empty logs/) belongs to the snapshot.
    Source: git-status(1), "Porcelain Format Version 2".
    """
    output = git.read(
        "status",
        "--porcelain=v2",
        "-z",
        "--branch",
        "--no-ahead-behind",
        "--no-renames",
        "--ignore-submodules=none",
        "--ignored=matching",
        f"--untracked-files={untracked}",
        "--",
        ".",
    )
    head: dict[bytes, bytes] = {}
    found: dict[bytes, list[bytes]] = {b"changed": [], b"?": [], b"!": []}
    itself_ignored = False
    for mark, path in _status_lines(output):
        if mark == b"#":
            name, _, value = path.partition(b" ")
            head[name] = value
        elif not path.startswith(prefix) or path == prefix:
            itself_ignored = itself_ignored or (mark == b"!" and prefix.startswith(path))
        else:
            found[mark].append(path[len(prefix) :].rstrip(b"/"))
    commit = os.fsdecode(head.get(b"branch.oid", b""))
    branch = os.fsdecode(head.get(b"branch.head", b""))
    return WorkingTree(
        commit=commit if commit and commit != "(initial)" else None,
        branch=branch if branch and branch != "(detached)" else None,
        changed=tuple(found[b"changed"]),
        untracked=tuple(found[b"?"]),
        ignored=frozenset(found[b"!"]),
        itself_ignored=itself_ignored,
    )


def _status_lines(output: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each line as its mark ("#", "?", "!", or "changed") and what it is about."""
    for line in output.split(b"\0"):
        mark, _, rest = line.partition(b" ")
        if mark in (b"#", b"?", b"!"):
            yield mark, rest
        elif mark in _FIELDS_BEFORE_PATH:
            yield b"changed", line.split(b" ", _FIELDS_BEFORE_PATH[mark])[-1]


def remote_url(repository: Repository) -> str | None:
    """Where the branch is pushed to, else origin, else the first remote; without credentials."""
    answer = repository.git.ask("config", "-z", "--get-regexp", r"^(remote\..*\.url|branch\..*\.remote)$")
    settings: dict[str, str] = {}
    for line in os.fsdecode(answer.output).split("\0"):
        name, separator, value = line.partition("\n")
        if separator:
            settings.setdefault(name, value)
    upstream = settings.get(f"branch.{repository.tree.branch}.remote", "origin")
    candidates = [settings.get(f"remote.{upstream}.url"), settings.get("remote.origin.url")]
    candidates += [value for name, value in settings.items() if name.startswith("remote.")]
    return next((without_credentials(url) for url in candidates if url), None)


def working_diff(repository: Repository, include: Iterable[bytes], withheld: Iterable[bytes]) -> str | None:
    """How tracked files differ from the commit, as a patch; a binary file is named, not shown.

    `withheld` paths (they may hold secrets) stay out of it. A patch over 8 MB is cut, and says so.
    """
    if repository.tree.commit is None or not repository.tree.changed:
        return None
    paths = [b":(literal)" + path for path in include] or [b"."]
    paths += [b":(exclude,literal)" + path for path in withheld]
    look = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", "--submodule=short")
    names = ("--src-prefix=a/", "--dst-prefix=b/")
    with repository.git.stream("diff", *look, *names, "HEAD", "--", *paths) as output:
        patch = output.read(_DIFF_LIMIT_BYTES + 1)
    text = patch[:_DIFF_LIMIT_BYTES].decode("utf-8", "replace")
    if len(patch) > _DIFF_LIMIT_BYTES:
        text += f"\n(the rest of this diff, beyond {_DIFF_LIMIT_BYTES >> 20} MB, is left out)\n"
    return text or None

"""What a snapshot is asked for, what it holds, and the plan that names it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from airlane.frozen import frozen
from airlane.store.records import GitState


@frozen
class CodeRequest:
    """Which code to freeze: a folder, or what a commit or branch of its repository holds of it.

    `include_paths` are relative to `root`; empty means everything. At most one of `branch` and `commit` is set;
    `remote` goes with `branch`: a remote's name, True for origin, None or False for the local head. `leave_out` are
    files and folders that are not the user's code wherever they lie: our own.
    """

    root: Path
    include_paths: tuple[str, ...] = ()
    branch: str | None = None
    commit: str | None = None
    remote: str | bool | None = None
    leave_out: tuple[Path, ...] = ()

    @property
    def pinned(self) -> bool:
        return self.branch is not None or self.commit is not None


class Kind(StrEnum):
    """What stands at a path; the value is part of the digest."""

    FILE = "f"
    FOLDER = "d"
    LINK = "l"


class Entry(NamedTuple):
    """One path of a snapshot: bytes as the file system has them, relative to the root, with "/" between parts.

    A tuple because every plan makes one for each file of the user's. `mode` is permission bits alone; `sha256` is
    of a file's content, `target` is a link's.
    """

    path: bytes
    kind: Kind
    mode: int
    size_bytes: int = 0
    sha256: str = ""
    target: bytes = b""

    @property
    def order(self) -> bytes:
        """The key that puts entries in the order Git has them: a folder before what is in it."""
        return self.path + b"/" if self.kind is Kind.FOLDER else self.path


class Source(Protocol):
    """Where the content of a planned snapshot is read from."""

    def contents(self, entries: tuple[Entry, ...]) -> Iterator[tuple[Entry, Iterable[bytes]]]:
        """The entries in order, each with its content in chunks, read to the end before the next is asked for.

        Raises:
            SnapshotError: an entry is gone, or cannot be read any more.
        """


@frozen
class SnapshotPlan:
    """Exactly what would be frozen. `digest` names the content: same tree, same digest, on any machine.

    `files` counts files and links. `diff` is how the working tree differs from the commit, as text.
    `largest` names the largest files, with bytes, where the whole is over 100 MB.
    """

    root: Path
    root_name: str
    files: int
    size_bytes: int
    digest: str
    git: GitState | None
    diff: str | None
    warnings: tuple[str, ...]
    largest: tuple[tuple[str, int], ...]
    entries: tuple[Entry, ...] = field(repr=False)
    source: Source = field(repr=False)

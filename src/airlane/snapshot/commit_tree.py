"""Snapshots of what a commit holds, whatever the working tree looks like."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from airlane.errors import SnapshotError
from airlane.frozen import frozen
from airlane.snapshot.git import Git
from airlane.snapshot.include import lineage, missing, parents, within
from airlane.snapshot.left_out import KEY_HEAD_BYTES, VENV_MARK, left_out_by_name, may_hold_secrets
from airlane.snapshot.model import Entry, Kind
from airlane.snapshot.refusal import refusal, refused_links
from airlane.snapshot.tarstream import Member, TarReader

_SUBMODULE_MODE = b"160000"


@frozen
class CommitFiles:
    """What a commit gives to a snapshot; `absent_submodules` are empty folders in it."""

    entries: tuple[Entry, ...]
    withheld: tuple[bytes, ...]
    absent_submodules: tuple[bytes, ...]


@frozen
class Subtree:
    """A folder as a commit of its repository has it. `prefix` is its path there: empty, or ends in "/"."""

    top: Git
    commit: str
    prefix: bytes

    def contents(self, entries: tuple[Entry, ...]) -> Iterator[tuple[Entry, Iterable[bytes]]]:
        """See `model.Source`."""
        wanted = {entry.path: entry for entry in entries}
        for member, chunks in self.members():
            entry = wanted.pop(member.path, None)
            if entry is not None:
                yield entry, _checked(entry, chunks)
        if wanted:
            raise _differs(next(iter(wanted)))

    def members(self) -> Iterator[tuple[Member, Iterator[bytes]]]:
        """Everything in it, paths relative to it, as `git archive` gives it: filters and attributes applied.

        What submodules hold at this commit follows, where their local checkouts know it.
        """
        paths = (b":(literal)" + self.prefix.rstrip(b"/"),) if self.prefix else ()
        # The umask of the archive makes its modes what a checkout gives: 0644 and 0755.
        archive = ("-c", "tar.umask=0022", "archive", "--format=tar", self.commit, "--")
        with self.top.stream(*archive, *paths) as output:
            reader = TarReader(output, f"the archive of {self.commit[:12]}")
            for member in reader:
                if member.path.startswith(self.prefix) and len(member.path) > len(self.prefix):
                    yield member._replace(path=member.path[len(self.prefix) :]), reader.chunks()
        for path, submodule in self.submodules().items():
            if submodule is not None:
                for member, chunks in submodule.members():
                    yield member._replace(path=path + b"/" + member.path), chunks

    def submodules(self) -> dict[bytes, Subtree | None]:
        """Each submodule by path; None where its commit is not on this machine."""
        found: dict[bytes, Subtree | None] = {}
        for line in self.top.read("ls-tree", "-r", "-z", "--full-tree", self.commit).split(b"\0"):
            about, _, path = line.partition(b"\t")
            if about.startswith(_SUBMODULE_MODE) and path.startswith(self.prefix):
                commit = os.fsdecode(about.split(b" ")[2])
                found[path[len(self.prefix) :]] = _submodule(self.top.folder / os.fsdecode(path), commit)
        return found


def _submodule(folder: Path, commit: str) -> Subtree | None:
    """None unless the folder is a repository of its own that has the commit."""
    git = Git(folder)
    known = os.path.lexists(folder / ".git") and git.ask("cat-file", "-e", f"{commit}^{{commit}}").ok
    return Subtree(git, commit, b"") if known else None


def read_commit_files(subtree: Subtree, include: Sequence[bytes]) -> CommitFiles:
    """Read, choose, check and digest what a commit holds; `include` is empty for everything.

    Raises:
        SnapshotError: the folder or a path is not in the commit, or cannot be part of a snapshot.
    """
    where = f"commit {subtree.commit[:12]}"
    if subtree.prefix and not subtree.top.ask("cat-file", "-e", _object_name(subtree)).ok:
        folder = os.fsdecode(subtree.prefix.rstrip(b"/"))
        raise SnapshotError(f"the folder {folder} is not in {where} of {subtree.top.folder}")
    everything: dict[bytes, Entry] = {}
    secrets: set[bytes] = set()
    for member, chunks in subtree.members():
        entry, secret = _entry(member, chunks)
        everything[entry.path] = entry
        if secret:
            secrets.add(entry.path)
    absent = [path for path in include if path and path not in everything]
    if absent:
        raise missing(absent, where)
    chosen = _choose(everything, include or (b"",), secrets)
    offenders = refused_links({path: entry.target for path, entry in chosen.items() if entry.kind is Kind.LINK})
    if offenders:
        raise refusal(offenders)
    empty = [path for path, submodule in subtree.submodules().items() if submodule is None and path in chosen]
    return CommitFiles(
        entries=tuple(sorted(chosen.values(), key=lambda entry: entry.order)),
        withheld=tuple(sorted(path for path in secrets - chosen.keys() if not include or within(path, include))),
        absent_submodules=tuple(empty),
    )


def _object_name(subtree: Subtree) -> bytes:
    return subtree.commit.encode() + b":" + subtree.prefix.rstrip(b"/")


def _entry(member: Member, chunks: Iterator[bytes]) -> tuple[Entry, bool]:
    """The entry, and whether it may hold secrets."""
    name = member.path.rpartition(b"/")[2]
    if member.kind is Kind.FOLDER:
        return Entry(member.path, Kind.FOLDER, member.mode), False
    if member.kind is Kind.LINK:
        return Entry(member.path, Kind.LINK, 0o777, target=member.target), may_hold_secrets(name, lambda: b"")
    digest = hashlib.sha256()
    head = b""
    for chunk in chunks:
        head = head or chunk[:KEY_HEAD_BYTES]
        digest.update(chunk)
    entry = Entry(member.path, Kind.FILE, member.mode, member.size_bytes, digest.hexdigest())
    return entry, may_hold_secrets(name, lambda: head)


def _choose(everything: Mapping[bytes, Entry], include: Sequence[bytes], secrets: set[bytes]) -> dict[bytes, Entry]:
    """The entries that include_paths asks for without what stays out, and the folders above them."""
    marks = (path for path in everything if path.endswith(b"/" + VENV_MARK))
    environments = {path.rpartition(b"/")[0] for path in marks}

    def left_out(path: bytes) -> bool:
        return left_out_by_name(path.rpartition(b"/")[2]) or path in environments or path in secrets

    chosen: dict[bytes, Entry] = {}
    for start in include:
        defaults = not any(left_out(step) for step in lineage(start))
        for path, entry in everything.items():
            below = within(path, (start,))
            if below and not (defaults and any(left_out(step) for step in lineage(path))):
                chosen[path] = entry
    for path in list(chosen):
        chosen.update((parent, everything[parent]) for parent in parents(path))
    return chosen


def _checked(entry: Entry, chunks: Iterator[bytes]) -> Iterator[bytes]:
    if entry.kind is not Kind.FILE:
        return
    digest = hashlib.sha256()
    size_bytes = 0
    for chunk in chunks:
        size_bytes += len(chunk)
        if size_bytes > entry.size_bytes:
            raise _differs(entry.path)
        digest.update(chunk)
        yield chunk
    if size_bytes != entry.size_bytes or digest.hexdigest() != entry.sha256:
        raise _differs(entry.path)


def _differs(path: bytes) -> SnapshotError:
    return SnapshotError(
        f"{os.fsdecode(path)} came out of git differently the second time",
        hint="run it again; an attribute or a filter (git check-attr --all) changes it on the way",
    )

"""Snapshots of the files as they are now, committed or not."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from airlane.frozen import frozen
from airlane.snapshot.hashing import changed, hash_files, lost, read_to_end
from airlane.snapshot.ignored import IgnoreRules
from airlane.snapshot.model import Entry, Kind
from airlane.snapshot.refusal import refusal, refused_links
from airlane.snapshot.stat_cache import StatCache
from airlane.snapshot.walk import Found, Walk

_NO_PERMISSION = f"cannot be read: {os.strerror(errno.EACCES)}"


@frozen
class WorkingFiles:
    """What a working tree gives to a snapshot; `withheld` files may hold secrets and are not among the entries."""

    entries: tuple[Entry, ...]
    withheld: tuple[bytes, ...]
    saw_ignore_files: bool


@frozen
class FolderSource:
    """Reads content from the folder, and holds it to what was planned."""

    root: bytes

    def contents(self, entries: tuple[Entry, ...]) -> Iterator[tuple[Entry, Iterable[bytes]]]:
        """See `model.Source`."""
        for entry in entries:
            yield entry, self._chunks(entry) if entry.kind is Kind.FILE else ()

    def _chunks(self, entry: Entry) -> Iterator[bytes]:
        try:
            descriptor = os.open(
                self.root + b"/" + entry.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            )
        except OSError as error:
            raise lost(entry.path, error) from error
        try:
            left_bytes = entry.size_bytes
            digest = hashlib.sha256()
            for data in read_to_end(descriptor, entry.size_bytes):
                left_bytes -= len(data)
                if left_bytes < 0:
                    raise changed(entry.path)
                digest.update(data)
                yield data
        except OSError as error:
            raise lost(entry.path, error) from error
        finally:
            os.close(descriptor)
        if left_bytes or digest.hexdigest() != entry.sha256:
            raise changed(entry.path)


def read_working_files(
    root: Path,
    include: Sequence[bytes],
    ignore_rules: IgnoreRules | None,
    cache: StatCache | None,
    leave_out: Sequence[bytes] = (),
) -> WorkingFiles:
    """Find, check and digest the files of a folder.

    `ignore_rules` is None where there is no git to say; `include` is empty for everything. `leave_out` counts as
    ignored.

    Raises:
        SnapshotError: a path is missing, vanished, or cannot be part of a snapshot; all offenders at once.
    """
    walk = _walk(root, include, ignore_rules, leave_out)
    files = [found for found in walk.found.values() if found.kind is Kind.FILE]
    others = [found for found in walk.found.values() if found.kind is not Kind.FILE]
    walk.refused |= refused_links({found.path: found.target for found in others if found.kind is Kind.LINK})
    if walk.refused:
        raise refusal(walk.refused | _unreadable(walk.root, files))
    known = cache.load() if cache else {}
    hashed = hash_files(walk.root, files, known)
    if hashed.unreadable:
        raise refusal(dict.fromkeys(hashed.unreadable, _NO_PERMISSION))
    if cache and hashed.memories != known:
        cache.save(hashed.memories)
    entries = hashed.entries + [Entry(found.path, found.kind, found.mode, target=found.target) for found in others]
    return WorkingFiles(
        entries=tuple(sorted(entries, key=lambda entry: entry.order)),
        withheld=tuple(sorted(path for path in walk.withheld if path not in walk.found)),
        saw_ignore_files=walk.saw_ignore_files,
    )


def _walk(root: Path, include: Sequence[bytes], ignore_rules: IgnoreRules | None, leave_out: Sequence[bytes]) -> Walk:
    if ignore_rules is None:
        walk = Walk(os.fsencode(root), {*leave_out}, lambda _: frozenset())
    else:
        walk = Walk(os.fsencode(root), {*ignore_rules.paths, *leave_out}, ignore_rules.in_nested)
    if include:
        walk.only(include)
    else:
        walk.everything()
    excused = ignore_rules.among(walk.special) if ignore_rules and walk.special else set()
    walk.refused |= {path: reason for path, reason in walk.special.items() if path not in excused}
    return walk


def _unreadable(root: bytes, files: Iterable[Found]) -> dict[bytes, str]:
    """So that a refusal names everything there is to mend, not the first kind of it."""
    return {file.path: _NO_PERMISSION for file in files if not os.access(root + b"/" + file.path, os.R_OK)}

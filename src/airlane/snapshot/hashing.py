"""SHA-256 of many files, and of the tree they make."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from airlane.errors import SnapshotError
from airlane.snapshot.model import Entry, Kind
from airlane.snapshot.stat_cache import memory, remembered
from airlane.snapshot.walk import Found
from airlane.snapshot.wording import shown

_SCHEME = b"airlane snapshot 1"
CHUNK_BYTES = 1 << 20
_LARGE_BYTES = 1 << 20
_BATCH = 64
# A small file takes 10 us from the page cache, where threads only get in each other's way. From a cold disk or over a
# network it takes 100 times as long, and eight wait for eight files at once.
_SLOW_FILE_S = 200e-6
_THREADS_WHEN_SLOW = 8


class Content(NamedTuple):
    """What was read of one file."""

    sha256: str
    size_bytes: int


class Hashed(NamedTuple):
    """Files with their digests, what to remember for the next plan, and those that could not be read."""

    entries: list[Entry]
    memories: dict[bytes, bytes]
    unreadable: list[bytes]


def hash_files(root: bytes, files: Sequence[Found], known: Mapping[bytes, bytes]) -> Hashed:
    """Digest every file whose digest is not known from the last plan.

    Raises:
        SnapshotError: a file vanished meanwhile.
    """
    began_ns = time.time_ns()
    hashed = Hashed([], {}, [])
    fresh = []
    for file in files:
        digest = remembered(known, file)
        if digest is None:
            fresh.append(file)
        else:
            hashed.entries.append(Entry(file.path, Kind.FILE, file.mode, file.size_bytes, digest))
            hashed.memories[file.path] = known[file.path]
    for file, content in _contents(root, fresh):
        if content is None:
            hashed.unreadable.append(file.path)
            continue
        hashed.entries.append(Entry(file.path, Kind.FILE, file.mode, content.size_bytes, content.sha256))
        kept = memory(file, content.sha256, began_ns) if content.size_bytes == file.size_bytes else None
        if kept is not None:
            hashed.memories[file.path] = kept
    return hashed


def _contents(root: bytes, files: Sequence[Found]) -> Iterator[tuple[Found, Content | None]]:
    large = [file for file in files if file.size_bytes >= _LARGE_BYTES]
    small = [file for file in files if file.size_bytes < _LARGE_BYTES]
    if large:
        yield from _in_threads(root, [[file] for file in large], min(4, os.cpu_count() or 1))
    done = 0
    while done < len(small):
        began_s = time.perf_counter()
        batch = small[done : done + _BATCH]
        yield from _hash_batch(root, batch)
        done += len(batch)
        if time.perf_counter() - began_s > _SLOW_FILE_S * _BATCH:
            break
    rest = [small[at : at + _BATCH] for at in range(done, len(small), _BATCH)]
    if rest:
        yield from _in_threads(root, rest, _THREADS_WHEN_SLOW)


def _in_threads(
    root: bytes, batches: Sequence[Sequence[Found]], threads: int
) -> Iterator[tuple[Found, Content | None]]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads, thread_name_prefix="air-hash") as pool:
        for done in pool.map(lambda batch: _hash_batch(root, batch), batches):
            yield from done


def _hash_batch(root: bytes, batch: Iterable[Found]) -> list[tuple[Found, Content | None]]:
    return [(file, _hash_file(root, file)) for file in batch]


def _hash_file(root: bytes, file: Found) -> Content | None:
    """None if the file may not be read."""
    try:
        descriptor = os.open(root + b"/" + file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except PermissionError:
        return None
    except OSError as error:
        raise lost(file.path, error) from error
    try:
        return _hash_descriptor(descriptor, file.size_bytes)
    except OSError as error:
        raise lost(file.path, error) from error
    finally:
        os.close(descriptor)


def _hash_descriptor(descriptor: int, expected_bytes: int) -> Content:
    digest = hashlib.sha256()
    size_bytes = 0
    for data in read_to_end(descriptor, expected_bytes):
        digest.update(data)
        size_bytes += len(data)
    return Content(digest.hexdigest(), size_bytes)


def read_to_end(descriptor: int, expected_bytes: int) -> Iterator[bytes]:
    """A regular file in chunks; one system call reads a small one of the size expected, its end included."""
    wanted = expected_bytes + 1
    while True:
        asked = min(max(wanted, 1), CHUNK_BYTES)
        data = os.read(descriptor, asked)
        yield data
        if len(data) < asked:
            return
        wanted -= len(data)


def lost(path: bytes, error: OSError) -> SnapshotError:
    """The error for a file that could not be read although it was there a moment ago."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO):
        return changed(path)
    return SnapshotError(f"{shown(path)} could not be read: {error.strerror}")


def changed(path: bytes) -> SnapshotError:
    """The error for a file that another program wrote, replaced or removed meanwhile."""
    return SnapshotError(
        f"{shown(path)} changed while the code was being frozen",
        hint="run it again; keep files that other programs write out of the code with .gitignore or include_paths",
    )


def tree_digest(root_name: bytes, entries: Iterable[Entry]) -> str:
    """The name of a snapshot: SHA-256 over root name, and kind, mode, content and path of every entry in order.

    NUL separates, since no path or link target can hold it; times and owners are not part of it.
    """
    lines = [_SCHEME, root_name]
    for path, kind, mode, _, sha256, target in entries:
        lines += (b"%b %o %b" % (kind.encode(), mode, sha256.encode()), path, target)
    return hashlib.sha256(b"\0".join(lines)).hexdigest()

"""Write a planned snapshot as one `.tar.zst`, once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from airlane.errors import SnapshotError
from airlane.snapshot.model import Kind, SnapshotPlan
from airlane.snapshot.tarstream import END, header, padding

_LEVEL = 3
_BUFFER_BYTES = 1 << 20
_ROOT_MODE = 0o755


class _Sink(Protocol):
    def write(self, data: bytes | bytearray, /) -> int: ...


def pack(plan: SnapshotPlan, archive: Path, progress: Callable[[int, int], None] | None = None) -> None:
    """Write the archive; nothing happens if it exists, and nobody ever sees it half written.

    `progress` is told the bytes read so far and their total, about once per MiB.

    Raises:
        SnapshotError: a file changed since it was planned, or the disk is full.
    """
    if archive.exists():
        return
    scratch = archive.with_name(f".{archive.name}.{os.urandom(6).hex()}")
    try:
        archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(plan, scratch, progress or (lambda _done, _total: None))
        scratch.replace(archive)
        _sync(archive.parent)
    except OSError as error:
        raise SnapshotError(f"{archive} could not be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):  # the error that counts is the one above
            scratch.unlink(missing_ok=True)


def _write(plan: SnapshotPlan, scratch: Path, progress: Callable[[int, int], None]) -> None:
    import zstandard

    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        # One worker thread compresses while this one reads; any number of them gives the same bytes.
        compressor = zstandard.ZstdCompressor(level=_LEVEL, threads=1, write_checksum=True)
        with compressor.stream_writer(file, closefd=False) as sink:
            _write_members(plan, sink, progress)
        file.flush()
        os.fsync(file.fileno())


def _write_members(plan: SnapshotPlan, sink: _Sink, progress: Callable[[int, int], None]) -> None:
    root = os.fsencode(plan.root_name)
    buffer = bytearray(header(root, Kind.FOLDER, _ROOT_MODE, 0, b""))
    done_bytes = 0
    for entry, chunks in plan.source.contents(plan.entries):
        path, kind, mode, size_bytes, _, target = entry
        buffer += header(root + b"/" + path, kind, mode, size_bytes, target)
        for chunk in chunks:
            buffer += chunk
            if len(buffer) >= _BUFFER_BYTES:
                sink.write(buffer)
                buffer = bytearray()
                progress(min(done_bytes, plan.size_bytes), plan.size_bytes)
            done_bytes += len(chunk)
        buffer += padding(size_bytes)
    buffer += END
    sink.write(buffer)
    progress(plan.size_bytes, plan.size_bytes)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

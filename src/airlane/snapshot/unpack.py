"""Put a packed snapshot on the disk of the node that runs it."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from airlane.errors import SnapshotError
from airlane.snapshot.links import escaping_links
from airlane.snapshot.model import Kind
from airlane.snapshot.tarstream import Member, TarReader
from airlane.snapshot.wording import listed

if TYPE_CHECKING:
    from concurrent.futures import Future  # 10 ms that planning need not pay

_BUFFER_BYTES = 1 << 20
_OWNER_MAY_ALL = 0o700
_LARGE_BYTES = 1 << 20
_BATCH = 64
_THREADS = 8


def unpack(archive: Path, folder: Path) -> Path:
    """Extract into `folder` and give the code's root there, named as the user's own folder.

    Files get the time they are written, as in a fresh clone. The root must not exist yet; it is removed again if
    anything goes wrong.

    Raises:
        SnapshotError: the archive is missing or damaged, or holds a path that leads outside.
    """
    import shutil

    tree: _Tree | None = None
    try:
        with _decompressed(archive) as stream:
            reader = TarReader(stream, str(archive))
            members = iter(reader)
            tree = _Tree(folder, next(members, None), archive)
            with _Writer() as writer:
                for member in members:
                    tree.add(member, reader.chunks(), writer)
            stream.read()  # to the end, where the checksum is
            tree.finish()
    except BaseException as error:
        if tree is not None:
            shutil.rmtree(tree.root, ignore_errors=True)
        if isinstance(error, OSError):
            raise SnapshotError(f"{archive} could not be unpacked: {error.strerror or error}") from error
        raise
    return Path(os.fsdecode(tree.root))


@contextmanager
def _decompressed(archive: Path) -> Iterator[io.BufferedReader]:
    """A node of another cluster may have nothing but the standard library: it is sent gzip."""
    if archive.suffix == ".gz":
        with _gunzipped(archive) as stream:
            yield stream
        return
    import zstandard

    try:
        with archive.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
            yield io.BufferedReader(stream, _BUFFER_BYTES)
    except FileNotFoundError as error:
        raise SnapshotError(f"{archive} does not exist", hint="submit the run again from its code") from error
    except zstandard.ZstdError as error:
        raise SnapshotError(
            f"{archive} is damaged: {error}", hint=f"rm {archive}, then submit the run again from its code"
        ) from error


@contextmanager
def _gunzipped(archive: Path) -> Iterator[io.BufferedReader]:
    import gzip
    import zlib

    try:
        with gzip.open(archive, "rb") as stream:
            yield io.BufferedReader(stream, _BUFFER_BYTES)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SnapshotError(f"{archive} is damaged: {error}") from error


class _Tree:
    """The folder being filled. Only real folders that it made itself are written into, and links come last."""

    def __init__(self, folder: Path, first: Member | None, archive: Path) -> None:
        if first is None or first.kind is not Kind.FOLDER or b"/" in first.path or first.path in (b"", b".", b".."):
            raise SnapshotError(f"{archive} is damaged: it does not begin with the code's folder")
        folder.mkdir(parents=True, exist_ok=True)
        self._archive = archive
        self._name = first.path
        self._base = os.fsencode(folder) + b"/"
        self._folders = {first.path: first.mode}
        self._links: dict[bytes, bytes] = {}
        self.root = self._base + first.path
        self._make(first.path)

    def add(self, member: Member, chunks: Iterator[bytes], writer: _Writer) -> None:
        parent, _, name = member.path.rpartition(b"/")
        if parent not in self._folders or name in (b"", b".", b".."):
            raise self._escapes([member.path])
        path = self._base + member.path
        if member.kind is Kind.FOLDER:
            self._make(member.path)
            self._folders[member.path] = member.mode
        elif member.kind is Kind.LINK:
            self._links[member.path[len(self._name) + 1 :]] = member.target
        elif member.size_bytes < _LARGE_BYTES:
            writer.add(path, member.mode, b"".join(chunks))
        else:
            _write(path, member.mode, chunks)

    def finish(self) -> None:
        outside = escaping_links(self._links)
        if outside:
            raise self._escapes(outside)
        for path, target in self._links.items():
            os.symlink(target, self.root + b"/" + path)  # noqa: PTH211 - bytes, as the user's file system has them
        for path, mode in reversed(self._folders.items()):
            self._path(path).chmod(mode)

    def _make(self, path: bytes) -> None:
        self._path(path).mkdir(_OWNER_MAY_ALL)

    def _path(self, path: bytes) -> Path:
        return Path(os.fsdecode(self._base + path))

    def _escapes(self, paths: list[bytes]) -> SnapshotError:
        return SnapshotError(f"{self._archive} holds paths that lead outside: {listed(paths)}")


class _Writer:
    """Writes small files in threads: making a file is mostly waiting, on a network file system almost nothing else."""

    def __init__(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="air-unpack")
        self._batch: list[tuple[bytes, int, bytes]] = []
        self._batch_bytes = 0
        self._pending: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._send()
                while self._pending:
                    self._pending.popleft().result()
        finally:
            self._pool.shutdown(cancel_futures=True)

    def add(self, path: bytes, mode: int, data: bytes) -> None:
        self._batch.append((path, mode, data))
        self._batch_bytes += len(data)
        if len(self._batch) >= _BATCH or self._batch_bytes >= _LARGE_BYTES:
            self._send()

    def _send(self) -> None:
        self._pending.append(self._pool.submit(_write_all, self._batch))
        self._batch, self._batch_bytes = [], 0
        if len(self._pending) > 2 * _THREADS:
            self._pending.popleft().result()  # so that memory stays bounded, and an error ends the loop early


def _write_all(files: list[tuple[bytes, int, bytes]]) -> None:
    for path, mode, data in files:
        _write(path, mode, (data,))


def _write(path: bytes, mode: int, chunks: Iterable[bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        for chunk in chunks:
            view = memoryview(chunk)
            while view:
                view = view[os.write(descriptor, view) :]
        os.fchmod(descriptor, mode)  # exactly, whatever the umask
    finally:
        os.close(descriptor)

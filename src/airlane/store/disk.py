"""The few ways Airlane writes a file, behind one seam, so that a simulation can make each of them fail."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Protocol

# What a file system without hard links answers to a request for one.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class Disk(Protocol):
    """How run folders are read and written. Every write raises OSError when it fails, having changed nothing."""

    def replace(self, path: Path, data: bytes, *, last: bool = False) -> None:
        """Write the whole file: readers see the old content or the new, after a power cut too.

        After the `last` write of a file, a power cut cannot bring the old content back.
        """

    def append(self, path: Path, data: bytes) -> None:
        """Add to the end; a power cut may cut the last line short."""

    def create(self, path: Path, data: bytes) -> bool:
        """Write a file that must not exist yet; False if it did. Nobody ever sees it half written."""

    def remove(self, path: Path) -> None:
        """Remove a file; nothing happens if there is none."""


class SystemDisk:
    """The real file system. Files are private to the user (0600)."""

    def replace(self, path: Path, data: bytes, *, last: bool = False) -> None:
        scratch = _write_scratch(path, data)
        try:
            scratch.replace(path)
        except OSError:
            scratch.unlink(missing_ok=True)
            raise
        if last:
            _sync_folder(path.parent)

    def append(self, path: Path, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            before = os.fstat(descriptor).st_size
            if os.write(descriptor, data) != len(data):
                os.ftruncate(descriptor, before)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        finally:
            os.close(descriptor)

    def create(self, path: Path, data: bytes) -> bool:
        scratch = _write_scratch(path, data)
        try:
            _link(scratch, path)
        except FileExistsError:
            return False
        finally:
            scratch.unlink(missing_ok=True)
        _sync_folder(path.parent)
        return True

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)


def read_bytes(path: Path) -> bytes | None:
    """The file's content, or None if there is no such file."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def make_private_folder(path: Path) -> None:
    """Create a folder and its parents with mode 0700; existing ones are left as they are."""
    if not path.is_dir():
        make_private_folder(path.parent)  # mkdir(parents=True) would make these readable by others
        path.mkdir(mode=0o700, exist_ok=True)


def _write_scratch(path: Path, data: bytes) -> Path:
    scratch = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
    return scratch


def _link(scratch: Path, path: Path) -> None:
    """Give a complete file its name, unless the name is taken (FileExistsError)."""
    try:
        os.link(scratch, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # No hard links here (an object store, a memory card). Two may then both win, and the later one stays.
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        scratch.replace(path)


def _sync_folder(folder: Path) -> None:
    # Some network file systems refuse to sync a folder; the rename itself has happened.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

"""Reading the files of a folder that others write, replace and remove meanwhile. Links are not followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence

from airlane.frozen import frozen

Identity = tuple[int, ...]
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@frozen
class Content:
    """All of a small file, and the file it was read from."""

    data: bytes
    identity: Identity
    changed_at: float


def plain_files(root: str, enters: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
    """Every plain file below a folder, by its path from there; what vanishes meanwhile is left out."""
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(f"{root}/{folder}"))
        except OSError:
            continue
        for entry in entries:
            path = folder + entry.name
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                if enters(path):
                    folders.append(f"{path}/")
            elif stat.S_ISREG(status.st_mode):
                yield path, status


def identity(status: os.stat_result) -> Identity:
    """What another content of a file that is replaced does not share, unless it was written at the same time."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def inode(status: os.stat_result) -> Identity:
    """What a file keeps while it grows."""
    return status.st_dev, status.st_ino


def read_whole(path: str, most_bytes: int) -> Content | None:
    """A file's content; None where it cannot be read, or is larger."""
    try:
        descriptor = os.open(path, _READING)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        data = _read_to(descriptor, most_bytes + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return Content(data, identity(status), status.st_mtime) if len(data) <= most_bytes else None


def read_piece(
    path: str, offset: int, size: int, expected: Identity, identify: Callable[[os.stat_result], Identity]
) -> bytes | None:
    """`size` bytes, or fewer; None where the file is another than expected, or cannot be read."""
    try:
        descriptor = os.open(path, _READING)
    except OSError:
        return None
    try:
        if identify(os.fstat(descriptor)) != expected:
            return None
        os.lseek(descriptor, offset, os.SEEK_SET)
        return _read_to(descriptor, size)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _read_to(descriptor: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size and (piece := os.read(descriptor, size)):
        pieces.append(piece)
        size -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def fair_shares(wanted: Sequence[int], limit: int) -> list[int]:
    """How much of `limit` each one gets: nobody more than he wants, and who wants little all of it."""
    shares = [0] * len(wanted)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    for place, index in enumerate(order):
        shares[index] = min(wanted[index], -(-limit // (len(order) - place)))
        limit -= shares[index]
    return shares

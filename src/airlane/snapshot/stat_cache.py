"""Digests of files from the last plan, valid while a file's size, inode, mtime and ctime are the same."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from airlane.frozen import frozen
from airlane.snapshot.walk import Found
from airlane.store.disk import SystemDisk, make_private_folder

_HEADER = b"airlane stat cache 1\n"
_SUM_BYTES = 32
_DIGEST_CHARACTERS = 64
# A file changed again within one tick of its file system's clock keeps the same times. Ticks are 1 to 10 ms where
# times have nanoseconds, and up to 2 s where they have none.
_FINE_TICK_NS = 100_000_000
_COARSE_TICK_NS = 2_000_000_000


@frozen
class StatCache:
    """One file of digests for one folder. What is missing or damaged in it is only slower."""

    file: Path

    def load(self) -> dict[bytes, bytes]:
        """What the last plan saw: path to stat fields and digest, in one string of bytes."""
        try:
            data = self.file.read_bytes()
        except OSError:
            return {}
        checksum, header, body = data[:_SUM_BYTES], data[_SUM_BYTES:][: len(_HEADER)], data[_SUM_BYTES + len(_HEADER) :]
        if header != _HEADER or hashlib.sha256(body).digest() != checksum:
            return {}
        fields = body.split(b"\0")
        return dict(zip(fields[::2], fields[1::2], strict=False))

    def save(self, known: Mapping[bytes, bytes]) -> None:
        """Replace the file. A full disk or a read-only home is no reason to fail: the next plan hashes again."""
        body = b"".join(b"%b\0%b\0" % item for item in known.items())
        with contextlib.suppress(OSError):
            make_private_folder(self.file.parent)
            SystemDisk().replace(self.file, hashlib.sha256(body).digest() + _HEADER + body)


def cache_for(cache_dir: Path, root: bytes, include: Iterable[bytes]) -> StatCache:
    """The cache of one folder and one choice of paths in it."""
    name = hashlib.sha256(b"\0".join([root, *include])).hexdigest()[:32]
    return StatCache(cache_dir / f"{name}.stat")


def remembered(known: Mapping[bytes, bytes], file: Found) -> str | None:
    """The digest of a file that has not changed since."""
    entry = known.get(file.path)
    if entry is None or entry[:-_DIGEST_CHARACTERS] != _fields(file):
        return None
    return entry[-_DIGEST_CHARACTERS:].decode("ascii")


def memory(file: Found, digest: str, hashing_began_ns: int) -> bytes | None:
    """What to keep of a file; None if it was so fresh when hashing began that a later change might not show.

    Any change sets ctime to the present, and nobody can set it back.
    """
    tick_ns = _FINE_TICK_NS if file.ctime_ns % 1_000_000_000 else _COARSE_TICK_NS
    if file.ctime_ns > hashing_began_ns - tick_ns:
        return None
    return _fields(file) + digest.encode("ascii")


def _fields(file: Found) -> bytes:
    return b"%d %d %d %d " % (file.size_bytes, file.inode, file.mtime_ns, file.ctime_ns)

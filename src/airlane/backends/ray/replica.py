"""A copy of a folder on another machine, kept up by pieces of its files, while both sides may stop at any moment.

Files that grow (*.log, *.jsonl) move by offset, others whole. One that is replaced is told after what certain others
held when it was read (see run_files.told_after): a node's record after its log, the end of the run after everything.
"""

from __future__ import annotations

import hashlib
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path

from airlane.backends.ray.reading import (
    Identity,
    fair_shares,
    identity,
    inode,
    plain_files,
    read_piece,
    read_whole,
)
from airlane.backends.ray.run_files import grows, is_summary, may_enter, may_travel, told_after
from airlane.errors import StoreError
from airlane.frozen import frozen
from airlane.store.disk import SystemDisk, make_private_folder

PIECE_BYTES = 256 << 10  # of a file in one frame, at most
_KEPT_FOR_RECORDS = 4  # so much of the limit (a fourth) is kept for files that are replaced, if they need it
# A file that changed so shortly before it was read may change again without another time of change.
_YOUNG_S = 0.1
_WRITING = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class Frame:
    """A piece of a file: what stands at `offset`, or (None) its first piece, which replaces all there was before."""

    path: str
    offset: int | None
    data: bytes = field(repr=False)


class GapError(Exception):
    """A piece does not continue the file that the sink has: that file must be told from its beginning."""


_Found = dict[str, os.stat_result]


@frozen
class _Version:
    """What was last read of a small file that is replaced; without an identity, it is to be read again."""

    identity: Identity | None
    digest: bytes


@frozen
class _Held:
    """A content that waits for what begins with `after`: other contents, and files that grow up to these `sizes`."""

    data: bytes
    after: tuple[str, ...]
    sizes: Mapping[str, int]


class _Stream:
    """How far a file has been told that grows, or is large. `anew` says that what the sink has is another file's."""

    def __init__(self, offset: int = 0, file: Identity = (), *, anew: bool = False) -> None:
        self.offset = offset
        self.file = file  # empty before it was seen
        self.anew = anew
        self.told = offset > 0


class Source:
    """What is new below a folder since the last look. For one thread."""

    def __init__(
        self,
        root: Path,
        travels: Callable[[str], bool] = may_travel,
        positions: Mapping[str, int] | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`travels` chooses among the files that may leave at all; `positions` are those of the sink."""
        self._root = str(root)
        self._travels = travels
        self._clock = clock
        self._streams: dict[str, _Stream] = {}
        self._versions: dict[str, _Version] = {}
        self._held: dict[str, _Held] = {}
        self.resume(positions or {})

    def resume(self, positions: Mapping[str, int]) -> None:
        """Go on from what a sink has; files that are replaced are told again."""
        self._streams = {path: _Stream(size) for path, size in positions.items()}
        self._versions.clear()
        self._held.clear()

    def changes(self, limit_bytes: int) -> tuple[Frame, ...]:
        """About `limit_bytes` of what is new, in the order for the sink; nothing only where nothing is new."""
        found = self._found_after_reading()
        held_bytes = sum(len(held.data) for held in self._held.values())
        frames = list(self._pieces(found, limit_bytes - min(held_bytes, limit_bytes // _KEPT_FOR_RECORDS)))
        frames += self._released(found, limit_bytes - sum(len(frame.data) for frame in frames))
        return tuple(frames)

    def _found_after_reading(self) -> _Found:
        """Hold what is fresh, and find what was written before it."""
        found = self._walk()
        fresh = [path for path in found if is_summary(path) and self._is_fresh(path, found[path])]
        if fresh:
            found = self._walk()  # what it sums up was written before it, and is read after it
        fresh += [path for path in found if not is_summary(path) and self._is_fresh(path, found[path])]
        if fresh:
            found = self._walk()
            growing = sorted(filter(grows, found))
            for path in fresh:
                held = self._held[path]
                before = {name for begins in held.after for name in _beginning(begins, growing)}
                self._held[path] = replace(held, sizes={name: found[name].st_size for name in before})
        return found

    def _walk(self) -> _Found:
        files = plain_files(self._root, may_enter)
        return {path: status for path, status in files if may_travel(path) and self._travels(path)}

    def _is_fresh(self, path: str, status: os.stat_result) -> bool:
        """Whether a small file that is replaced has another content than the last time; that is held then."""
        if _is_stream(path, status):
            return False
        known = self._versions.get(path)
        if known is not None and known.identity == identity(status):
            return False
        content = read_whole(f"{self._root}/{path}", PIECE_BYTES)
        if content is None:
            return False
        settled = abs(self._clock() - content.changed_at) > _YOUNG_S
        digest = hashlib.blake2b(content.data, digest_size=16).digest()
        self._versions[path] = _Version(content.identity if settled else None, digest)
        if known is not None and known.digest == digest:
            return False
        self._streams.pop(path, None)
        self._held[path] = _Held(content.data, told_after(path, content.data), {})
        return True

    def _pieces(self, found: _Found, limit_bytes: int) -> Iterator[Frame]:
        """What the streams have gained, a fair share of each. What cannot be read is taken out of `found`."""
        gained: list[tuple[str, _Stream, int]] = []
        for path, status in found.items():
            if _is_stream(path, status):
                stream = self._stream(path, status)
                wanted = status.st_size - stream.offset
                if wanted or stream.anew or not stream.told:
                    gained.append((path, stream, wanted))
        shares = fair_shares([wanted for _, _, wanted in gained], max(limit_bytes, 1))
        for (path, stream, _), share in zip(gained, shares, strict=True):
            end = stream.offset + share
            while stream.offset < end or stream.anew or not stream.told:
                frame = self._next_piece(path, stream, min(end - stream.offset, PIECE_BYTES))
                if frame is None:
                    del found[path]
                    break
                yield frame

    def _stream(self, path: str, status: os.stat_result) -> _Stream:
        """The file's stream, begun anew where the file is not the one that it was."""
        file = _stream_file(path)(status)
        stream = self._streams.get(path)
        if stream is None:
            stream = _Stream(file=file, anew=not grows(path))
        elif stream.file not in ((), file) or stream.offset > status.st_size or not (stream.file or grows(path)):
            stream = _Stream(file=file, anew=True)
        stream.file = file
        self._streams[path] = stream
        self._versions.pop(path, None)
        self._held.pop(path, None)
        return stream

    def _next_piece(self, path: str, stream: _Stream, size: int) -> Frame | None:
        data = read_piece(f"{self._root}/{path}", stream.offset, size, stream.file, _stream_file(path))
        if data is None or (size and not data):
            return None
        frame = Frame(path, None if stream.anew else stream.offset, data)
        stream.offset += len(data)
        stream.anew, stream.told = False, True
        return frame

    def _released(self, found: _Found, room_bytes: int) -> Iterator[Frame]:
        """The held contents that need not wait any longer; one at least, however little room there is."""
        released = 0
        for path in sorted(self._held, key=is_summary):
            held = self._held[path]
            if not self._is_next(path, found):
                continue
            if released and released + len(held.data) > room_bytes:
                return
            released += len(held.data)
            yield Frame(path, None, self._held.pop(path).data)

    def _is_next(self, path: str, found: _Found) -> bool:
        """Whether all is told that comes before it. What is gone, or was cut short, has no more to tell."""
        held = self._held[path]
        if any(other.startswith(held.after) for other in self._held if other != path):
            return False
        sizes = ((name, min(size, found[name].st_size)) for name, size in held.sizes.items() if name in found)
        return all(self._streams[name].offset >= size for name, size in sizes)


def _is_stream(path: str, status: os.stat_result) -> bool:
    """Whether a file is told in pieces."""
    return grows(path) or status.st_size > PIECE_BYTES


def _stream_file(path: str) -> Callable[[os.stat_result], Identity]:
    return inode if grows(path) else identity


def _beginning(begins: str, names: list[str]) -> Iterator[str]:
    """Those of the sorted names that begin so."""
    for index in range(bisect_left(names, begins), len(names)):
        if not names[index].startswith(begins):
            return
        yield names[index]


class Sink:
    """The copy. Every frame may come again; one that fails (OSError) has lost nothing, and is to be applied again."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._disk = SystemDisk()
        self._unsettled: set[Path] = set()

    def apply(self, frame: Frame) -> None:
        """Write what is missing.

        Raises:
            GapError: it does not continue what there is.
            StoreError: it leads out of the folder.
            OSError: the disk refuses.
        """
        path = self._root / checked(frame.path)
        make_private_folder(path.parent)
        if frame.offset is None:
            self._disk.replace(path, frame.data)
        else:
            self._append(path, frame.offset, frame.data)
            self._unsettled.add(path)

    def _append(self, path: Path, offset: int, data: bytes) -> None:
        created = 0 if offset else os.O_CREAT
        try:
            descriptor = os.open(path, _WRITING | created, 0o600)
        except FileNotFoundError as error:
            raise GapError(f"{path} is not there, and {offset} bytes of it should be") from error
        try:
            size = os.fstat(descriptor).st_size
            if size < offset:
                raise GapError(f"{path} has {size} bytes, not {offset}")
            rest = memoryview(data)[size - offset :]
            while rest:
                written = os.pwrite(descriptor, rest, size)
                size += written
                rest = rest[written:]
        finally:
            os.close(descriptor)

    def settle(self) -> None:
        """Return when all that was applied would outlast a power cut. Raises OSError."""
        while self._unsettled:
            path = self._unsettled.pop()
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                os.fsync(descriptor)
            except OSError:
                self._unsettled.add(path)
                raise
            finally:
                os.close(descriptor)

    def positions(self) -> dict[str, int]:
        """How much it has of each file that grows: where a source goes on."""
        files = plain_files(str(self._root), may_enter)
        return {path: status.st_size for path, status in files if grows(path)}


def checked(path: str) -> str:
    """Raises StoreError for a path that leads out of the folder, or into its hidden ones."""
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise StoreError(f"a file that would be written outside of the run folder was refused: {path!r}")
    return path

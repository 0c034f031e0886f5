"""The cluster's end of the way to the user: frames in numbered files where Ray's dashboard shows them.

Ray serves what lies in the log folder of a node byte by byte, but only from a file's beginning or by its last lines:
so the files are kept small, and a full one names the next.
"""

from __future__ import annotations

import errno
import os
import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from airlane.backends.ray.replica import Frame, Source
from airlane.backends.ray.wire import VERSION, Kind, decode_lines, encode_frame, encode_line
from airlane.store.disk import make_private_folder, read_bytes

PART_BYTES = 1 << 20
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


def part_name(name: str, part: int) -> str:
    return f"{name}-{part}.out"


class Outbox:
    """What was put into it is written in order. Another one of the same name goes on after the first."""

    def __init__(self, folder: Path, name: str, *, part_bytes: int = PART_BYTES) -> None:
        """`name` may begin with folders. Raises OSError."""
        self._base = folder / name
        self._part_bytes = part_bytes
        self._unwritten: deque[tuple[Kind, bytes]] = deque()
        make_private_folder(self._base.parent)
        last = self._last_part()
        self._part = 0 if last is None else last + 1
        self._lines, self._size = 1, self._begin(self._part)
        if last is not None:  # the one before it too: its end may be what was to be written next
            self._lead_on(last)
            self._lead_on(last - 1)

    def put(self, frames: Sequence[Frame]) -> None:
        """Write frames, and before them what the disk has refused so far.

        Raises:
            OSError: the disk refuses. Nothing is lost: `flush` tries again.
        """
        self._unwritten.extend((Kind.FRAME, encode_frame(frame)) for frame in frames)
        self.flush()

    def end(self) -> None:
        """Say that nothing more will come. Raises OSError: then `flush` tries again."""
        self._unwritten.append((Kind.END, b""))
        self.flush()

    def flush(self) -> None:
        """Raises OSError when something is still not written."""
        while self._unwritten:
            lines, taken = self._next_lines()
            self._append(lines)
            for _ in range(taken):
                self._unwritten.popleft()
            if self._size >= self._part_bytes:
                self._turn()

    def _next_lines(self) -> tuple[list[bytes], int]:
        """As much as this part takes, with a mark at the end; and how many of the unwritten lines that are."""
        lines: list[bytes] = []
        size = self._size
        for kind, content in self._unwritten:
            lines.append(encode_line(self._lines + len(lines), kind, content))
            size += len(lines[-1])
            if size >= self._part_bytes:
                break
        taken = len(lines)
        if self._unwritten[taken - 1][0] is not Kind.END:
            lines.append(encode_line(self._lines + taken, Kind.MARK))
        return lines, taken

    def _turn(self) -> None:
        """Go on in the next part: it is there before this one names it."""
        begun = self._begin(self._part + 1)
        _append(self._file(self._part), encode_line(self._lines, Kind.NEXT))
        self._part, self._lines, self._size = self._part + 1, 1, begun

    def _begin(self, part: int) -> int:
        """Its size in bytes."""
        line = encode_line(0, Kind.BEGIN, VERSION)
        file = self._file(part)
        os.close(os.open(file, _APPENDING | os.O_CREAT | os.O_TRUNC, 0o600))
        _append(file, line)
        return len(line)

    def _append(self, lines: Sequence[bytes]) -> None:
        text = b"".join(lines)
        _append(self._file(self._part), text)
        self._lines += len(lines)
        self._size += len(text)

    def _file(self, part: int) -> Path:
        return self._base.with_name(part_name(self._base.name, part))

    def _last_part(self) -> int | None:
        pattern = re.compile(re.escape(self._base.name) + r"-(\d+)\.out")
        found = (pattern.fullmatch(entry.name) for entry in self._base.parent.iterdir())
        return max((int(match[1]) for match in found if match), default=None)

    def _lead_on(self, part: int) -> None:
        """Have a part name the next one that another process has left, perhaps in the middle of a line."""
        file = self._file(part)
        text = read_bytes(file)
        if text is None or any(line.kind in (Kind.NEXT, Kind.END) for line in decode_lines(text)):
            return
        torn = b"" if not text or text.endswith(b"\n") else b"\n"
        _append(file, torn + encode_line((text + torn).count(b"\n"), Kind.NEXT))


class Feed:
    """Moves what a source has into an outbox. For one thread."""

    def __init__(self, source: Source, outbox: Outbox, *, limit_bytes: int = 4 << 20) -> None:
        self._source = source
        self._outbox = outbox
        self._limit_bytes = limit_bytes

    def move(self) -> bool:
        """Whether there was something. Raises OSError when the disk refuses: nothing is lost, the next one goes on."""
        self._outbox.flush()  # before the source is asked for more: what waits in memory has an end
        frames = self._source.changes(self._limit_bytes)
        self._outbox.put(frames)
        return bool(frames)


def _append(file: Path, text: bytes) -> None:
    """All of it, or nothing. Raises OSError."""
    descriptor = os.open(file, _APPENDING)
    try:
        before = os.fstat(descriptor).st_size
        if os.write(descriptor, text) != len(text):
            os.ftruncate(descriptor, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
    finally:
        os.close(descriptor)

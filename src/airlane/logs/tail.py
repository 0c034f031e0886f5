"""Reading a log from its end, and following it as it grows, in constant memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

BLOCK_BYTES = 1 << 20
LONGEST_LINE_BYTES = 1 << 20
FIRST_WAIT_S = 0.005
LONGEST_WAIT_S = 0.1
# Each wait is a little longer than the one before: a line is seen after at most a tenth of the silence before it.
WAIT_GROWTH = 1.1


def tail_offset(path: Path, lines: int) -> int:
    """Where the last `lines` lines begin, in bytes; 0 for a file that is shorter or not there."""
    try:
        log = path.open("rb")
    except FileNotFoundError:
        return 0
    with log:
        end = log.seek(0, 2)
        if lines <= 0 or end == 0:
            return end
        log.seek(end - 1)
        # The newline that ends the last line does not begin another.
        wanted = lines + (log.read(1) == b"\n")
        return _seek_back(log, end, wanted)


def _seek_back(log: BinaryIO, end: int, newlines: int) -> int:
    """The offset just after the `newlines`-th newline counted from `end` backwards."""
    stop = end
    while stop > 0:
        start = max(0, stop - BLOCK_BYTES)
        log.seek(start)
        block = log.read(stop - start)
        found = block.count(b"\n")
        if found >= newlines:
            position = len(block)
            for _ in range(newlines):
                position = block.rindex(b"\n", 0, position)
            return start + position + 1
        newlines -= found
        stop = start
    return 0


def follow(
    path: Path,
    *,
    offset: int = 0,
    ended: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[bytes]:
    """Everything from byte `offset` on, in chunks of at most 1 MiB, until `ended()` and nothing is left to read.

    `ended` is asked only when there is nothing to read, and the file is read once more after it said yes, so
    what was written before the end is never lost. The file need not be there yet. A file that was cut short is
    read again from its beginning. Chunks may end inside a line; see `whole_lines`.
    """
    wait_s = FIRST_WAIT_S
    last_look = False
    log: BinaryIO | None = None
    try:
        while True:
            log = log or _open_at(path, offset)
            chunk = _read(log) if log else b""
            if chunk:
                wait_s = FIRST_WAIT_S
                yield chunk
            elif last_look:
                return
            elif ended():
                last_look = True
            else:
                sleep(wait_s)
                wait_s = min(WAIT_GROWTH * wait_s, LONGEST_WAIT_S)
    finally:
        if log:
            log.close()


def _open_at(path: Path, offset: int) -> BinaryIO | None:
    try:
        log = path.open("rb", buffering=0)
    except FileNotFoundError:
        return None
    log.seek(offset)
    return log


def _read(log: BinaryIO) -> bytes:
    chunk = log.read(BLOCK_BYTES)
    if chunk:
        return chunk
    position = log.tell()
    if log.seek(0, 2) < position:
        log.seek(0)
        return log.read(BLOCK_BYTES)
    log.seek(position)
    return b""


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    r"""The lines of a stream of chunks, without their newline; a line over 1 MiB comes in pieces.

    Only `\n` ends a line. A last line without one is given at the end.
    """
    cutter = LineCutter()
    for chunk in chunks:
        yield from cutter.feed(chunk)
    yield from cutter.rest()


class LineCutter:
    """Cuts chunks into lines as they come; see `whole_lines`."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that the chunk completes."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        while len(self._rest) > LONGEST_LINE_BYTES:
            lines.append(self._rest[:LONGEST_LINE_BYTES])
            self._rest = self._rest[LONGEST_LINE_BYTES:]
        return lines

    def rest(self) -> list[bytes]:
        """The last line, if it has no newline."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []

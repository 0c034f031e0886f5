r"""Frames as lines of text, which the log files of a Ray cluster are made of.

A line is its number in the file from 0, a checksum, a word that says what it is, and what that needs, with one space
between them: `7 0a1b2c3d frame attempts/0/nodes/0.log 4096 z eJxLSkwCAAJNASc=`. A path is quoted as in a URL. The data
are in base64, after zlib (z) or as they are (r). What was not written to its end has no newline, or a wrong checksum.
"""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Iterator
from enum import StrEnum
from urllib.parse import quote_from_bytes, unquote_to_bytes

from airlane.backends.ray.replica import Frame
from airlane.frozen import frozen

VERSION = b"1"
_WORTH_PACKING_BYTES = 64
_PACKED, _RAW = b"z", b"r"
_WHOLE = b"-"


class Kind(StrEnum):
    """What a line says. MARK says nothing but its number: it ends what is written at a time."""

    BEGIN = "begin"
    FRAME = "frame"
    MARK = "mark"
    NEXT = "next"
    END = "end"


@frozen
class Line:
    """A line that is whole; `content` is what its kind needs."""

    number: int
    kind: Kind
    content: bytes


def encode_line(number: int, kind: Kind, content: bytes = b"") -> bytes:
    body = b"%d %b %b" % (number, kind.encode(), content)
    return b"%d %08x %b\n" % (number, zlib.crc32(body), body.partition(b" ")[2])


def decode_lines(text: bytes) -> Iterator[Line]:
    """The lines that are whole. A last one without its newline is not."""
    for line in text.split(b"\n")[:-1]:
        decoded = _decode_line(line)
        if decoded is not None:
            yield decoded


def _decode_line(line: bytes) -> Line | None:
    try:
        number, checksum, said = line.split(b" ", 2)
        if zlib.crc32(b"%b %b" % (number, said)) != int(checksum, 16):
            return None
        kind, _, content = said.partition(b" ")
        return Line(int(number), Kind(kind.decode()), content)
    except ValueError:
        return None


def encode_frame(frame: Frame) -> bytes:
    path = quote_from_bytes(os.fsencode(frame.path)).encode()
    offset = _WHOLE if frame.offset is None else b"%d" % frame.offset
    form, data = _RAW, frame.data
    if len(data) > _WORTH_PACKING_BYTES:
        packed = zlib.compress(data, 1)
        if len(packed) < len(data):
            form, data = _PACKED, packed
    return b"%b %b %b %b" % (path, offset, form, base64.b64encode(data))


def decode_frame(content: bytes) -> Frame:
    path, offset, form, data = content.split(b" ")
    data = base64.b64decode(data)
    return Frame(
        os.fsdecode(unquote_to_bytes(path)),
        None if offset == _WHOLE else int(offset),
        zlib.decompress(data) if form == _PACKED else data,
    )

"""Secret values in a stream of output, replaced before any of it reaches a disk."""

from __future__ import annotations

import json
from binascii import b2a_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MASK = b"***"
SHORTEST = 4  # characters; shorter values would mask innocent text
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def forms_of(value: str) -> set[bytes]:
    """What to look for: the value, each of its lines, and what JSON, URL quoting and base64 make of them."""
    found: set[bytes] = set()
    for part in {value, value.strip(), *(line.strip() for line in value.splitlines())}:
        if len(part) < SHORTEST:
            continue
        raw = part.encode(errors="surrogateescape")
        found.add(raw)
        found.add(json.dumps(part, ensure_ascii=False)[1:-1].encode(errors="surrogateescape"))
        found.update(_url_forms(raw))
        found.update(_base64_forms(raw))
    return found


def _url_forms(raw: bytes) -> Iterator[bytes]:
    for safe in (_UNRESERVED, _UNRESERVED | {ord("/")}):
        for escape in (b"%%%02X", b"%%%02x"):
            quoted = b"".join(bytes((byte,)) if byte in safe else escape % byte for byte in raw)
            yield quoted
            yield quoted.replace(b"%20", b"+")


def _base64_forms(raw: bytes) -> Iterator[bytes]:
    """The letters that depend on the value alone, in each of the three alignments.

    The text before and after decides the outer letters, as in the "user:token" of an Authorization header.
    """
    for shift, outer in ((0, 0), (1, 2), (2, 3)):
        inner = b2a_base64(b"\0" * shift + raw, newline=False)[outer : (shift + len(raw)) * 8 // 6]
        if len(inner) >= SHORTEST:
            yield inner
            yield inner.translate(_URL_SAFE)


class Masker:
    """Feed it output in any pieces: what comes out is the whole with every occurrence as `***`, overlaps as one.

    Only a tail that could be the beginning of a value is held back, so memory does not grow with the stream.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._forms = sorted({form for value in values for form in forms_of(value)})
        self._periods = {form: _period(form) for form in self._forms}
        self._longest = max(map(len, self._forms), default=0)
        self._tail = b""
        self._covered = 0  # bytes at the start of the tail that a `***` already given out stands for

    def feed(self, data: bytes) -> bytes:
        """What can be given out now."""
        text = self._tail + data if self._tail else data
        return self._give(text, self._first_open(text))

    def flush(self) -> bytes:
        """The rest; nothing comes after it."""
        return self._give(self._tail, len(self._tail))

    def _give(self, text: bytes, end: int) -> bytes:
        """`text[:end]`, masked; the rest becomes the tail. Every occurrence that starts before `end` is complete."""
        out: list[bytes] = []
        done = self._covered
        for start, stop in self._occurrences(text):
            if start >= end:
                break
            if start >= done:
                out += (text[done:start], MASK)
            done = max(done, stop)
        out.append(text[done:end])
        self._tail = text[end:]
        self._covered = max(0, done - end)
        return b"".join(out)

    def _occurrences(self, text: bytes) -> list[tuple[int, int]]:
        """Where values stand, overlapping ones included, by their start."""
        found = []
        for form in self._forms:
            start = text.find(form)
            while start >= 0:
                found.append((start, start + len(form)))
                start = text.find(form, start + self._periods[form])
        found.sort()
        return found

    def _first_open(self, text: bytes) -> int:
        """Where the earliest unfinished occurrence may begin; the length of the text if there is none."""
        first = max(0, len(text) - self._longest + 1)
        tail = text[first:]
        best = len(tail)
        for form in self._forms:
            start = tail.find(form[:1], max(0, len(tail) - len(form) + 1))
            while 0 <= start < best:
                if form.startswith(tail[start:]):
                    best = start
                    break
                start = tail.find(form[:1], start + 1)
        return first + best


def _period(form: bytes) -> int:
    """The smallest distance between two occurrences: less than the length only where a form can overlap itself."""
    return next(distance for distance in range(1, len(form) + 1) if form.startswith(form[distance:]))

"""A long list in an answer, read one object at a time.

A thousand nodes are twenty megabytes, two thirds of which nobody shows. Read at once, they would take half a second, in
which no key is answered. So the text is cut where one object follows the other, what is not wanted is cut out of each,
and each is read by itself. Where anything of that is not as expected, the whole is read as it stands: slower, and never
wrong, because a cut at a wrong place leaves no JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from airlane.top import fields

T = TypeVar("T")

_LONGEST_KEY = 64
_WHOLE_BELOW = 1 << 16  # bytes


@dataclass(frozen=True, slots=True)
class Pieces(Generic[T]):
    """An answer without its list, and what was made of the objects of that."""

    around: Any
    made: list[T]


def read_pieces(
    body: bytes,
    path: tuple[str, ...],
    make: Callable[[dict[str, Any]], T],
    without: Callable[[bytes], bytes] | None = None,
    known: dict[int, T] | None = None,
) -> Pieces[T]:
    """What `make` makes of the objects in the list at `path`, one by one, so that none is there for longer than needed.

    `without` cuts out of an object's text what is not wanted. `known` is kept by the caller from one answer to the
    next: of an object that was in the last one, letter by letter, nothing has to be made again.

    Raises:
        ValueError: it is no JSON.
    """
    if len(body) > _WHOLE_BELOW:
        try:
            return _apart(body, path[-1], make, without or (lambda piece: piece), {} if known is None else known)
        except (ValueError, RecursionError):
            pass
    whole = fields.read_json(body)
    return Pieces(whole, [make(row) for row in fields.rows(fields.dig(whole, *path))])


def _apart(
    body: bytes,
    name: str,
    make: Callable[[dict[str, Any]], T],
    without: Callable[[bytes], bytes],
    known: dict[int, T],
) -> Pieces[T]:
    """Raises ValueError: it is not as expected."""
    marker = b'"%b": [{' % name.encode()
    start = body.index(marker) + len(marker)
    key = body[start : body.index(b":", start, start + _LONGEST_KEY) + 1]
    made, at = [], start + len(key)
    between = b"}, {" + key
    seen: dict[int, T] = {}
    while (end := body.find(between, at)) >= 0:
        piece = body[at:end]
        mark = hash(piece)
        one = known.get(mark)
        if one is None:
            one = make(_read(b"{%b%b}" % (key, piece), without))
        seen[mark] = one
        made.append(one)
        at = end + len(between)
    known.clear()
    known.update(seen)
    last, rest = _last(b"{" + key + body[at:])
    made.append(make(last))
    return Pieces(orjson.loads(body[: start - 1] + rest), made)


def _read(piece: bytes, without: Callable[[bytes], bytes]) -> dict[str, Any]:
    try:
        row = orjson.loads(without(piece))
    except ValueError:
        row = fields.read_json(piece)
    if type(row) is not dict:
        raise ValueError("not an object")
    return row


def _last(piece: bytes) -> tuple[dict[str, Any], bytes]:
    """The last object, and what follows it in the answer, from the end of the list on."""
    text = piece.decode()
    row, end = json.JSONDecoder().raw_decode(text)
    left = text[end:].encode()
    if type(row) is not dict or not left.startswith(b"]"):
        raise ValueError("not the last of a list")
    return row, left


def without_array(piece: bytes, opening: bytes, closing: bytes) -> bytes:
    """The piece with every array emptied that begins with `opening` and ends with `closing`.

    Of these, only what is outside of the brackets and the brackets themselves stay.
    """
    at = piece.find(opening)
    if at < 0:
        return piece
    kept, done = [], 0
    begins, ends = opening.rindex(b"[") + 1, closing.index(b"]")
    while at >= 0:
        end = _end(piece, at + len(opening), closing)
        if end < 0:
            break
        kept.append(piece[done : at + begins])
        done = end + ends
        at = piece.find(opening, done)
    kept.append(piece[done:])
    return b"".join(kept)


def _end(piece: bytes, begin: int, closing: bytes) -> int:
    """Where the closing stands; not where its first mark is inside a string."""
    end = piece.find(closing, begin)
    while end > 0 and piece[end - 1 : end] == b"\\":
        end = piece.find(closing, end + 1)
    return end

"""Snapshots as JSON and back: what `--record` writes, `--replay` reads and `--once --json` prints.

It can be read whatever was changed in it since: what is unknown is left out, what is missing or of another kind is not
told. What looks like a secret is masked before any of it is written.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import orjson

from airlane.top import fields
from airlane.top.recording_masks import without_secrets
from airlane.top.values import NodeDetail, Panel, Snapshot

_Read = Callable[[Any], Any]
_PLAIN: Mapping[Any, _Read] = {
    str: lambda content: fields.text(content, fields.MOST_TEXT),
    float: lambda content: fields.number(content) or 0.0,
    int: lambda content: fields.whole(content) or 0,
    bool: lambda content: content is True,
}
_OR_NONE: Mapping[Any, _Read] = {float: fields.number, int: fields.whole}


def encode(snapshot: Snapshot) -> bytes:
    """One line of JSON, without its end."""
    return orjson.dumps(without_secrets(snapshot))


def encode_detail(panel: Panel[NodeDetail]) -> bytes:
    """The same for what was asked for one node."""
    return orjson.dumps(without_secrets(panel))


def facts(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as `--once --json` tells it."""
    return fields.mapping(orjson.loads(encode(snapshot)))


def decode(line: bytes) -> Snapshot:
    """Raises ValueError: this is no snapshot."""
    return snapshot_of(fields.read_json(line))


def snapshot_of(content: Any) -> Snapshot:
    """A snapshot from what its JSON says. Raises ValueError: that is none."""
    if fields.number(fields.dig(content, "at")) is None or "cluster" not in content:
        raise ValueError("not a snapshot of a cluster")
    return typing.cast("Snapshot", _reader(Snapshot)(content))


def detail_of(content: Any) -> Panel[NodeDetail]:
    """The same for one node."""
    return typing.cast("Panel[NodeDetail]", _reader(Panel[NodeDetail])(content))


@cache
def _reader(kind: Any) -> _Read:
    """What reads a value of a kind out of JSON, and never raises."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        (some,) = (part for part in parts if part is not type(None))
        read = _OR_NONE.get(some) or _reader(some)
        return lambda content: None if content is None else read(content)
    if origin is tuple:
        one = _reader(parts[0])
        return lambda content: tuple(map(one, content)) if type(content) is list else ()
    if origin is not None and issubclass(origin, Mapping):
        one = _reader(parts[1])
        return lambda content: {key: one(each) for key, each in fields.mapping(content).items()}
    return _object_reader(origin or kind, {"data": parts[0]} if parts else {})


def _object_reader(kind: Any, told: Mapping[str, Any]) -> _Read:
    hints = typing.get_type_hints(kind) | dict(told)
    readers = {place.name: _reader(hints[place.name]) for place in dataclasses.fields(kind)}
    needed = [
        name
        for name, place in ((place.name, place) for place in dataclasses.fields(kind))
        if place.default is dataclasses.MISSING and place.default_factory is dataclasses.MISSING
    ]

    def read(content: Any) -> Any:
        known = {name: readers[name](each) for name, each in fields.mapping(content).items() if name in readers}
        for name in needed:
            if name not in known:
                known[name] = readers[name](None)
        return kind(**known)

    return read

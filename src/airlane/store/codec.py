"""Records to JSON and back: dataclasses of plain values, enums, tuples, dicts and other records."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from airlane.errors import StoreError
from airlane.store.disk import read_bytes

R = TypeVar("R")


def encode(record: Any) -> bytes:
    """One line of JSON, ending in a newline."""
    return json_line(dataclasses.asdict(record))


def json_line(value: Any) -> bytes:
    """One line of JSON in UTF-8. What UTF-8 cannot say (a byte of a file name that is no text) is escaped."""
    try:
        return (json.dumps(value, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(value) + "\n").encode()


def decode(kind: type[R], data: bytes, *, source: str) -> R:
    """The record in `data`. Keys that `kind` does not know are ignored.

    Raises:
        StoreError: the data is not such a record; `source` is named.
    """
    try:
        return typing.cast("R", _value(kind, json.loads(data.decode("utf-8", "surrogateescape"))))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(f"{source} is damaged: {error}") from error


def read(kind: type[R], path: Path) -> R | None:
    """The record in a file, or None if there is no such file.

    Raises:
        StoreError: the file cannot be read, or holds no such record.
    """
    try:
        data = read_bytes(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}", hint=f"ls -l '{path}'") from error
    return None if data is None else decode(kind, data, source=str(path))


@cache
def _fields(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _value(kind: Any, data: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return None if data is None else _value(next(a for a in typing.get_args(kind) if a is not type(None)), data)
    if origin is tuple:
        _plain(list, data)
        return tuple(_value(typing.get_args(kind)[0], item) for item in data)
    if origin is dict:
        return {key: _value(typing.get_args(kind)[1], item) for key, item in data.items()}
    if hasattr(kind, "__dataclass_fields__"):
        return kind(**{name: _value(hint, data[name]) for name, hint in _fields(kind).items() if name in data})
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(data)
    return _plain(kind, data)


def _plain(kind: Any, data: Any) -> Any:
    if kind is Any:
        return data
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise TypeError(f"expected {kind.__name__}, got {json.dumps(data)}")
    return data

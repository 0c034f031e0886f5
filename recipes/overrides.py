"""`section.setting=value`: read by the type of the setting, checked, and written so that it reads back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from recipes.errors import RecipeError

C = TypeVar("C")
WORDS_FOR_NONE = {"none", "null"}
TRUTH = {"true": True, "false": False}


class UnfitError(Exception):
    """Says what a setting takes, after its name and the text that came."""


def override(config: C, words: Sequence[str]) -> C:
    """`config` with these settings, the last of two that have the same name.

    Raises:
        RecipeError: everything that is wrong with them.
    """
    kinds = dict(settings(type(config)))
    problems = []
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in kinds:
            problems.append(f"{word}: " + (f"no such setting{nearest(name, kinds)}" if equals else "is no NAME=VALUE"))
            continue
        try:
            config = replaced(config, name.split("."), read(text, kinds[name]))
        except UnfitError as error:
            problems.append(f"{word}: {error}")
    if problems:
        raise RecipeError(problems)
    return config


def settings(section: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted name and the type of each setting that text can set."""
    for name, kind in get_type_hints(section).items():
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            yield from settings(kind, f"{prefix}{name}.")
        elif readable(kind):
            yield f"{prefix}{name}", kind


def assignments(config: object, prefix: str = "") -> Iterator[str]:
    """A `section.setting=value` for each setting; `override` makes the same configuration of them."""
    kinds = get_type_hints(type(config))
    for name, value in vars(config).items():
        if dataclasses.is_dataclass(value):
            yield from assignments(value, f"{prefix}{name}.")
        elif readable(kinds[name]):
            yield f"{prefix}{name}={written(value)}"


def replaced(config: Any, path: Sequence[str], value: object) -> Any:
    """A copy with one value changed."""
    first, *rest = path
    return dataclasses.replace(config, **{first: replaced(getattr(config, first), rest, value) if rest else value})


def nearest(name: str, known: Mapping[str, Any]) -> str:
    """A question whether another name was meant, or nothing: it is in another section, or spelled like this one."""
    last = name.rpartition(".")[2]
    same = [other for other in known if other.rpartition(".")[2] == last]
    close = same or get_close_matches(name, known, n=1)
    return f". Did you mean {close[0]}?" if close else ""


def readable(kind: Any) -> bool:
    """Whether text can be read as this type."""
    if get_origin(kind) in {Union, UnionType}:
        return any(readable(one) for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) in {tuple, list}:
        return get_args(kind)[:1] in {(str,), (int,), (float,)}
    return get_origin(kind) is Literal or kind in READERS or (isinstance(kind, type) and issubclass(kind, Enum))


def read(text: str, kind: Any) -> Any:
    """The value that `text` means where a `kind` is needed.

    Raises:
        UnfitError: it means none.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return read_union(text, arguments)
    if origin is Literal:
        return read_choice(text, {str(choice): choice for choice in arguments})
    if origin in {tuple, list}:
        return origin(read_items(text, arguments[0]))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return read_choice(text, dict(kind.__members__))
    if kind not in READERS:
        raise UnfitError(f"{getattr(kind, '__name__', kind)} cannot be given as text")
    return READERS[kind](text)


def read_union(text: str, kinds: Sequence[Any]) -> Any:
    if NoneType in kinds and text.lower() in WORDS_FOR_NONE:
        return None
    reasons = []
    for kind in kinds:
        if kind is not NoneType:
            try:
                return read(text, kind)
            except UnfitError as error:
                reasons.append(str(error))
    raise UnfitError(", or ".join([*reasons, *(["none"] if NoneType in kinds else [])]))


def read_choice(text: str, choices: Mapping[str, Any]) -> Any:
    if text not in choices:
        raise UnfitError(f"takes one of {', '.join(choices)}")
    return choices[text]


def read_items(text: str, kind: Any) -> list[Any]:
    """A JSON list, or one item as it stands."""
    if not text.startswith("["):
        return [read(text, kind)]
    try:
        items = json.loads(text)
    except ValueError as error:
        raise UnfitError('is no JSON list, such as \'["30", "/data/a"]\'') from error
    return [read(item if isinstance(item, str) else json.dumps(item), kind) for item in items]


def read_bool(text: str) -> bool:
    if text.lower() not in TRUTH:
        raise UnfitError("takes true or false")
    return TRUTH[text.lower()]


def read_int(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UnfitError("takes a whole number, such as 8") from error


def read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UnfitError("takes a number, such as 3e-4") from error


READERS: dict[Any, Callable[[str], Any]] = {bool: read_bool, int: read_int, float: read_float, str: str}


def written(value: object) -> str:
    """The text that `read` makes this value of."""
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value)

"""Frozen values, as `dataclasses` makes them, without compiling code for each class.

`@dataclass(frozen=True)` writes and compiles six functions for every class. Airlane starts with some ninety classes,
and that was two thirds of the time until `air run` had submitted (measured: 1.1 ms a class, against 0.14 ms here).
The six do the same for every class, so they are written once. See docs/decisions/0012-frozen-values.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform, overload

C = TypeVar("C", bound=type)

__all__ = ["frozen"]


@overload
def frozen(made: C) -> C: ...


@overload
def frozen(*, kw_only: bool = False) -> Callable[[C], C]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(made: C | None = None, *, kw_only: bool = False) -> C | Callable[[C], C]:
    """Make a class a frozen dataclass: `dataclasses.replace`, `asdict` and `fields` work on it."""

    def decorate(plain: Any) -> Any:
        for name, method in _METHODS.items():
            setattr(plain, name, method)
        return dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(plain)

    return decorate if made is None else decorate(made)


def _init(self: Any, *positional: Any, **named: Any) -> None:
    places = fields(self)
    by_place = [place for place in places if not place.kw_only]
    if len(positional) > len(by_place):
        raise TypeError(f"{type(self).__name__} takes {len(by_place)} values by position, got {len(positional)}")
    given = dict(zip((place.name for place in by_place), positional, strict=False))
    for name in named:
        if name in given:
            raise TypeError(f"{type(self).__name__} got {name!r} twice")
    given |= named
    for place in places:
        if place.name in given:
            content = given.pop(place.name)
        elif place.default is not MISSING:
            content = place.default
        elif place.default_factory is not MISSING:
            content = place.default_factory()
        else:
            raise TypeError(f"{type(self).__name__} needs {place.name!r}")
        object.__setattr__(self, place.name, content)
    if given:
        raise TypeError(f"{type(self).__name__} has no {', '.join(map(repr, given))}")


def _content(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, place.name) for place in fields(self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{place.name}={getattr(self, place.name)!r}" for place in fields(self) if place.repr)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: object) -> Any:
    return _content(self) == _content(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_content(self))


def _setattr(self: Any, name: str, content: object) -> None:
    del content
    raise FrozenInstanceError(f"cannot assign to {name!r} of {type(self).__name__}")


def _delattr(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete {name!r} of {type(self).__name__}")


_METHODS = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
}

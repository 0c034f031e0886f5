"""Rows as they come from a source, each with its place; and those that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row stands, as "rows.jsonl:12"."""

    origin: str  # with what separates it from the number, as "rows.jsonl:"
    number: int

    def __str__(self) -> str:
        return f"{self.origin}{self.number}"


@dataclass(frozen=True, slots=True)
class Row:
    """A row's columns and values; not complete where its text goes on in the next row."""

    place: Place
    columns: dict[str, Any]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Corrupt:
    """A row that nothing can be learned from, why, and what can be done about it."""

    place: Place
    problem: str
    hint: str = "Mend the rows, or leave them out with data.corrupt=skip"

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


class Source(Protocol):
    """Where rows come from."""

    def rows(self) -> Iterator[Row | Corrupt]:
        """Every row in the order of the source.

        Raises:
            RecipeError: the source as a whole cannot be read.
        """

    def digest(self) -> str:
        """Changes when the rows or their places do."""


def row_of(place: Place, value: object) -> Row | Corrupt:
    """A row, if the value has columns."""
    if isinstance(value, dict):
        return Row(place, value)
    return Corrupt(place, f'needs an object, such as {{"text": "..."}}; this is {kind_of(value)}')


def kind_of(value: object) -> str:
    """What JSON calls a value."""
    if value is None:
        return "null"
    kinds = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    kinds |= {bytes: "bytes", tuple: "a pair"}  # of Parquet
    return next((words for kind, words in kinds.items() if isinstance(value, kind)), f"a {type(value).__name__}")

"""What JSON says, and what is wrong with it, in words for people."""

from __future__ import annotations

import json
from typing import Any


class NoJsonError(ValueError):
    """Why a text is no JSON that can be used; the line, from 1, where its grammar is broken."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(problem)


def from_json(text: str) -> Any:
    """The value that a JSON text stands for.

    Raises:
        NoJsonError: it stands for none, or for one that cannot be read in one way only.
    """
    try:
        return json.loads(text, object_pairs_hook=object_of)
    except NoJsonError:
        raise
    except json.JSONDecodeError as error:
        problem = f"is no JSON: {error.msg[0].lower()}{error.msg[1:]} at column {error.colno}"
        raise NoJsonError(problem, error.lineno) from error
    except RecursionError as error:
        raise NoJsonError("is nested too deeply") from error
    except ValueError as error:
        limit = str(error).partition(":")[0]  # what Python's own setting for it is follows
        raise NoJsonError(f"is no JSON: {limit[0].lower()}{limit[1:]}") from error


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; one that says two things under the same name says nothing that can be relied on."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NoJsonError(f"has {json.dumps(twice)} twice in one object")
    return made


def may_have_half_characters(text: str) -> bool:
    """Whether it is worth to look: JSON has no other way to write them."""
    return "\\ud" in text or "\\uD" in text


def half_character(value: object) -> str | None:
    """The first half of a character, as JSON writes it, that stands in a value without its other half."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return f"\\u{ord(error.object[error.start]):x}"
    return None

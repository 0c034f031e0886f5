"""Getting at what a cluster answers, which may be of any form: nothing here raises, whatever is there.

Ray sends numbers as text, null for what it does not know, and whatever bytes its users have put into a command line.
What comes out is fit for a terminal: of a length that can be shown, and without anything that would steer it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import orjson

MOST_NAME = 300
MOST_TEXT = 4000
MOST_NUMBER = 2**63  # what is larger fits no recording, and no cluster has it
_MOST_DIGITS = 40
_CONTROLS = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"  # the terminal's own language
    "\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # would turn the rest of a line round, or hide it
    "\ud800-\udfff\U000e0000-\U000e007f]"  # halves of characters, and tags that nobody sees
)
_SPACES = re.compile("[\t-\r\x85\u2028\u2029]+")


def read_json(body: bytes) -> Any:
    """What is in a body, however odd its text.

    Python's own reader takes what the fast one refuses and Ray sends: NaN, and halves of characters.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return orjson.loads(body)
    except ValueError:
        pass
    try:
        return json.loads(body.decode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def mapping(content: Any) -> dict[str, Any]:
    """An object; an empty one for anything else."""
    return content if type(content) is dict else {}


def rows(content: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [row for row in content if type(row) is dict] if type(content) is list else []


def dig(content: Any, *path: str) -> Any:
    """What is at the end of a path of keys, or None."""
    for key in path:
        if type(content) is not dict:
            return None
        content = content.get(key)
    return content


def number(content: Any) -> float | None:
    """A finite number, also where it came as text."""
    kind = type(content)
    if kind is int or kind is float:
        return float(content) if -MOST_NUMBER < content < MOST_NUMBER else None
    if kind is str and len(content) <= _MOST_DIGITS:
        try:
            read = float(content)
        except ValueError:
            return None
        return read if math.isfinite(read) and abs(read) < MOST_NUMBER else None
    return None


def whole(content: Any) -> int | None:
    """A whole number; what is behind the point is dropped."""
    if type(content) is int:
        return content if -MOST_NUMBER < content < MOST_NUMBER else None
    if type(content) is str and len(content) <= _MOST_DIGITS and content.isascii() and content.isdigit():
        read = int(content)  # digits beyond those of a float stay what they are: times in nanoseconds
        return read if read < MOST_NUMBER else None
    found = number(content)
    return None if found is None else int(found)


def seconds(milliseconds: Any) -> float | None:
    """A time; Ray says 0 for what has not happened."""
    found = number(milliseconds)
    return found / 1000 if found else None


def text(content: Any, most: int = MOST_NAME) -> str:
    """Text for one line of a terminal, also of a number; empty for anything else."""
    if type(content) is not str:
        found = number(content)
        return "" if found is None else f"{found:.12g}"
    if len(content) <= most and content.isprintable():
        return content
    if len(content) > most:
        content = content[: most - 1] + "…"
    return _CONTROLS.sub("", _SPACES.sub(" ", content)).strip()


def words(content: Any) -> str | None:
    """A longer text; None where there is none."""
    return text(content, MOST_TEXT) or None


def amounts(content: Any) -> Mapping[str, float]:
    """Numbers by name, such as resources, without those that are none."""
    found = {}
    for name, amount in mapping(content).items():
        read = number(amount)
        if read is not None:
            found[text(name)] = read
    return found


def texts(content: Any) -> Mapping[str, str]:
    """Text by name, such as labels."""
    return {text(name): text(said) for name, said in mapping(content).items()}

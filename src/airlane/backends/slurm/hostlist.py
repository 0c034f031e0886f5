"""Slurm's lists of nodes: gpu[01-03,7]-x,login1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from airlane.errors import BackendError

# More than any cluster has: a list that names more is damaged, and would fill the memory.
_MOST_HOSTS = 1_000_000
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")


def hostnames(expression: str) -> tuple[str, ...]:
    """Host names in a Slurm node list, in its order; "gpu[01-03]" gives three, "(null)" none.

    Raises:
        BackendError: it is no node list.

    Source: scontrol(1), "show hostnames".
    """
    if expression.strip() in ("", "(null)", "n/a", "None"):
        return ()
    found = [host for part in _split(expression) for host in _hosts(part, expression)]
    return tuple(found)


def _split(expression: str) -> Iterator[str]:
    """The parts between the commas that stand outside brackets."""
    depth, start = 0, 0
    for place, character in enumerate(expression):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth not in (0, 1):
            raise _damaged(expression)
        if character == "," and depth == 0:
            yield expression[start:place]
            start = place + 1
    if depth:
        raise _damaged(expression)
    yield expression[start:]


def _hosts(part: str, expression: str) -> Iterator[str]:
    choices: list[list[str]] = []
    count = 1
    for match in _PIECE.finditer(part.strip()):
        inside, plain = match.groups()
        choices.append([plain] if inside is None else list(_numbers(inside, expression)))
        count *= len(choices[-1])
    if not choices or count > _MOST_HOSTS:
        raise _damaged(expression)
    yield from ("".join(names) for names in product(*choices))


def _numbers(inside: str, expression: str) -> Iterator[str]:
    """Names 08, 09, 10, 12 for "08-10,12": leading zeros are part of a name."""
    for span in inside.split(","):
        first, dash, last = span.partition("-")
        if not re.fullmatch(r"\d+", first) or (dash and not re.fullmatch(r"\d+", last)):
            raise _damaged(expression)
        numbers = range(int(first), int(last or first) + 1)
        if not numbers or len(numbers) > _MOST_HOSTS:
            raise _damaged(expression)
        yield from (f"{number:0{len(first)}}" for number in numbers)


def _damaged(expression: str) -> BackendError:
    return BackendError(f"this is no list of Slurm nodes: {expression[:200]!r}", hint="scontrol show hostnames LIST")

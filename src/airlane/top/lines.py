"""A line of a screen as pieces of text, each with the tone it is said in: what it looks like is the theme's matter."""

from __future__ import annotations

from enum import Enum, auto

from rich.cells import cell_len

from airlane.top.words import Marks, cut


class Tone(Enum):
    """How a piece of text is meant."""

    PLAIN = auto()
    DIM = auto()
    STRONG = auto()
    TITLE = auto()
    ACCENT = auto()
    GOOD = auto()
    WARN = auto()
    BAD = auto()
    TRACK = auto()
    PAST = auto()
    CHOSEN = auto()


Piece = tuple[str, Tone]
Line = list[Piece]

LEVELS = (Tone.GOOD, Tone.WARN, Tone.BAD)


def width(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)


def fitted(line: Line, cells: int, marks: Marks) -> Line:
    """At most so many cells of a line."""
    made: Line = []
    left = cells
    for text, tone in line:
        took = len(text) if text.isascii() else cell_len(text)
        if took <= left:
            made.append((text, tone))
            left -= took
            continue
        made.append((cut(text, left, marks), tone))
        break
    return made


def spread(left: Line, right: Line, cells: int, marks: Marks) -> Line:
    """Two lines in one, at its two ends; the right one goes where there is no room for both."""
    space = cells - width(left) - width(right)
    if space < 1:
        return fitted(left, cells, marks)
    return [*left, (" " * space, Tone.PLAIN), *right]


def plain(line: Line) -> str:
    """The text alone."""
    return "".join(text for text, _ in line).rstrip()

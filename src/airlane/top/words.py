"""Numbers, times and foreign text as a screen shows them: cut to so many cells, never in the middle of a letter."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from rich.cells import cell_len

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_THOUSAND = 1000
_TEN = 10
_EIGHTHS = 8
_FULL = 100.0
_PLAIN = str.maketrans({"×": "x", "·": "-", "–": "-", "—": "-", "…": "~", "→": ">", "“": '"', "”": '"'})
WARN_AT = 70.0
CRITICAL_AT = 90.0
_DROPPED = ("Cf", "Cs", "Cn", "Co")  # joiners, turns of direction, halves of letters: what terminals disagree about


@dataclass(frozen=True, slots=True)
class Marks:
    """The signs that lines are drawn with: Unicode's, or those that every terminal has."""

    full: str
    rest: str
    steps: str
    more: str
    dot: str
    up: str
    down: str
    rule: str
    ascii: bool


UNICODE = Marks(full="━", rest="─", steps="▁▂▃▄▅▆▇█", more="…", dot="·", up="▲", down="▼", rule="─", ascii=False)
ASCII = Marks(full="#", rest="-", steps="_.:-=+*#", more="~", dot="-", up="^", down="v", rule="-", ascii=True)


def clean(text: str, marks: Marks = UNICODE) -> str:
    """One line that a terminal shows as it is counted: no controls, no joiners; `?` for what ASCII lacks."""
    if text.isascii() and text.isprintable():
        return text
    return _cleaned(text, marks.ascii)


@lru_cache(4096)
def _cleaned(text: str, only_ascii: bool) -> str:
    kept = "".join(_sign(sign) for sign in text)
    kept = " ".join(kept.split()) if kept != text else kept
    return kept.translate(_PLAIN).encode("ascii", "replace").decode() if only_ascii else kept


def _sign(sign: str) -> str:
    if sign.isprintable() or sign == " ":
        return "" if sign in "\ufe0e\ufe0f" else sign
    category = unicodedata.category(sign)
    if category == "Cs":
        return "?"
    return "" if category in _DROPPED else " "


def cut(text: str, cells: int, marks: Marks = UNICODE) -> str:
    """At most so many cells of it, with an ellipsis where something is missing. `text` is clean."""
    if (len(text) <= cells and text.isascii()) or cell_len(text) <= cells:
        return text
    if cells <= 0:
        return ""
    if text.isascii():
        return text[: cells - 1] + marks.more
    return _head(text, cells - 1) + marks.more


def cut_start(text: str, cells: int, marks: Marks = UNICODE) -> str:
    """The same, where the end tells more than the beginning."""
    if cell_len(text) <= cells:
        return text
    if cells <= 0:
        return ""
    start, width = len(text), 0
    for index in range(len(text) - 1, -1, -1):
        width += cell_len(text[index])
        if width > cells - 1:
            break
        if not unicodedata.combining(text[index]):
            start = index
    return marks.more + text[start:]


def without_start(text: str, cells: int) -> str:
    """What is right of so many cells."""
    return text[len(_head(text, cells)) :]


def _head(text: str, cells: int) -> str:
    width = 0
    for index, sign in enumerate(text):
        width += cell_len(sign)
        if width > cells:
            return text[:index]
    return text


def fit(text: str, cells: int, marks: Marks = UNICODE, *, right: bool = False) -> str:
    """Exactly so many cells: cut, or filled up with spaces."""
    text = cut(text, cells, marks)
    space = " " * (cells - (len(text) if text.isascii() else cell_len(text)))
    return space + text if right else text + space


def wrapped(text: str, cells: int) -> list[str]:
    """Lines of at most so many cells, broken at spaces where there are any. `text` is clean."""
    cells = max(1, cells)
    lines, line = [], ""
    for word in text.split(" "):
        if line and cell_len(line) + 1 + cell_len(word) > cells:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
        while cell_len(line) > cells:
            head = _head(line, cells) or line[0]
            lines.append(head)
            line = line[len(head) :]
    return [*lines, line]


def share(used: float | None, total: float | None) -> float | None:
    """In percent; None where it is not told."""
    if used is None or not total:
        return None
    return _FULL * used / total


def level(percent: float | None) -> int:
    """0 below 70 %, 1 from there, 2 from 90 %."""
    if percent is None:
        return 0
    return (percent >= WARN_AT) + (percent >= CRITICAL_AT)


def percent_words(percent: float | None) -> str:
    """Right-aligned in six cells, with marks: "  63%  ", " 75%! ", "100%!!"."""
    if percent is None:
        return "   -  "
    return f"{max(0.0, min(percent, 999.0)):3.0f}%{'!' * level(percent):<2}"


def bar(percent: float | None, cells: int, marks: Marks) -> tuple[str, str]:
    """The full part and the rest of a bar."""
    if percent is None:
        return "", " " * cells
    filled = min(cells, max(0, round(percent * cells / _FULL)))
    if filled == 0 and percent >= 1 and cells > 0:
        filled = 1
    return marks.full * filled, marks.rest * (cells - filled)


def spark(values: list[float | None], cells: int, marks: Marks, most: float = _FULL) -> str:
    """The latest values as a line of steps, the newest at the right end; a space where nothing was told."""
    latest = values[-cells:] if cells > 0 else []
    steps = marks.steps
    drawn = "".join(
        " "
        if value is None
        else steps[min(_EIGHTHS - 1, max(0, int(value * _EIGHTHS / most)))]
        if most > 0
        else steps[0]
        for value in latest
    )
    return drawn.rjust(cells)


def size(amount: float | None) -> str:
    """Bytes in powers of 1000, in at most five letters: "812B", "3.4kB", "190MB", "2.5GB"."""
    if amount is None:
        return "-"
    amount = max(0.0, amount)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < _THOUSAND - 0.5 or unit == "TB":
            return f"{amount:.1f}{unit}" if amount < _TEN - 0.05 and unit != "B" else f"{amount:.0f}{unit}"
        amount /= _THOUSAND
    return f"{amount:.0f}PB"


def used_of(used: float | None, total: float | None) -> str:
    """As in "14.2/24GB", both in the unit of the whole; what is not told is "-"."""
    if total is None:
        return size(used)
    whole = size(total)
    if used is None:
        return f"-/{whole}"
    unit = whole.lstrip("0123456789.")
    scale = _THOUSAND ** ("B", "kB", "MB", "GB", "TB", "PB").index(unit)
    part = used / scale
    return f"{part:.1f}/{whole}" if part < _TEN - 0.05 else f"{part:.0f}/{whole}"


def rate(amount: float | None) -> str:
    return "-" if amount is None else f"{size(amount)}/s"


def duration(seconds: float | None) -> str:
    """41 -> "41s", 761 -> "12m 41s", 3900 -> "1h 05m", 270000 -> "3d 03h"."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d {whole % _DAY // _HOUR:02d}h"


def ago(seconds: float | None) -> str:
    """How long ago, in one unit: "now", "41s ago", "12m ago", "3h ago", "2d ago"."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return "now"
    for length, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if seconds >= length:
            return f"{int(seconds // length)}{unit} ago"
    return f"{int(seconds)}s ago"


def number(value: float) -> str:
    """1.0 -> "1", 0.25 -> "0.25", 1234.5 -> "1,234.5"."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}".rstrip("0").rstrip(".")


def resources(shape: Mapping[str, float]) -> str:
    """What is asked for, in words: "2 CPU, 1 GPU, 4.0GB memory"; "nothing" where it is that."""
    words = [
        f"{size(amount)} {name.replace('_', ' ')}" if "memory" in name.lower() else f"{number(amount)} {name}"
        for name, amount in shape.items()
        if amount
    ]
    return ", ".join(words) or "nothing"


def count(amount: int, noun: str, plural: str | None = None) -> str:
    """As in "1 node", "1,204 nodes"."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"

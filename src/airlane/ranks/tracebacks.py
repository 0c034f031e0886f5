"""The traceback a rank ended with, out of the last lines that it wrote. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADER = "Traceback (most recent call last):"
_LINKS = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_MOST_LINES = 40
_LAST_LINES = 10


def last_words(errors: Sequence[str], output: Sequence[str] = ()) -> list[str]:
    """The last traceback on stderr with those that led to it; without one the last lines of stderr, or of stdout."""
    found = last_traceback(errors)
    if found:
        return shortened(found)
    said = [line for line in errors if line.strip()] or [line for line in output if line.strip()]
    return said[-_LAST_LINES:]


def last_traceback(lines: Sequence[str]) -> list[str]:
    """From its header to its exception's message; empty where there is none."""
    starts = [index for index, line in enumerate(lines) if line.strip() == _HEADER]
    if not starts:
        return []
    first = last = starts[-1]
    for start in reversed(starts[:-1]):
        if not any(line.strip() in _LINKS for line in lines[start:first]):
            break
        first = start
    return list(lines[first : _end(lines, last)])


def _end(lines: Sequence[str], header: int) -> int:
    """The line after the exception's: the first that is not indented, and what of its message follows at once."""
    indent = len(lines[header]) - len(lines[header].lstrip())
    index = header + 1
    while index < len(lines) and (not lines[index].strip() or lines[index][: indent + 1].isspace()):
        index += 1
    index += 1
    while index < len(lines) and lines[index][:1].isspace() and lines[index].strip():
        index += 1
    return index


def shortened(lines: Sequence[str]) -> list[str]:
    """The beginning and the end of many lines."""
    if len(lines) <= _MOST_LINES:
        return list(lines)
    half = _MOST_LINES // 2
    return [*lines[:half], f"  ... {len(lines) - 2 * half} lines ...", *lines[-half:]]

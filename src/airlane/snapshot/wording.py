"""How paths and sizes are shown to people."""

from __future__ import annotations

from collections.abc import Sequence


def shown(path: bytes) -> str:
    """A path on one line: what cannot be printed is escaped, and then the whole is quoted."""
    text = path.decode("utf-8", "backslashreplace")
    if text.isprintable() and "'" not in text and "\\" not in text:
        return text
    return repr(text)


def listed(paths: Sequence[bytes], limit: int = 10) -> str:
    """Paths in a sentence; those beyond the limit are counted."""
    names = ", ".join(shown(path) for path in paths[:limit])
    more = len(paths) - limit
    return f"{names} and {more} more" if more > 0 else names


def size_text(size_bytes: int) -> str:
    """Bytes for people: 812 bytes, 3.4 MB, 1.2 GB."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= scale:
            value = size_bytes / scale
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"  # noqa: PLR2004 - three digits do
    return f"{size_bytes} bytes"


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 file, 3 files."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

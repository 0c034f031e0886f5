"""Numbers and times as people read them."""

from __future__ import annotations

import time

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_TENTHS_BELOW = 10
_THOUSAND = 1000


def duration(seconds: float) -> str:
    """0.34 -> "0.3s", 41 -> "41s", 761 -> "12m 41s", 3900 -> "1h 05m", 270000 -> "3d 03h"."""
    if round(seconds, 1) < _TENTHS_BELOW:
        return f"{max(0.0, seconds):.1f}s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d {whole % _DAY // _HOUR:02d}h"


def clock(seconds: float) -> str:
    """A running clock: 12 -> "0:12", 3723 -> "1:02:03"."""
    whole = max(0, int(seconds))
    hours, minutes = divmod(whole // _MINUTE, _MINUTE)
    return f"{hours}:{minutes:02d}:{whole % _MINUTE:02d}" if hours else f"{minutes}:{whole % _MINUTE:02d}"


def ago(seconds: float) -> str:
    """How long ago: "just now", "41s ago", "12m ago", "3h ago", "2d ago"."""
    if seconds < 1:
        return "just now"
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m"), (1, "s")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit} ago"
    raise AssertionError(seconds)


def local_time(seconds: float) -> str:
    """Epoch seconds as "2026-11-30 10:21:07" in the time zone of the machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def iso(seconds: float | None) -> str | None:
    """Epoch seconds as ISO 8601 in UTC with microseconds, for JSON."""
    if seconds is None:
        return None
    micros = round(seconds * 1_000_000)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(micros // 1_000_000))
    return f"{stamp}.{micros % 1_000_000:06d}+00:00"


def size(count_bytes: int) -> str:
    """Bytes in powers of 1000: "812 bytes", "3.4 kB", "190 MB", "2.5 GB"."""
    if count_bytes < _THOUSAND:
        return count(count_bytes, "byte")
    amount = float(count_bytes)
    for unit in ("kB", "MB", "GB", "TB"):
        amount /= _THOUSAND
        if amount < _THOUSAND - 0.5 or unit == "TB":
            return f"{amount:.1f} {unit}" if amount < _TENTHS_BELOW - 0.05 else f"{amount:.0f} {unit}"
    raise AssertionError(count_bytes)


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number and what it counts: "1 file", "1,204 files"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"

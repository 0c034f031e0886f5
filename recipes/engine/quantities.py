"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Sequence

THOUSAND = 1000
SHORT_S = 9.95  # from here on, tenths say nothing
MINUTE_S = 60
HOUR_S = 3600


def amount(count: float) -> str:
    """`1.23M`, `3.1B`, `12`: three digits at the most, before the unit."""
    return in_units(count, ("", "k", "M", "B", "T"))


def size(count_bytes: float) -> str:
    """`12 MB`, `632 bytes`, in powers of 1,000."""
    return in_units(count_bytes, (" bytes", " kB", " MB", " GB", " TB"))


def in_units(count: float, units: Sequence[str]) -> str:
    """Three digits with the unit that fits; what would be rounded to 1,000 of one is 1 of the next."""
    *smaller, largest = units
    for unit in smaller:
        if round(count) < THOUSAND:
            return f"{count:.3g}{unit}"
        count /= THOUSAND
    return f"{count:,.0f}{largest}" if round(count) >= THOUSAND else f"{count:.3g}{largest}"


def duration(seconds: float) -> str:
    """`0.2s`, `45s`, `1m20s`, `2h05m`."""
    if seconds < SHORT_S:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < MINUTE_S:
        return f"{whole}s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S}m{whole % MINUTE_S:02d}s"
    return f"{whole // HOUR_S}h{whole % HOUR_S // MINUTE_S:02d}m"

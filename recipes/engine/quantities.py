"""Numbers as people read them."""

from __future__ import annotations

THOUSAND = 1000
MINUTE_S = 60
HOUR_S = 3600


def amount(count: float) -> str:
    """`1.2M`, `3.1B`; three digits at the least."""
    for unit in ("", "k", "M", "B"):
        if count < THOUSAND:
            return f"{count:.3g}{unit}"
        count /= THOUSAND
    return f"{count:.3g}T"


def size(count_bytes: float) -> str:
    """`12.0 MB`, in powers of 1,000."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count_bytes < THOUSAND:
            return f"{count_bytes:.3g} {unit}"
        count_bytes /= THOUSAND
    return f"{count_bytes:.3g} TB"


def duration(seconds: float) -> str:
    """`0.2s`, `45s`, `1m20s`, `2h05m`."""
    if seconds < 10:  # noqa: PLR2004 - from here on, tenths say nothing
        return f"{seconds:.1f}s"
    if seconds < MINUTE_S:
        return f"{seconds:.0f}s"
    if seconds < HOUR_S:
        return f"{int(seconds // MINUTE_S)}m{int(seconds % MINUTE_S):02d}s"
    return f"{int(seconds // HOUR_S)}h{int(seconds % HOUR_S // MINUTE_S):02d}m"

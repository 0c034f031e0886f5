"""Lengths of time as Slurm writes them: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:...]]."""

from __future__ import annotations

import re

_PATTERN = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})")
_MINUTE_S = 60
_HOUR_S = 60 * _MINUTE_S
_DAY_S = 24 * _HOUR_S
_AFTER_DAYS = (_HOUR_S, _MINUTE_S, 1)
_BY_COUNT = {1: (_MINUTE_S,), 2: (_MINUTE_S, 1), 3: (_HOUR_S, _MINUTE_S, 1)}


def read_duration(text: str) -> int | None:
    """Seconds; None for what is no length of time, as "UNLIMITED" and "N/A".

    Source: sbatch(1), --time.
    """
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        return None
    parts = [int(part) for part in match["parts"].split(":")]
    units = _BY_COUNT[len(parts)] if match["days"] is None else _AFTER_DAYS
    days_s = int(match["days"] or 0) * _DAY_S
    return days_s + sum(part * unit for part, unit in zip(parts, units, strict=False))


def write_duration(seconds: int) -> str:
    """What --time takes: "1-02:03:04", without the days if there are none."""
    days, rest = divmod(seconds, _DAY_S)
    hours, rest = divmod(rest, _HOUR_S)
    minutes, rest = divmod(rest, _MINUTE_S)
    clock = f"{hours:02}:{minutes:02}:{rest:02}"
    return f"{days}-{clock}" if days else clock

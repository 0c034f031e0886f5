"""What is in use on each node, as Ray writes it for people, one resource a line.

"0.5/2.0 CPU (0.0 used of 1.0 reserved in placement groups)", "0B/21.22GiB memory": what is reserved comes on top.

Source: Ray 2.60, dashboard/modules/node/node_head.py. It is there whatever autoscaler a cluster has, and less exact.
"""

from __future__ import annotations

import re
from typing import Any

from airlane.top.fields import mapping
from airlane.top.reading.resources import is_made_up, place
from airlane.top.values import Use

_LINE = re.compile(r"^\s*([\d.]{1,30})([KMGTP]iB|B)?/([\d.]{1,30})([KMGTP]iB|B)?\s+(\S{1,300})(.*)")
_RESERVED = re.compile(r"used of ([\d.]{1,30})([KMGTP]iB|B)? reserved")
_UNITS = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50}


def read_logical(content: Any) -> tuple[Use, ...]:
    """The sums over all nodes."""
    sums: dict[str, tuple[float, float]] = {}
    for told in mapping(content).values():
        for line in told.splitlines() if type(told) is str else ():
            read = _LINE.match(line)
            if read is not None and not is_made_up(read[5]):
                used, total = sums.get(read[5], (0.0, 0.0))
                reserved = _RESERVED.search(read[6])
                used += _amount(read[1], read[2]) + (_amount(reserved[1], reserved[2]) if reserved else 0.0)
                sums[read[5]] = (used, total + _amount(read[3], read[4]))
    uses = (Use(name, used, total) for name, (used, total) in sums.items() if total)
    return tuple(sorted(uses, key=lambda use: place(use.resource)))


def _amount(digits: str, unit: str | None) -> float:
    try:
        return float(digits) * _UNITS[unit]
    except ValueError:
        return 0.0

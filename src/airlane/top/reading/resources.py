"""Names of resources: those that users know, out of those that Ray makes up beside them.

A placement group turns "CPU" into "CPU_group_<group>" and "CPU_group_<bundle>_<group>", and adds "bundle_group_...";
every node has "node:<address>". /api/cluster_status writes all of them in camel case: "CPUGroup0D5Bf43A8...".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airlane.top.fields import amounts

_OF_GROUP = re.compile(r"(?i)^(.+?)_?group_?(?:\d+_)?[0-9a-f]{16,}$")
_OF_NODE = "node:"
_BUNDLE = "bundle"
_FIRST = ("CPU", "GPU", "memory", "object_store_memory")
_PLURAL = ("CPU", "GPU", "TPU")
_GIB = 1 << 30


def is_made_up(name: str) -> bool:
    return name.startswith(_OF_NODE) or _OF_GROUP.match(name) is not None


def offered(content: Any) -> Mapping[str, float]:
    """What a node or a bundle has, without what Ray makes up."""
    return {name: amount for name, amount in amounts(content).items() if not is_made_up(name)}


def asked(content: Any) -> Mapping[str, float]:
    """What somebody asks for; out of a placement group, as it was written."""
    found: dict[str, float] = {}
    for name, amount in amounts(content).items():
        of_group = _OF_GROUP.match(name)
        plain = of_group[1] if of_group else name
        if plain != _BUNDLE and not plain.startswith(_OF_NODE) and amount:
            found[plain] = max(amount, found.get(plain, 0.0))
    return found


def in_order(names: Mapping[str, float]) -> list[str]:
    """CPUs and GPUs first."""
    return sorted(names, key=place)


def place(name: str) -> tuple[int, str]:
    """Where a resource comes in a list."""
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def amount_words(name: str, amount: float) -> str:
    """Such as "2 GPUs", "16 GiB of memory", "1 licence"."""
    if name.endswith("memory"):
        return f"{amount / _GIB:.3g} GiB of {name.replace('_', ' ')}"
    return f"{amount:g} {name}{'s' if name in _PLURAL and amount != 1 else ''}"

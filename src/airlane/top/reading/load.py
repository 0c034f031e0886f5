"""What the scheduler has given away and what it could not give yet: /api/cluster_status.

Source: Ray 2.60. The names of resources are in camel case there: "objectStoreMemory" for "object_store_memory". Those
that Ray makes up for placement groups and addresses stand beside the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from airlane.top.fields import dig, mapping, number, read_json, text, whole
from airlane.top.reading.resources import asked, is_made_up, place
from airlane.top.reading.state_api import refusal
from airlane.top.values import Demand, Load, Use

USAGE = "/api/cluster_status"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PAIR = 2
_AS_THEY_ARE = ("CPU", "GPU", "TPU")


def read_load(body: bytes, names: Iterable[str] = ()) -> Load:
    """What is in use and what waits. `names` are those of resources as the nodes have them, which camel case hides.

    Raises:
        ValueError: this is no such answer.
    """
    answer = read_json(body)
    report = dig(answer, "data", "clusterStatus", "loadMetricsReport")
    if report is None:
        status = mapping(mapping(answer).get("data"))
        if "clusterStatus" in status:
            return Load()  # the first report is not there yet
        raise ValueError(refusal(answer) or "it has no report")
    known = {camel(name): name for name in names}
    use = []
    for name, told in mapping(dig(report, "usage")).items():
        numbers = told if type(told) is list and len(told) == _PAIR else (None, None)
        used, total = number(numbers[0]), number(numbers[1])
        if used is not None and total and not is_made_up(name):
            use.append(Use(_plain(name, known), used, total))
    demands = [*_demands(dig(report, "resourceDemand"), known), *_groups(dig(report, "pgDemand"), known)]
    return Load(tuple(sorted(use, key=lambda one: place(one.resource))), tuple(demands))


def camel(name: str) -> str:
    """As Ray's dashboard writes a name in this answer."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _plain(name: str, known: Mapping[str, str]) -> str:
    """A name as the user wrote it, as far as that can be told."""
    if name in known:
        return known[name]
    if name in _AS_THEY_ARE or "_" in name:
        return text(name)
    return text(_CAMEL.sub("_", name).lower() if name[:1].islower() else name)


def _pairs(content: Any) -> list[tuple[Any, int]]:
    """Those of [[what, how often], ...] that are such pairs."""
    pairs = [pair for pair in content if type(pair) is list and len(pair) == _PAIR] if type(content) is list else []
    return [(what, count) for what, often in pairs if (count := whole(often))]


def _shape(content: Any, known: Mapping[str, str]) -> dict[str, float]:
    return {_plain(name, known): amount for name, amount in asked(content).items()}


def _demands(content: Any, known: Mapping[str, str]) -> list[Demand]:
    return [Demand(count, _shape(shape, known)) for shape, count in _pairs(content)]


def _groups(content: Any, known: Mapping[str, str]) -> list[Demand]:
    """A placement group asks for the sum of its bundles."""
    found = []
    for group, count in _pairs(content):
        total: dict[str, float] = {}
        for shape, times in _pairs(dig(group, "bundles")):
            for name, amount in _shape(shape, known).items():
                total[name] = total.get(name, 0.0) + amount * times
        found.append(Demand(count, total, group=True))
    return found

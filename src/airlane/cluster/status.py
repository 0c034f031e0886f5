"""What a cluster's dashboard says about its nodes and resources, read into frozen values.

Source: Ray 2.60, /api/v0/nodes and /api/cluster_status. The latter turns resource names into camel case, and lists what
placement groups have set aside beside the real resources: only the names that every cluster has are taken from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airlane.frozen import frozen
from airlane.launch.ray_rest import MOST_ROWS

NODES = f"/api/v0/nodes?detail=1&limit={MOST_ROWS}"
USAGE = "/api/cluster_status"
_NAMES = {"GPU": "GPU", "CPU": "CPU", "memory": "memory", "objectStoreMemory": "object_store_memory"}


@frozen
class RayNode:
    """One node that Ray knows. `name` is node-<rank> where Airlane started it."""

    name: str
    address: str
    state: str
    head: bool
    cpus: float
    gpus: float
    why: str | None


@frozen
class Use:
    """How much of a resource is in use; bytes for memory."""

    resource: str
    used: float
    total: float


@frozen
class Demand:
    """What waits for resources: so many requests of one shape."""

    count: int
    shape: Mapping[str, float]


@frozen
class ClusterStatus:
    """A cluster as its dashboard sees it now."""

    nodes: tuple[RayNode, ...]
    use: tuple[Use, ...]
    demands: tuple[Demand, ...]

    @property
    def alive(self) -> int:
        return sum(node.state == "ALIVE" for node in self.nodes)


def read_status(answers: Mapping[str, Any]) -> ClusterStatus:
    """The status in the answers to NODES and USAGE. Raises ValueError when they have another form."""
    try:
        rows = answers[NODES]["data"]["result"]["result"]
        report = (answers[USAGE]["data"]["clusterStatus"] or {}).get("loadMetricsReport") or {}
        nodes = tuple(_node(row) for row in rows if row["node_id"])
        usage = report.get("usage") or {}
        used = {name: float(usage[key][0]) for key, name in _NAMES.items() if key in usage}
        totals = {name: _total(rows, name) for name in _NAMES.values()}
        use = tuple(Use(name, used.get(name, 0.0), total) for name, total in totals.items() if total)
        return ClusterStatus(nodes, use, tuple(_demands(report)))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the dashboard answers in a form that is not known: {error!r}") from error


def _total(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    """What the nodes offer that live; the usage report, five seconds behind, may know fewer of them."""
    return sum(float((row.get("resources_total") or {}).get(name, 0.0)) for row in rows if row["state"] == "ALIVE")


def _node(row: Mapping[str, Any]) -> RayNode:
    has = row.get("resources_total") or {}
    return RayNode(
        name=row.get("node_name") or row["node_id"][:8],
        address=row["node_ip"],
        state=row["state"],
        head=bool(row.get("is_head_node")),
        cpus=has.get("CPU", 0.0),
        gpus=has.get("GPU", 0.0),
        why=row.get("state_message"),
    )


def _demands(report: Mapping[str, Any]) -> list[Demand]:
    found = [Demand(int(count), shape) for shape, count in report.get("resourceDemand") or ()]
    for group, count in report.get("pgDemand") or ():
        total: dict[str, float] = {}
        for shape, times in group["bundles"]:
            for name, amount in shape.items():
                total[name] = total.get(name, 0.0) + amount * times
        found.append(Demand(int(count), total))
    return found


def read_log_names(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a node's logs, as /api/v0/logs lists them by kind. Raises ValueError."""
    try:
        return tuple(sorted({str(name) for names in answer["data"]["result"].values() for name in names}))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the dashboard answers in a form that is not known: {error!r}") from error

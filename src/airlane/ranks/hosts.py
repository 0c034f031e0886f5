"""The nodes of a Ray cluster as the launcher sees them, and the order that people count them in."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


@dataclass(frozen=True)
class Host:
    """A node that is alive: what it has, and what of that is free now. `port` is its raylet's."""

    node_id: str
    address: str
    port: int
    name: str
    cpus: float
    gpus: float
    free_cpus: float
    free_gpus: float

    @property
    def label(self) -> str:
        """The address, and the machine's name where that says more."""
        return self.address if self.name in ("", self.address) else f"{self.address} {self.name}"


def read_hosts(rows: Iterable[Mapping[str, Any]], free: Mapping[str, Mapping[str, float]]) -> tuple[Host, ...]:
    """The live nodes of `ray.nodes()`, with what is free by node id, in order."""
    hosts = []
    for row in rows:
        if not row["Alive"]:
            continue
        node_id, has = str(row["NodeID"]), row.get("Resources") or {}
        left = free.get(node_id, has)
        hosts.append(
            Host(
                node_id=node_id,
                address=str(row["NodeManagerAddress"]),
                port=int(row.get("NodeManagerPort") or 0),
                name=str(row.get("NodeName") or row.get("NodeManagerHostname") or ""),
                cpus=float(has.get("CPU", 0)),
                gpus=float(has.get("GPU", 0)),
                free_cpus=float(left.get("CPU", 0)),
                free_gpus=float(left.get("GPU", 0)),
            )
        )
    return in_order(hosts)


def in_order(hosts: Iterable[Host], topology: tuple[str, ...] = ()) -> tuple[Host, ...]:
    """Those that a topology names, in its order; then by address as a number; on one machine by the raylet's port."""
    place = {name: index for index, name in reversed(list(enumerate(topology)))}

    def key(host: Host) -> tuple[int, tuple[int, int, str], int, str]:
        named = [place[name] for name in (host.address, host.name, host.node_id) if name in place]
        return min(named, default=len(topology)), address_key(host.address), host.port, host.node_id

    return tuple(sorted(hosts, key=key))


def address_key(address: str) -> tuple[int, int, str]:
    """10.0.0.9 before 10.0.0.10; what is no address comes last, as text."""
    try:
        number = ipaddress.ip_address(address)
    except ValueError:
        return (9, 0, address)
    return (number.version, int(number), "")


def read_topology(text: str) -> tuple[str, ...]:
    """Names of nodes, in order, separated by commas or white space; `#` begins a comment."""
    lines = (line.partition("#")[0] for line in text.splitlines())
    return tuple(dict.fromkeys(name for line in lines for name in line.replace(",", " ").split()))

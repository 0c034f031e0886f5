"""Where a Ray cluster is and how far it has come, as its head tells in cluster.json."""

from __future__ import annotations

from pathlib import Path

from airlane.frozen import frozen
from airlane.launch.ray_cluster_file import READY, read_cluster
from airlane.launch.ray_settings import CLUSTER


@frozen
class ClusterNode:
    """A node that has joined: its rank in the run, its id in Ray, and what it offers."""

    node: int
    node_id: str
    host: str
    address: str
    cpus: int
    gpus: int


@frozen
class ClusterState:
    """A cluster whose head has started. Addresses are "host:port"; `host` is the head's name."""

    ready: bool
    address: str
    client: str
    dashboard: str
    host: str
    nodes: tuple[ClusterNode, ...]

    @property
    def cpus(self) -> int:
        return sum(node.cpus for node in self.nodes)

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.nodes)


def read_state(folder: Path) -> ClusterState | None:
    """The state of the cluster whose files are in `folder`; None until its head has started."""
    fields = read_cluster(str(folder / CLUSTER))
    if fields is None or "address" not in fields:
        return None
    return ClusterState(
        ready=fields.get("phase") == READY,
        address=fields["address"],
        client=fields["client"],
        dashboard=fields["dashboard"],
        host=fields["host"],
        nodes=tuple(
            ClusterNode(node["node"], node["node_id"], node["host"], node["address"], node["cpus"], node["gpus"])
            for node in fields["nodes"]
        ),
    )

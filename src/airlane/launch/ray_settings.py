"""What the nodes of a run are told about their Ray cluster: one JSON file for all, written by the supervisor."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Optional, Tuple

TOKEN = "token"  # noqa: S105 - the name of a file
CLUSTER = "cluster.json"
SETTINGS = "settings.json"
NODE_SCRIPT = "node.sh"


@dataclass(frozen=True)
class RaySettings:
    """The cluster of one attempt. `folder` is shared by the nodes and their owner's alone; `hosts` are by node rank.

    `gpus_per_node` is 0 where the accelerators are cores or simulated; `cpus_per_node` is None where every node offers
    what it finds. `public` lets the dashboard listen on every address of the head, not on loopback alone.
    """

    folder: str
    command_file: str
    hosts: Tuple[str, ...]
    addresses: Tuple[str, ...]
    gpus_per_node: int
    cpus_per_node: Optional[int]
    object_store_bytes: Optional[int]
    ready_timeout_s: float
    public: bool

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def read(path: str) -> RaySettings:
        """Raises OSError or ValueError."""
        with open(path, encoding="utf-8") as file:
            fields = json.load(file)
        return RaySettings(**{**fields, "hosts": tuple(fields["hosts"]), "addresses": tuple(fields["addresses"])})

    @property
    def nodes(self) -> int:
        return len(self.hosts)

    @property
    def token_file(self) -> str:
        return os.path.join(self.folder, TOKEN)

    @property
    def cluster_file(self) -> str:
        return os.path.join(self.folder, CLUSTER)

    def start_log(self, node: int) -> str:
        """What `ray start` said on a node."""
        return os.path.join(self.folder, f"start-{node}.log")

    def node_in_words(self, node: int) -> str:
        return f"node {node} ({self.hosts[node]})"

"""A placement group for each node: what a launcher of one process per accelerator needs.

For nodes of two CPUs each: air ray up --nodes 3 --cpus-per-node 2
"""

from __future__ import annotations

from ipaddress import ip_address

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

PER_NODE = 2


@ray.remote(num_cpus=1)
class Rank:
    """One process of many; it asks where it is rather than trusting where it should be."""

    def __init__(self, rank: int, local_rank: int) -> None:
        self.name = f"rank {rank} (local {local_rank})"

    def place(self) -> tuple[str, str]:
        return self.name, ray.get_runtime_context().get_node_id()


def main() -> None:
    ray.init("auto", logging_level="error")

    # Addresses are compared as numbers: as text, 10.0.0.10 comes before 10.0.0.9.
    nodes = sorted((n for n in ray.nodes() if n["Alive"]), key=lambda n: ip_address(n["NodeManagerAddress"]))

    # Each group is tied to one node by the label that every node has. STRICT_PACK alone would keep a group together,
    # but let several groups share a node.
    groups = [
        placement_group(
            [{"CPU": 1}] * PER_NODE,
            strategy="STRICT_PACK",
            bundle_label_selector=[{"ray.io/node-id": node["NodeID"]}] * PER_NODE,
        )
        for node in nodes
    ]
    try:
        late = [group for group in groups if not group.wait(timeout_seconds=30)]
        if late:
            raise SystemExit(f"{len(late)} of {len(groups)} nodes have no {PER_NODE} CPUs free")
        report(nodes, groups)
    finally:
        for group in groups:
            remove_placement_group(group)


def report(nodes: list[dict[str, object]], groups: list[PlacementGroup]) -> None:
    """Start the ranks, node by node, and say where each of them is."""
    ranks = []
    for index, group in enumerate(groups):
        for local_rank in range(PER_NODE):
            place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=local_rank)
            ranks.append(Rank.options(scheduling_strategy=place).remote(index * PER_NODE + local_rank, local_rank))
    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in nodes}
    places = ray.get([rank.place.remote() for rank in ranks])
    for name, node in places:
        print(f"{name} on {addresses[node]}")
    print(f"{len(ranks)} ranks on {len({node for _, node in places})} nodes")


if __name__ == "__main__":
    main()

"""Resources reserved together, all or none: the four strategies, and what each promises about nodes.

For nodes of two CPUs each: air ray up --nodes 3 --cpus-per-node 2
"""

from __future__ import annotations

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@ray.remote(num_cpus=1)
def node() -> str:
    """Where a call in a bundle runs."""
    return ray.get_runtime_context().get_node_id()


def try_out(strategy: str, bundles: int) -> None:
    """Reserve so many bundles of one CPU, run a call in each, and give them back."""
    group = placement_group([{"CPU": 1}] * bundles, strategy=strategy)
    try:
        # There is no deadline but this one: a group that can never be placed stays pending.
        if not group.wait(timeout_seconds=3):
            print(f"{strategy:<13} {bundles} bundles: {placement_group_table(group)['state']}")
            return
        places = [
            node.options(
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
            ).remote()
            for index in range(bundles)
        ]
        print(f"{strategy:<13} {bundles} bundles: on {len(set(ray.get(places)))} of 3 nodes")
    finally:
        remove_placement_group(group)  # what it held is free again, and what still runs in it is killed


def main() -> None:
    ray.init("auto", logging_level="error")

    # As few nodes as possible.
    try_out("PACK", 2)
    try_out("PACK", 4)

    # As many nodes as possible; several bundles share one where it must be.
    try_out("SPREAD", 3)
    try_out("SPREAD", 4)

    # One node for all of them, or nothing.
    try_out("STRICT_PACK", 2)
    try_out("STRICT_PACK", 3)

    # A node for each of them, or nothing.
    try_out("STRICT_SPREAD", 3)
    try_out("STRICT_SPREAD", 4)

    show_that_groups_may_meet()


def show_that_groups_may_meet() -> None:
    """STRICT_PACK says where a group's bundles are in relation to one another, and nothing about other groups.

    Two groups meant for two nodes land on one when the others are busy, and nobody complains. To be sure, ask for it:
    one_group_per_node.py.
    """
    busy = placement_group([{"CPU": 2}] * 2, strategy="STRICT_SPREAD")
    groups = [placement_group([{"CPU": 1}], strategy="STRICT_PACK") for _ in range(2)]
    ray.get([busy.ready(), *(group.ready() for group in groups)])
    used = {place for group in groups for place in placement_group_table(group)["bundles_to_node_id"].values()}
    print(f"two STRICT_PACK groups, two nodes busy: on {len(used)} of 3 nodes")
    for group in (busy, *groups):
        remove_placement_group(group)


if __name__ == "__main__":
    main()

"""A placement group of one bundle on each of N distinct nodes, with a deadline, and gone on every way out."""

from __future__ import annotations

import time

from airlane.errors import BackendError, CapacityError
from airlane.ranks.door import returns
from airlane.ranks.shape import waiting_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from airlane.ranks.door import Cluster
    from airlane.ranks.shape import Shape

_LOOK_EVERY_S = 0.5
_SAY_AFTER_S = 2.0
_GONE_S = 10.0


class Placement:
    """The bundles of a shape. It is this process's own: Ray removes it when the process is gone, however it ended."""

    def __init__(self, cluster: Cluster, shape: Shape, excluded: frozenset[str]) -> None:
        self._ray = cluster.ray
        self._cluster = cluster
        self.shape = shape
        self._excluded = excluded
        self.group = self._create()

    def _create(self) -> Any:
        from ray.util.placement_group import placement_group  # type: ignore[import-not-found,unused-ignore]

        amounts = {"GPU": self.shape.gpus, "CPU": self.shape.cpus}
        bundle = {name: amount for name, amount in amounts.items() if amount} or {"CPU": 0.001}
        options: dict[str, Any] = {}
        if self._excluded:
            label = {"ray.io/node-id": f"!in({','.join(sorted(self._excluded))})"}
            options["bundle_label_selector"] = [label] * self.shape.nodes
        return placement_group([bundle] * self.shape.nodes, strategy="STRICT_SPREAD", **options)

    def wait(self, timeout_s: float, say: Callable[[str], None], stopped: Callable[[], bool]) -> bool:
        """Wait until every bundle has its node; False when stopped before. Says what is waited for as it changes.

        Raises CapacityError at the deadline, BackendError where two bundles share a node.
        """
        began = time.monotonic()
        said = ""
        while not self.group.wait(_LOOK_EVERY_S):
            if stopped():
                return False
            waited = time.monotonic() - began
            hosts = [host for host in self._cluster.hosts() if host.node_id not in self._excluded]
            reason = waiting_for(self.shape, hosts)
            if waited >= timeout_s:
                raise CapacityError(
                    f"not placed within {timeout_s:g} s: {reason}", hint=f"air-ranks --timeout {2 * timeout_s:g} ..."
                )
            if waited >= _SAY_AFTER_S and reason != said:
                said = reason
                say(f"waiting: {reason}")
        self._check()
        return True

    def nodes(self) -> tuple[str, ...]:
        """The node of each bundle."""
        from ray.util.placement_group import placement_group_table

        bundles = placement_group_table(self.group)["bundles_to_node_id"]
        return tuple(str(bundles[index]) for index in range(self.shape.nodes))

    def _check(self) -> None:
        nodes = self.nodes()
        if len(set(nodes)) != self.shape.nodes:
            found = f"{len(set(nodes))} distinct nodes where {self.shape.nodes} were wanted"
            raise BackendError(f"Ray placed the bundles on {found}", hint="air-ranks ... (once more)")

    def remove(self) -> None:
        """Give everything back, and wait until the cluster knows; what is there of the actors ends.

        Where the cluster does not answer any more, it is left to its end.
        """
        returns(self._remove, within_s=_GONE_S)

    def _remove(self) -> None:
        from ray.util.placement_group import placement_group_table, remove_placement_group

        remove_placement_group(self.group)
        while placement_group_table(self.group).get("state") != "REMOVED":
            time.sleep(0.01)

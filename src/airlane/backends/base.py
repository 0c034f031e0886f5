"""What a place where runs happen must offer. A backend is one file, one line in registry.py, one contract-test row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from airlane.frozen import frozen
from airlane.launch.order import Order
from airlane.store.paths import RunPaths
from airlane.store.records import NodeRecord, RunRecord
from airlane.store.runs import NewRun


@frozen
class Compute:
    """What a run asks for: `accelerators_per_node` on each of `nodes` nodes."""

    nodes: int
    accelerators_per_node: int
    accelerator_type: str
    simulate: bool = False


@frozen
class NodePlace:
    """Where one node of an attempt runs. `address` is what the other nodes reach it by.

    `devices` is the node's CUDA_VISIBLE_DEVICES: indexes or UUIDs, empty where accelerators are simulated.
    """

    node: int
    host: str
    address: str
    devices: tuple[str, ...] = ()


class Liveness(StrEnum):
    """What a backend knows of a run's supervisor. UNKNOWN is never evidence."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


@frozen
class NodeReport:
    """One look at a node: whether its agent lives, and what the agent has written so far."""

    node: int
    agent_alive: bool
    record: NodeRecord | None


@frozen
class Waiting:
    """An allocation that is not granted yet: in words, and the position in the queue from 1 (None if unknown)."""

    detail: str
    position: int | None = None


class Allocation(Protocol):
    """Nodes held, or waited for, by one attempt. Every method returns at once except `wait`."""

    def waiting(self) -> Waiting | None:
        """None once the nodes are held."""

    def places(self) -> tuple[NodePlace, ...]:
        """The nodes, by rank; only after `waiting` returned None."""

    def free_port(self) -> int:
        """A TCP port free on node 0."""

    def start(self, order: Order) -> None:
        """Start the agent of the order's node."""

    def look(self) -> tuple[NodeReport, ...]:
        """One report for each node started."""

    def stop(self, node: int) -> None:
        """SIGTERM to everything on the node, SIGKILL after the order's grace. Harmless when repeated."""

    def kill(self, node: int) -> None:
        """SIGKILL to everything on the node, the agent included. Harmless when repeated."""

    def wait(self, timeout_s: float) -> None:
        """Return when something may have changed, or after the timeout."""

    def release(self) -> None:
        """Give the nodes back (or leave the queue). Harmless when repeated."""


class Backend(Protocol):
    """A place where runs happen."""

    name: str

    def check(self, compute: Compute) -> tuple[str, ...]:
        """Lines for people about where the run would go; changes nothing.

        Raises:
            CapacityError: the run can never fit; the message says what there is.
        """

    def submit(self, run: NewRun, supervise: Callable[[], None], *, ready: bool) -> None:
        """Start the run's supervisor, which outlives the caller; `supervise` is its body where a fork will do.

        `ready` is False when the environment must be built first: such a run lets others pass meanwhile.
        """

    def poll(self, runs: Sequence[RunPaths]) -> Mapping[str, Liveness]:
        """Whether the supervisors of these runs (by id) live; one question for all of them."""

    def sweep(self, run: RunPaths) -> None:
        """End every process that a dead supervisor of this run left; takes no longer than a few seconds."""

    def allocate(self, run: RunRecord, paths: RunPaths, attempt: int) -> Allocation:
        """Called by the supervisor: ask for nodes for one attempt."""

"""What a place where runs happen must offer. A backend is one file, one line in registry.py, one contract-test row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from airlane.errors import BackendError
from airlane.frozen import frozen
from airlane.launch.order import Order
from airlane.store.paths import RunPaths
from airlane.store.records import Attempt, CauseKind, NodeRecord, RunRecord
from airlane.store.runs import NewRun


@frozen
class Compute:
    """What a run asks for: `accelerators_per_node` on each of `nodes` nodes."""

    nodes: int
    accelerators_per_node: int
    accelerator_type: str
    simulate: bool = False


@frozen
class NodeSize:
    """What there is on each node."""

    gpus: int
    cpus: int


@frozen
class NodeHome:
    """What a node has of its own that shares no disk with the supervisor.

    `root` takes the place of the run folder there, and `checkpoints` of the folder in it; `launch` is where our
    programs lie. `path` is the PATH of the environment, `virtual_env` its folder where it is a virtual one.
    """

    root: Path
    checkpoints: Path
    launch: Path
    path: str
    virtual_env: str | None = None


@frozen
class NodePlace:
    """Where one node of an attempt runs. `address` is what the other nodes reach it by.

    `devices` is the node's CUDA_VISIBLE_DEVICES: indexes or UUIDs, empty where accelerators are simulated. `home` is
    None where the node shares the run folder.
    """

    node: int
    host: str
    address: str
    devices: tuple[str, ...] = ()
    home: NodeHome | None = None


class Liveness(StrEnum):
    """What a backend knows of a run's supervisor. UNKNOWN is never evidence.

    WAITING: there is none now, and a scheduler will start one.
    """

    ALIVE = "alive"
    WAITING = "waiting"
    DEAD = "dead"
    UNKNOWN = "unknown"


@frozen
class NodeReport:
    """One look at a node: whether its agent lives, and what the agent has written so far.

    `lost` says in words why a node without a last word is thought to be gone; `host_failed` that its machine is.
    """

    node: int
    agent_alive: bool
    record: NodeRecord | None
    lost: str | None = None
    host_failed: bool = False


@frozen
class Waiting:
    """An allocation that is not granted yet: in words, and the position in the queue from 1 (None if unknown)."""

    detail: str
    position: int | None = None


@frozen
class Interruption:
    """That the place where a run is takes its nodes back, or ended its supervisor.

    `kind` is CANCELED, TIMEOUT, PREEMPTED or NODE_FAILED; any other kind says how the supervisor itself ended.
    """

    kind: CauseKind
    summary: str
    host: str | None = None
    signal: str | None = None
    hint: str | None = None


@frozen
class Finding:
    """One thing that `air doctor` looked at: well (True), not well (False), or worth knowing (None)."""

    name: str
    ok: bool | None
    detail: str
    hint: str | None = None


class Allocation(Protocol):
    """Nodes held, or waited for, by one attempt. Every method returns at once except `wait`."""

    def waiting(self) -> Waiting | None:
        """None once the nodes are held.

        Raises:
            NodeFailedError: a node does not answer, or is not fit for the run.
        """

    def places(self) -> tuple[NodePlace, ...]:
        """The nodes, by rank; only after `waiting` returned None."""

    def free_port(self) -> int:
        """A TCP port free on node 0."""

    def start(self, order: Order) -> None:
        """Start the agent of the order's node."""

    def look(self) -> tuple[NodeReport, ...]:
        """One report for each node started."""

    def interruption(self) -> Interruption | None:
        """Why the place takes the nodes back, if it does."""
        return None

    def stop(self, node: int) -> None:
        """SIGTERM to everything on the node, SIGKILL after the order's grace. Harmless when repeated."""

    def kill(self, node: int) -> None:
        """SIGKILL to everything on the node, the agent included. Harmless when repeated."""

    def wait(self, timeout_s: float) -> None:
        """Return when something may have changed, or after the timeout."""

    def release(self) -> None:
        """Give the nodes back (or leave the queue). Harmless when repeated."""


class Backend(Protocol):
    """A place where runs happen. What has a body here is right for a place without a scheduler of its own.

    With `elsewhere`, a run's nodes are other machines: its environment is built before it is submitted (they may have
    no network), and the home's MLflow server must be reached from them. With `has_environment` they have a Python
    with its packages already, and nothing is built.
    """

    name: str
    elsewhere: bool = False
    has_environment: bool = False

    def check(self, compute: Compute) -> tuple[str, ...]:
        """Lines for people about where the run would go; changes nothing.

        Raises:
            CapacityError: the run can never fit; the message says what there is.
        """

    def check_environment(self, run: RunRecord) -> str | None:
        """What a run's command would find, for people; only of a backend that has the environment.

        Raises:
            ConfigError: it is not what the workload asks for.
        """
        del run
        return None

    def planned_home(self, run: RunRecord) -> NodeHome | None:
        """What a node would have of its own, with <...> for what it alone knows; None where it shares the folder."""
        del run
        return None

    def submission_script(self, run: RunRecord, paths: RunPaths) -> str | None:
        """What would be handed to a scheduler, for people to read; None where there is no such thing."""
        del run, paths
        return None

    def submit(self, run: NewRun, supervise: Callable[[], None], *, ready: bool) -> None:
        """Start the run's supervisor, which outlives the caller; `supervise` is its body where a fork will do.

        `ready` is False when the environment must be built first: such a run lets others pass meanwhile.
        """

    def poll(self, runs: Sequence[RunPaths]) -> Mapping[str, Liveness]:
        """Whether the supervisors of these runs (by id) live; one question for all of them."""

    def bring(self, runs: Sequence[RunPaths]) -> bool:
        """Called before runs are judged: bring what lies elsewhere into their folders; whether something came."""
        del runs
        return False

    def queued(self, runs: Sequence[RunPaths]) -> Mapping[str, Waiting]:
        """What the runs (by id) wait for that have no supervisor now; one question for all of them."""
        del runs
        return {}

    def cancel(self, run: RunPaths) -> None:
        """Hasten the end of a run whose cancellation is on disk already. Harmless when repeated."""
        del run

    def asked_to_stop(self) -> Interruption | None:
        """Called by a supervisor that got SIGTERM: why; None if it is to go on."""
        return Interruption(CauseKind.CANCELED, "the supervisor was asked to stop (SIGTERM)")

    def take_over(self, run: RunRecord, paths: RunPaths) -> bool:
        """Called by a supervisor that a scheduler has started: whether it is the run's current one."""
        del run, paths
        return True

    def leave(self, run: RunPaths) -> None:
        """Called by a supervisor that a scheduler has started, as the last thing: nothing more will be written."""
        del run

    def replaced(self, run: RunPaths) -> bool:
        """Called by a supervisor, often: whether another one has taken its place, so that it must do nothing more."""
        del run
        return False

    def where(self, run: RunPaths) -> str | None:
        """Under which name the place knows the run, for people."""
        del run
        return None

    def last_words(self, run: RunPaths) -> Interruption | None:
        """What is known about the end of a supervisor that died without a word."""
        del run
        return None

    def sweep(self, run: RunPaths) -> None:
        """End every process that a dead supervisor of this run left; takes no longer than a few seconds."""

    def allocate(self, run: RunRecord, paths: RunPaths, attempt: int) -> Allocation:
        """Called by the supervisor: ask for nodes for one attempt."""

    def move(self, run: RunRecord, paths: RunPaths, attempts: Sequence[Attempt]) -> str | None:
        """Called by the supervisor before another attempt: have it made elsewhere, by another supervisor.

        In words, where; None if this supervisor can make it. Asked twice, it moves once.
        """
        del run, paths, attempts
        return None

    def node_size(self, nodes: int) -> NodeSize:
        """What each of so many nodes can be asked for.

        Raises:
            CapacityError: there are not so many.
            BackendError: this place does not tell.
        """
        raise BackendError(
            f"the {self.name} backend does not tell what its nodes have",
            hint=f"air ray up --nodes {nodes} --gpus-per-node G, or --cpus-per-node C",
        )

    def a_node(self) -> str | None:
        """The name of a machine where nodes may be: what they must reach listens on the interface that leads there."""
        return None

    def ask_node(self, module: str, *arguments: str) -> tuple[str, str]:
        """Run a short module of ours on a machine where nodes may be; the machine's name, and what it printed.

        Raises:
            BackendError: there is none, or it did not answer in time.
        """
        raise BackendError(f"the {self.name} backend has no other machine to ask: {module} {' '.join(arguments)}")

    def on_node(self, run: RunPaths, host: str, *, terminal: bool = False) -> tuple[str, ...]:
        """What goes before a command so that it runs on a host of the run's nodes; nothing where that is this host.

        With `terminal` the command has the caller's terminal.
        """
        del run, host, terminal
        return ()

    def doctor(self) -> Iterator[Finding]:
        """What `air doctor` should know about this place."""
        return iter(())

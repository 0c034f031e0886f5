"""The nodes of one attempt on a Ray cluster: one bundle of a placement group on each, and in it an agent's actor."""

from __future__ import annotations

import contextlib
import ipaddress
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from airlane.backends.base import Allocation, NodeHome, NodePlace, NodeReport, Waiting
from airlane.backends.ray.capacity import missing_words, waiting_words
from airlane.backends.ray.door import AgentLostError, ClusterNode, Demand
from airlane.backends.ray.options import checkpoints_folder
from airlane.backends.ray.replica import Frame, Sink
from airlane.errors import BackendError, CapacityError, NodeFailedError
from airlane.frozen import frozen
from airlane.launch.order import Order
from airlane.store.paths import RunPaths
from airlane.store.records import NodeRecord, RunRecord
from airlane.store.runs import read_node_record

# An agent that hears nothing for so long ends its command: its supervisor, or the way to it, is gone.
SILENCE_S = 120.0
# Every agent answers within this, with news or without.
NEWS_S = 1.0
GREETING_S = 180.0
ENVIRONMENT_S = 3600.0
CLOSE_S = 12.0
# After the loss of a node another may come: this is waited for before the run is refused.
REPLACEMENT_S = 300.0
_LOOK_AT_CLUSTER_S = 2.0


class RayDoor(Protocol):
    """What an allocation needs of door.Door."""

    def nodes(self) -> tuple[ClusterNode, ...]: ...
    def group(self, name: str, bundles: Sequence[Mapping[str, float]]) -> Any: ...
    def granted(self, group: Any) -> bool: ...
    def agent(self, group: Any, index: int, demand: Demand, *arguments: Any) -> Any: ...
    def call(self, agent: Any, method: str, *arguments: Any) -> Any: ...
    def ready(self, promises: Sequence[Any], timeout_s: float, *, all_of_them: bool = False) -> list[Any]: ...
    def answer(self, promise: Any) -> Any: ...
    def end(self, agents: Sequence[Any]) -> None: ...
    def give_back(self, group: Any) -> None: ...
    def has_died(self, node: ClusterNode) -> bool: ...


@frozen
class Parcel:
    """What every node gets: our package and the run's code, both in Ray's object store, and the resolved secrets.

    `secrets` are by the file that an order names. `wait_s` is how long busy nodes are waited for; where the cluster
    `grows`, missing ones are, too. `storage` is a folder that all nodes share, if there is one.
    """

    kit: Any
    code: Any
    secrets: Mapping[str, bytes]
    wait_s: float
    grows: bool
    storage: Path | None


@frozen
class _Member:
    """A node that has said hello, and the actor on it."""

    agent: Any
    node: ClusterNode
    port: int
    place: NodePlace


class Holding:
    """The run's bundles, held from attempt to attempt: what a node has saved on its own disk is there for the next.

    They are given back when one of their nodes is lost, when they were never used, and at the end of the run.
    """

    def __init__(self, door: RayDoor) -> None:
        self._door = door
        self._node_ids: set[str] = set()
        self.group: Any = None

    def ask(self, name: str, bundles: Sequence[Mapping[str, float]]) -> None:
        self.group = self._door.group(name, bundles)

    def keep(self, node_ids: set[str]) -> None:
        """For the next attempt: the bundles are on these nodes."""
        self._node_ids = node_ids

    def check(self) -> None:
        """Give back what is of no more use: a bundle's node has died since."""
        if self.group is not None and not self._node_ids <= {node.node_id for node in self._door.nodes()}:
            self.give_back()

    def give_back(self) -> None:
        if self.group is not None:
            self._door.give_back(self.group)
        self.group, self._node_ids = None, set()


class RayAllocation(Allocation):
    """Asked for with the first look, then greeted, then held."""

    def __init__(
        self,
        run: RunRecord,
        paths: RunPaths,
        attempt: int,
        *,
        door: RayDoor,
        holding: Holding,
        demand: Demand,
        parcel: Parcel,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._paths = paths
        self._attempt = attempt
        self._door = door
        self._holding = holding
        self._demand = demand
        self._parcel = parcel
        self._clock = clock
        self._sink = Sink(paths.root)
        self._agents: list[Any] = []
        self._hellos: list[Any] = []
        self._members: list[_Member] = []
        self._news: dict[Any, int] = {}
        self._unwritten: dict[int, list[Frame]] = {}
        self._over: dict[int, str | None] = {}
        self._host_failed: set[int] = set()
        self._asked: set[int] = set()
        self._released = False
        self._begun = clock()
        self._since = self._begun
        self._cluster_seen = -_LOOK_AT_CLUSTER_S
        self._words = "asking Ray for nodes"

    def waiting(self) -> Waiting | None:
        if self._members:
            return None
        if not self._agents:
            self._ask_for_bundles()
            if not self._door.granted(self._holding.group):
                self._check_wait()
                return Waiting(self._words)
            self._greet()
        return self._await_hellos()

    def _ask_for_bundles(self) -> None:
        self._holding.check()
        if self._holding.group is None:
            self._look_at_cluster()
            bundles = [self._demand.bundle] * self._run.nodes
            self._holding.ask(f"air-{self._run.id}-{self._attempt}", bundles)

    def _check_wait(self) -> None:
        self._look_at_cluster()
        if self._clock() - self._begun > self._parcel.wait_s:
            raise CapacityError(
                f"no nodes within {self._parcel.wait_s / 60:g} min: {self._words}",
                hint="set wait_minutes in the profile",
            )

    def _look_at_cluster(self) -> None:
        """Say what is waited for. Raises CapacityError for what will never be there."""
        if self._clock() - self._cluster_seen < _LOOK_AT_CLUSTER_S:
            return
        self._cluster_seen = self._clock()
        nodes = self._door.nodes()
        missing = missing_words(self._demand.bundle, self._run.nodes, [node.total for node in nodes])
        patience_s = REPLACEMENT_S if self._attempt else 0.0
        if missing is not None and not self._parcel.grows and self._clock() - self._begun >= patience_s:
            raise CapacityError(missing, hint="air doctor -p " + (self._run.profile or "PROFILE"))
        found = [(node.total, node.free) for node in nodes]
        self._words = missing or waiting_words(self._demand.bundle, self._run.nodes, found)

    def _greet(self) -> None:
        self._since = self._clock()
        arguments = (self._run.id, self._attempt, self._parcel.kit)
        for index in range(self._run.nodes):
            agent = self._door.agent(self._holding.group, index, self._demand, *arguments)
            self._agents.append(agent)
            self._hellos.append(self._door.call(agent, "hello"))

    def _await_hellos(self) -> Waiting | None:
        done = self._door.ready(self._hellos, 0.0, all_of_them=True)
        for promise in done:
            self._listen(promise)  # one that failed is told at once
        if len(done) == len(self._hellos):
            self._take_places([self._listen(promise) for promise in self._hellos])
            return None
        building = bool(self._demand.runtime_env)
        if self._clock() - self._since > (ENVIRONMENT_S if building else GREETING_S):
            raise BackendError(
                f"{len(self._hellos) - len(done)} of {len(self._hellos)} nodes did not answer in time",
                hint="what Ray says of its nodes: ray list nodes, ray list actors",
            )
        what = "Ray builds the environment" if building else "starting the agents"
        return Waiting(f"{what}: {len(done)} of {len(self._hellos)} nodes are ready")

    def _listen(self, promise: Any) -> dict[str, Any]:
        try:
            said: dict[str, Any] = self._door.answer(promise)
        except AgentLostError as error:
            raise NodeFailedError(f"a node was lost before it began: {error}", host="a node of the cluster") from error
        return said

    def _take_places(self, hellos: Sequence[Mapping[str, Any]]) -> None:
        """Number the nodes: by address, as numbers, so that a rank keeps its node from attempt to attempt."""
        if len({said["node_id"] for said in hellos}) != self._run.nodes:
            raise BackendError(f"Ray has put two of {self._run.nodes} bundles on one node")
        known = {node.node_id: node for node in self._door.nodes()}
        said_by = sorted(zip(self._agents, hellos, strict=True), key=lambda pair: _order(pair[1]))
        for rank, (agent, said) in enumerate(said_by):
            node = known.get(said["node_id"])
            if node is None:
                raise NodeFailedError("a node was lost before it began", host=said["host"])
            self._members.append(_Member(agent, node, said["port"], self._place(rank, said)))

    def _place(self, rank: int, said: Mapping[str, Any]) -> NodePlace:
        home = NodeHome(
            root=Path(said["root"]),
            checkpoints=checkpoints_folder(self._parcel.storage, Path(said["checkpoints"]), self._run.id),
            launch=Path(said["launch"]),
            path=said["path"],
            virtual_env=said["virtual_env"],
        )
        return NodePlace(rank, said["host"], said["address"], tuple(said["devices"]), home)

    def places(self) -> tuple[NodePlace, ...]:
        return tuple(member.place for member in self._members)

    def free_port(self) -> int:
        return self._members[0].port

    def start(self, order: Order) -> None:
        node = order.node_rank
        agent = self._members[node].agent
        sent = _files(self._paths.sent(attempt=self._attempt, node=node))
        secrets = [self._secret(file) for file in order.secrets_files]
        beating = replace(order, silence_s=SILENCE_S)
        started = self._door.call(agent, "start", node, beating.to_json(), sent, secrets, self._parcel.code)
        self._news[started] = node

    def _secret(self, file: str) -> bytes:
        held = self._parcel.secrets.get(file)
        return held if held is not None else Path(file).read_bytes()

    def look(self) -> tuple[NodeReport, ...]:
        started = {*self._news.values(), *self._unwritten, *self._over}
        return tuple(self._report(node) for node in sorted(started))

    def _report(self, node: int) -> NodeReport:
        record = self._record(node)
        alive = node not in self._over
        return NodeReport(node, alive, record, self._over.get(node), host_failed=node in self._host_failed)

    def _record(self, node: int) -> NodeRecord | None:
        return read_node_record(self._paths, attempt=self._attempt, node=node)

    def stop(self, node: int) -> None:
        self._tell(node, "tell", b"stop\n")

    def kill(self, node: int) -> None:
        self._tell(node, "kill")

    def _tell(self, node: int, *words: Any) -> None:
        """Nobody waits for the answer: what becomes of it is seen in the news."""
        self._asked.add(node)
        if node not in self._over:
            self._door.call(self._members[node].agent, *words)

    def wait(self, timeout_s: float) -> None:
        self._write_again()
        if not self._news:
            time.sleep(timeout_s)
            return
        for promise in self._door.ready(list(self._news), timeout_s):
            node = self._news.pop(promise)
            try:
                said = self._door.answer(promise)
            except AgentLostError as error:
                self._lose(node, error)
            else:
                self._take(node, said)

    def _take(self, node: int, said: tuple[list[tuple[str, int | None, bytes]], bool] | None) -> None:
        """What a node's agent tells: nothing when it was started, then its news."""
        frames, alive = said if said is not None else ([], True)
        self._unwritten[node] = [Frame(*frame) for frame in frames]
        self._write(node)
        if not alive:
            self._over[node] = None
        elif node not in self._unwritten:
            self._ask(node)

    def _ask(self, node: int) -> None:
        self._news[self._door.call(self._members[node].agent, "news", NEWS_S)] = node

    def _write_again(self) -> None:
        """What a full disk refused; the node keeps what comes after it."""
        for node in list(self._unwritten):
            self._write(node)
            if node not in self._unwritten and node not in self._over:
                self._ask(node)

    def _write(self, node: int) -> None:
        frames = self._unwritten[node]
        while frames:
            try:
                self._sink.apply(frames[0])
            except OSError:
                return
            self._relay(node, frames.pop(0))
        del self._unwritten[node]

    def _relay(self, node: int, frame: Frame) -> None:
        """What one node of a Ray cluster of the run's own writes for the others."""
        if not frame.path.startswith(f"attempts/{self._attempt}/ray/"):
            return
        content = (self._paths.root / frame.path).read_bytes()
        for other, member in enumerate(self._members):
            if other != node and other not in self._over:
                self._door.call(member.agent, "put", frame.path, content)

    def _lose(self, node: int, error: AgentLostError) -> None:
        self._over[node] = str(error)
        if error.node_died or self._door.has_died(self._members[node].node):
            self._host_failed.add(node)
            self._over[node] = "its Ray node died"

    def release(self) -> None:
        """End the agents; the bundles are kept for the next attempt, if it may have them."""
        if self._released:
            return
        self._released = True
        dead = [self._members[node].agent for node in self._host_failed]  # Ray may not know yet that they cannot answer
        closing = [self._door.call(agent, "close") for agent in self._agents if agent not in dead]
        for promise in self._door.ready(closing, CLOSE_S, all_of_them=True):
            with contextlib.suppress(BackendError, AgentLostError):  # it is killed next
                self._door.answer(promise)
        self._door.end(self._agents)
        if self._members and not self._host_failed:
            self._holding.keep({member.node.node_id for member in self._members})
        else:
            self._holding.give_back()
        for node in set(self._news.values()) - set(self._over):
            self._over[node] = "it was ended with its allocation"
        self._news.clear()


def _order(said: Mapping[str, Any]) -> tuple[int, str]:
    return int(ipaddress.ip_address(said["address"])), said["node_id"]


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

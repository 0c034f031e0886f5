"""A cluster that does what it is told: nodes, a placement group, and agents that answer at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airlane.backends.ray.door import AgentLostError, ClusterNode, Demand


@dataclass(eq=False)
class Promise:
    """What an agent was asked; `lost` in place of an answer."""

    agent: int
    method: str
    arguments: tuple[Any, ...]
    answer: Any = None
    lost: AgentLostError | None = None
    ready: bool = True


@dataclass
class MadeDoor:
    """`addresses` are those of the live nodes; a bundle of the group is on the node that `placed` says."""

    addresses: list[str]
    granted_now: bool = True
    placed: list[int] | None = None
    total: Mapping[str, float] = field(default_factory=lambda: {"CPU": 2.0})
    free: Mapping[str, float] = field(default_factory=lambda: {"CPU": 2.0})
    asked: list[Promise] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)
    answers: Callable[[Promise], None] = lambda _promise: None
    dead: set[str] = field(default_factory=set)
    now: float = 0.0

    def nodes(self) -> tuple[ClusterNode, ...]:
        live = [address for address in self.addresses if address not in self.dead]
        return tuple(ClusterNode(f"id-{address}", address, 7000, self.total, self.free) for address in live)

    def group(self, name: str, bundles: Sequence[Mapping[str, float]]) -> Any:
        self.groups.append(name)
        return (name, len(bundles))

    def granted(self, group: Any) -> bool:
        del group
        return self.granted_now

    def agent(self, group: Any, index: int, demand: Demand, *arguments: Any) -> Any:
        del group, demand, arguments
        return index

    def call(self, agent: Any, method: str, *arguments: Any) -> Any:
        promise = Promise(agent, method, arguments)
        if method == "hello":
            address = self.addresses[(self.placed or list(range(len(self.addresses))))[agent]]
            promise.answer = {
                "node_id": f"id-{address}",
                "host": f"host-{address}",
                "address": address,
                "port": 20000 + agent,
                "devices": [],
                "root": f"/session/{address}/0/run",
                "checkpoints": f"/session/{address}",
                "launch": f"/session/{address}/kit/airlane/launch",
                "path": "/bin",
                "virtual_env": None,
            }
        if method == "news":
            promise.answer = ([], True)
        self.answers(promise)
        self.asked.append(promise)
        return promise

    def ready(self, promises: Sequence[Any], timeout_s: float, *, all_of_them: bool = False) -> list[Any]:
        del all_of_them
        self.now += timeout_s
        return [promise for promise in promises if promise.ready]

    def answer(self, promise: Any) -> Any:
        if promise.lost is not None:
            raise promise.lost
        return promise.answer

    def end(self, agents: Sequence[Any]) -> None:
        self.killed += agents

    def give_back(self, group: Any) -> None:
        self.returned.append(group[0])

    def has_died(self, node: ClusterNode) -> bool:
        return node.address in self.dead

    def told(self, method: str) -> list[tuple[int, tuple[Any, ...]]]:
        """Which agents were asked for it, and with what."""
        return [(promise.agent, promise.arguments) for promise in self.asked if promise.method == method]

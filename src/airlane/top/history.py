"""The last minutes of a cluster and its nodes: a byte for each share and round, so that many GPUs cost little."""

from __future__ import annotations

from collections import deque

from airlane.top.nodes import gpu_memory_share, gpu_share, memory_share
from airlane.top.totals import Totals
from airlane.top.values import Node, Snapshot
from airlane.top.words import share

KEPT = 240
_UNTOLD = 255
_STEPS = 2  # to a percent
_MOST = 100 * _STEPS


class Shares:
    """A line of shares in percent, as many as are kept."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, percent: float | None) -> None:
        self._kept.append(_UNTOLD if percent is None else min(_MOST, max(0, int(percent * _STEPS))))
        if len(self._kept) > KEPT:
            del self._kept[0]

    def values(self) -> list[float | None]:
        return [None if step == _UNTOLD else step / _STEPS for step in self._kept]


class NodeHistory:
    """What one node did."""

    __slots__ = ("cpu", "gpu", "gpu_memory", "gpus", "memory")

    def __init__(self) -> None:
        self.cpu, self.memory, self.gpu, self.gpu_memory = Shares(), Shares(), Shares(), Shares()
        self.gpus: dict[int, Shares] = {}

    def add(self, node: Node) -> None:
        told = node.alive and not node.stale
        self.cpu.add(node.measures.cpu if told else None)
        self.memory.add(memory_share(node) if told else None)
        if not node.measures.gpus:
            return
        self.gpu.add(gpu_share(node) if told else None)
        self.gpu_memory.add(gpu_memory_share(node) if told else None)
        for gpu in node.measures.gpus:
            shares = self.gpus.get(gpu.index)
            if shares is None:
                shares = self.gpus[gpu.index] = Shares()
            shares.add(gpu.utilization if told else None)


class History:
    """What the cluster did, and each of its nodes that is still there."""

    def __init__(self) -> None:
        self.cpu, self.memory, self.gpu, self.gpu_memory, self.store = (Shares() for _ in range(5))
        self.traffic: deque[float | None] = deque(maxlen=KEPT)
        self.nodes: dict[str, NodeHistory] = {}
        self._seen_at: float | None = None

    def add(self, snapshot: Snapshot, totals: Totals) -> None:
        """A round. One that brought no new measures leaves a gap."""
        fresh = snapshot.nodes.at is not None and snapshot.nodes.at != self._seen_at
        self._seen_at = snapshot.nodes.at
        if not fresh:
            self._add(Totals())
            return
        self._add(totals)
        nodes = snapshot.nodes.data
        for node in nodes:
            kept = self.nodes.get(node.id)
            if kept is None:
                kept = self.nodes[node.id] = NodeHistory()
            kept.add(node)
        if len(self.nodes) > len(nodes):
            there = {node.id for node in nodes}
            self.nodes = {key: kept for key, kept in self.nodes.items() if key in there}

    def _add(self, totals: Totals) -> None:
        self.cpu.add(totals.cpu)
        self.memory.add(share(totals.memory_used, totals.memory_total))
        self.gpu.add(totals.gpu)
        self.gpu_memory.add(share(totals.gpu_memory_used, totals.gpu_memory_total))
        self.store.add(share(totals.store_used, totals.store_total))
        rates = [rate for rate in (totals.received, totals.sent) if rate is not None]
        self.traffic.append(sum(rates) if rates else None)

"""The last minutes of a cluster and its nodes: a byte for each share and round, so that many GPUs cost little."""

from __future__ import annotations

from collections import deque

from airlane.top.nodes import gpu_memory_share, memory_share
from airlane.top.totals import Totals
from airlane.top.values import Node, Snapshot
from airlane.top.words import share

KEPT = 240
_UNTOLD = 255
_STEPS = 2  # to a percent
_MOST = 100 * _STEPS
_NOTHING = bytes([_UNTOLD])


def _step(percent: float | None) -> int:
    if percent is None:
        return _UNTOLD
    step = int(percent * _STEPS)
    return step if 0 <= step <= _MOST else _MOST if step > 0 else 0


def _percent(step: int) -> float | None:
    return None if step == _UNTOLD else step / _STEPS


class Shares:
    """A line of shares in percent, as many as are kept."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: deque[int] = deque(maxlen=KEPT)

    def add(self, percent: float | None) -> None:
        self._kept.append(_step(percent))

    def values(self) -> list[float | None]:
        return [_percent(step) for step in self._kept]


class NodeHistory:
    """What one node did: for each round its CPU, memory and GPU memory, and each of its GPUs."""

    __slots__ = ("_rounds",)

    def __init__(self) -> None:
        self._rounds: deque[bytes] = deque(maxlen=KEPT)

    def add(self, node: Node) -> None:
        if not node.alive or node.stale:
            self._rounds.append(_NOTHING)
            return
        measures = node.measures
        steps = [_step(measures.cpu), _step(memory_share(node)), _UNTOLD]
        if measures.gpus:
            steps[2] = _step(gpu_memory_share(node))
            steps += [_step(gpu.utilization) for gpu in measures.gpus]
        self._rounds.append(bytes(steps))

    def _line(self, place: int) -> list[float | None]:
        return [_percent(steps[place]) if place < len(steps) else None for steps in self._rounds]

    @property
    def cpu(self) -> list[float | None]:
        return self._line(0)

    @property
    def memory(self) -> list[float | None]:
        return self._line(1)

    @property
    def gpu_memory(self) -> list[float | None]:
        return self._line(2)

    @property
    def gpus(self) -> list[list[float | None]]:
        """A line for each GPU, in the order in which the node tells of them."""
        count = max((len(steps) for steps in self._rounds), default=0) - 3
        return [self._line(3 + number) for number in range(count)]

    @property
    def gpu(self) -> list[float | None]:
        """The mean of the GPUs."""
        line: list[float | None] = []
        for steps in self._rounds:
            told = [step for step in steps[3:] if step != _UNTOLD]
            line.append(sum(told) / len(told) / _STEPS if told else None)
        return line


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

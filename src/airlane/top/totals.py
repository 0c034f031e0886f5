"""What a cluster does in all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airlane.top.values import Measures, Snapshot


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the nodes that are alive and tell something. `cpu` and `gpu` are means, weighted by cores and GPUs."""

    alive: int = 0
    dead: int = 0
    stale: int = 0
    up_since: float | None = None
    cpu: float | None = None
    cores: int = 0
    memory_used: float | None = None
    memory_total: float | None = None
    gpu: float | None = None
    gpus: int = 0
    gpu_memory_used: float | None = None
    gpu_memory_total: float | None = None
    store_used: float | None = None
    store_total: float | None = None
    disk_read: float | None = None
    disk_write: float | None = None
    received: float | None = None
    sent: float | None = None


def totals(snapshot: Snapshot) -> Totals:
    """What stale nodes measured last is left out: it is not what they do now."""
    nodes = snapshot.nodes.data
    alive = [node for node in nodes if node.alive]
    told = [node.measures for node in alive if not node.stale]
    heads = [node for node in alive if node.head] or alive
    started = [node.started_at for node in heads if node.started_at]
    gpus = _gpus(told)
    return Totals(
        alive=len(alive),
        dead=len(nodes) - len(alive),
        stale=sum(node.stale for node in alive),
        up_since=min(started, default=None),
        cpu=_cpu(told),
        cores=sum(measures.cores or 0 for measures in told),
        memory_used=_sum(measures.memory_used for measures in told),
        memory_total=_sum(measures.memory_total for measures in told),
        gpu=gpus.busy / gpus.telling if gpus.telling else None,
        gpus=gpus.count,
        gpu_memory_used=gpus.memory_used if gpus.memory_total else None,
        gpu_memory_total=gpus.memory_total or None,
        store_used=_sum(measures.store_used for measures in told),
        store_total=_sum(measures.store_total for measures in told),
        disk_read=_sum(measures.disk_read for measures in told),
        disk_write=_sum(measures.disk_write for measures in told),
        received=_sum(measures.received for measures in told),
        sent=_sum(measures.sent for measures in told),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) if told else None


def _cpu(told: list[Measures]) -> float | None:
    busy = weight = 0.0
    for measures in told:
        if measures.cpu is not None:
            cores = measures.cores or 1
            busy += measures.cpu * cores
            weight += cores
    return busy / weight if weight else None


@dataclass(slots=True)
class _Gpus:
    """Sums over all GPUs."""

    count: int = 0
    telling: int = 0
    busy: float = 0.0
    memory_used: int = 0
    memory_total: int = 0


def _gpus(told: list[Measures]) -> _Gpus:
    """In one loop: there may be ten thousand of them."""
    count = telling = used = total = 0
    busy = 0.0
    for measures in told:
        for gpu in measures.gpus:
            count += 1
            if gpu.utilization is not None:
                busy += gpu.utilization
                telling += 1
            if gpu.memory_total:
                total += gpu.memory_total
                used += gpu.memory_used or 0
    return _Gpus(count, telling, busy, used, total)

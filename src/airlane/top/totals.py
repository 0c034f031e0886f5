"""What a cluster does in all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airlane.top.values import Snapshot


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


def _sum(values: Iterable[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) if told else None


def _mean(pairs: Iterable[tuple[float | None, int]]) -> float | None:
    """Weighted."""
    told = [(value, weight) for value, weight in pairs if value is not None and weight]
    whole = sum(weight for _, weight in told)
    return sum(value * weight for value, weight in told) / whole if whole else None


def totals(snapshot: Snapshot) -> Totals:
    """What stale nodes measured last is left out: it is not what they do now."""
    nodes = snapshot.nodes.data
    alive = [node for node in nodes if node.alive]
    told = [node.measures for node in alive if not node.stale]
    gpus = [gpu for measures in told for gpu in measures.gpus]
    heads = [node for node in alive if node.head] or alive
    started = [node.started_at for node in heads if node.started_at]
    return Totals(
        alive=len(alive),
        dead=len(nodes) - len(alive),
        stale=sum(node.stale for node in alive),
        up_since=min(started, default=None),
        cpu=_mean((measures.cpu, measures.cores or 1) for measures in told),
        cores=sum(measures.cores or 0 for measures in told),
        memory_used=_sum(measures.memory_used for measures in told),
        memory_total=_sum(measures.memory_total for measures in told),
        gpu=_mean((gpu.utilization, 1) for gpu in gpus),
        gpus=len(gpus),
        gpu_memory_used=_sum(gpu.memory_used for gpu in gpus),
        gpu_memory_total=_sum(gpu.memory_total for gpu in gpus),
        store_used=_sum(measures.store_used for measures in told),
        store_total=_sum(measures.store_total for measures in told),
        disk_read=_sum(measures.disk_read for measures in told),
        disk_write=_sum(measures.disk_write for measures in told),
        received=_sum(measures.received for measures in told),
        sent=_sum(measures.sent for measures in told),
    )

"""What is made of the measures of one node, and what people call it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from airlane.top import words
from airlane.top.values import Node

_SHORT = 8


def gpu_share(node: Node) -> float | None:
    """The mean of what its GPUs do."""
    told = [gpu.utilization for gpu in node.measures.gpus if gpu.utilization is not None]
    return sum(told) / len(told) if told else None


def gpu_memory(node: Node) -> tuple[int, int] | None:
    """Used, and in all; None where no GPU tells."""
    used = total = 0
    for gpu in node.measures.gpus:
        if gpu.memory_total:
            total += gpu.memory_total
            used += gpu.memory_used or 0
    return (used, total) if total else None


def gpu_memory_share(node: Node) -> float | None:
    memory = gpu_memory(node)
    return words.share(*memory) if memory else None


def hottest(node: Node) -> float | None:
    return max((gpu.temperature_c for gpu in node.measures.gpus if gpu.temperature_c is not None), default=None)


def power(node: Node) -> float | None:
    told = [gpu.power_w for gpu in node.measures.gpus if gpu.power_w is not None]
    return sum(told) if told else None


def memory_share(node: Node) -> float | None:
    return words.share(node.measures.memory_used, node.measures.memory_total)


def store_share(node: Node) -> float | None:
    return words.share(node.measures.store_used, node.measures.store_total)


def disk_share(node: Node) -> float | None:
    return words.share(node.measures.disk_used, node.measures.disk_total)


def node_state(node: Node) -> str:
    """In a word: "alive", "stale" where its measures stand still, "DEAD"."""
    if node.alive:
        return "stale" if node.stale else "alive"
    return node.state or "-"


def node_name(node: Node) -> str:
    """What people call it: its name where it is no address, else its host's, else its address."""
    name = node.name if node.name != node.address else ""
    return name or node.hostname or node.address or node.id[:_SHORT]


def node_labels(node: Node) -> str:
    """Its labels, but for the one that Ray gives every node."""
    return ", ".join(f"{name}={value}" for name, value in node.labels.items() if name != "ray.io/node-id")


def node_names(nodes: Sequence[Node]) -> dict[str, str]:
    """A name for each id. Nodes of the same name (several on one machine) have their addresses added."""
    names = {node.id: node_name(node) for node in nodes}
    alive = Counter(names[node.id] for node in nodes if node.state == "ALIVE")
    doubled = {name for name, count in alive.items() if count > 1}
    if doubled:
        for node in nodes:
            name = names[node.id]
            if name in doubled and node.address not in ("", name):
                names[node.id] = f"{name} {node.address}"
    return names

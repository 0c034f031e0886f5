"""The nodes of a cluster, each by its id: what the head knows of it beside what its own agent measured.

An address is no name for a node: another may have had it before. And what an agent measured says nothing about whether
the node is alive: the head keeps it when the node is dead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from airlane.top.fields import seconds, text, texts, words
from airlane.top.reading.resources import offered
from airlane.top.reading.state_api import MOST, read_rows
from airlane.top.reading.summary import Told
from airlane.top.values import Node

NODES = f"/api/v0/nodes?detail=1&limit={MOST}"
STALE_S = 10.0
_OWN_LABEL = "ray.io/node-id"


def read_nodes(body: bytes) -> tuple[tuple[Node, ...], int]:
    """The nodes that the head knows, and how many it did not tell. Raises ValueError: this is no such answer."""
    found, cut = read_rows(body, _node)
    nodes = {node.id: node for node in found if node.id}
    return tuple(nodes.values()), cut


def _node(row: dict[str, Any]) -> Node:
    get = row.get
    labels = dict(texts(get("labels")))
    labels.pop(_OWN_LABEL, None)
    return Node(
        id=text(get("node_id")),
        name=text(get("node_name")),
        address=text(get("node_ip")),
        state=text(get("state")),
        why=words(get("state_message")),
        head=get("is_head_node") is True,
        started_at=seconds(get("start_time_ms")),
        ended_at=seconds(get("end_time_ms")),
        resources=offered(get("resources_total")),
        labels=labels,
    )


class Pulses:
    """Since when the measures of each node stand still, by our own clock: those of the nodes may differ from it."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._looked = now()
        self._moved: dict[str, tuple[float | None, float]] = {}

    def see(self, told: Mapping[str, Told]) -> None:
        """What was answered just now."""
        before, self._moved, self._looked = self._moved, {}, self._now()
        for node_id, one in told.items():
            at, since = before.get(node_id, (None, 0.0))
            self._moved[node_id] = (
                (at, since)
                if node_id in before and one.measures.at == at
                else (
                    one.measures.at,
                    self._looked,
                )
            )

    def still(self, node_id: str) -> bool:
        """Whether a node's measures had stood still for too long when they were last asked for."""
        return node_id in self._moved and self._looked - self._moved[node_id][1] >= STALE_S


def joined(nodes: tuple[Node, ...], told: Mapping[str, Told], still: Callable[[str], bool]) -> tuple[Node, ...]:
    """The nodes with what was measured on them; one that is alive and whose measures stand still is stale."""
    return tuple(
        replace(
            node,
            hostname=told[node.id].hostname,
            measures=told[node.id].measures,
            stale=node.alive and still(node.id),
        )
        if node.id in told
        else node
        for node in nodes
    )

"""Nodes of an attempt as a look at them finds them."""

from __future__ import annotations

from typing import Any

from airlane.backends.base import NodePlace, NodeReport
from airlane.store.records import Limits, NodeRecord

START = 1_000.0
LIMITS = Limits(max_retries=3, timeout_s=None, stop_grace_s=30.0, straggler_grace_s=300.0)


def made_limits(**changes: Any) -> Limits:
    fields = {"max_retries": 3, "timeout_s": None, "stop_grace_s": 30.0, "straggler_grace_s": 300.0}
    return Limits(**{**fields, **changes})


def node_record(node: int, *, at: float | None = None, **fields: Any) -> NodeRecord:
    """What an agent wrote; `at` is seconds after the start of the attempt, None while the command runs."""
    ended_at = None if at is None else START + at
    return NodeRecord(node, f"host{node}", 4242, "subreaper", START, 4243, ended_at, **fields)


def runs(node: int) -> NodeReport:
    return NodeReport(node, True, node_record(node))


def quiet(node: int) -> NodeReport:
    """Its agent lives and has not written yet."""
    return NodeReport(node, True, None)


def exited(node: int, code: int, at: float, **fields: Any) -> NodeReport:
    return NodeReport(node, False, node_record(node, at=at, exit_code=code, **fields))


def stopped(node: int, at: float, code: int = 143, reason: str = "stop") -> NodeReport:
    return exited(node, code, at, stop_reason=reason)


def lost(node: int, *, spoke: bool = True) -> NodeReport:
    """Its agent is gone without having written the end."""
    return NodeReport(node, False, node_record(node) if spoke else None)


def places(count: int) -> tuple[NodePlace, ...]:
    return tuple(NodePlace(node, f"gpu-b{node}", f"10.0.0.{node}") for node in range(count))

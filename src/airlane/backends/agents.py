"""What every backend that starts agents does with their orders and records."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from airlane import launch
from airlane.launch.order import Order
from airlane.store.records import NodeRecord

AGENT_MAIN = Path(launch.__file__).with_name("__main__.py")


def write_order(path: Path, order: Order) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(order.to_json())


def unwritten(node: int, agent_pid: int, begun: NodeRecord | None) -> NodeRecord:
    """What a node would have told whose agent found no room for it."""
    now = time.time()
    begun = begun or NodeRecord(node, os.uname().nodename, agent_pid, "unknown", now)
    return replace(begun, ended_at=now, error="how the command ended could not be written: is the disk full?")

"""System metrics: the samples that node agents write, read as they grow, under MLflow's own names."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from airlane.frozen import frozen

BLOCK_BYTES = 256 * 1024


@frozen
class Sample:
    """One metric of one sample; `step` counts the samples of its node."""

    key: str
    value: float
    timestamp_ms: int
    step: int


@frozen
class Block:
    """Some samples, and where to go on reading once they are safely stored."""

    samples: tuple[Sample, ...]
    next_offset: int
    next_step: int


class MetricsFile:
    """The samples of one node. The file itself is the buffer: what `advance` has not passed is read again."""

    def __init__(self, path: Path, prefix: str) -> None:
        self._path = path
        self._prefix = prefix
        self._offset = 0
        self._step = 0

    def read(self, *, final: bool = False) -> Block | None:
        """The next samples, or None where there are none yet.

        A last line without its newline is still being written: it is left for the next time, unless this is `final`.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(BLOCK_BYTES)
        except FileNotFoundError:
            return None
        if not (final and len(data) < BLOCK_BYTES):
            data = data[: data.rfind(b"\n") + 1]
        if not data:
            return None
        samples: list[Sample] = []
        lines = data.splitlines()
        for step, line in enumerate(lines, self._step):
            samples += _samples(line, self._prefix, step)
        return Block(tuple(samples), self._offset + len(data), self._step + len(lines))

    def advance(self, block: Block) -> None:
        """The samples of this block are stored."""
        self._offset = block.next_offset
        self._step = block.next_step


def key_prefix(node: int, nodes: int) -> str:
    """What MLflow puts before a system metric's name, with the node as from MLFLOW_SYSTEM_METRICS_NODE_ID."""
    return "system/" if nodes == 1 else f"system/node_{node}/"


def _samples(line: bytes, prefix: str, step: int) -> list[Sample]:
    try:
        sample: Any = json.loads(line)
        timestamp_ms = int(sample["t"] * 1000)
        values = sample["m"].items()
    except (ValueError, TypeError, KeyError, AttributeError):
        return []  # a line cut short by a full disk or a killed agent
    return [
        Sample(prefix + key, float(value), timestamp_ms, step)
        for key, value in values
        if isinstance(value, (int, float)) and math.isfinite(value)
    ]

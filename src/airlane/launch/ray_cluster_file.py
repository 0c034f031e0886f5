"""cluster.json: what node 0 tells the other nodes, and whoever looks, about the Ray cluster of an attempt."""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STARTING, READY, ENDED = "starting", "ready", "ended"


class ClusterFile:
    """Written by node 0 alone, by atomic replace."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.fields: dict[str, Any] = {"phase": STARTING}

    def update(self, **fields: object) -> None:
        """Raises OSError."""
        self.fields.update(fields, updated_at=time.time())
        scratch = f"{self._path}.next"
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(self.fields, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, self._path)


def read_cluster(path: str) -> dict[str, Any] | None:
    """What node 0 wrote last; None while there is nothing to read."""
    try:
        os.listdir(os.path.dirname(path))  # a network file system looks again for files that were not there before
        with open(path, encoding="utf-8") as file:
            fields = json.load(file)
    except (OSError, ValueError):
        return None
    return fields if isinstance(fields, dict) else None

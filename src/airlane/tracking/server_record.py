"""server.json: what is known of a home's embedded MLflow server."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

from airlane.errors import StoreError
from airlane.frozen import frozen
from airlane.store import codec
from airlane.store.paths import Home

HOST = "127.0.0.1"


@frozen
class ServerRecord:
    """server.json. `pid` is None until the server's process has written its own; `id` is new with every start.

    `address` is where other machines reach it, with a login; None where it listens on loopback alone.
    """

    id: str
    host: str
    port: int
    started_at: float
    python: str
    pid: int | None = None
    mlflow_version: str | None = None
    address: str | None = None

    @property
    def here(self) -> bool:
        return self.host == socket.gethostname()

    @property
    def contact(self) -> str:
        """Where this machine reaches it."""
        return HOST if self.here else self.address or HOST

    @property
    def uri(self) -> str:
        return f"http://{self.contact}:{self.port}"

    @property
    def public_uri(self) -> str | None:
        """Where every machine reaches it."""
        return f"http://{self.address}:{self.port}" if self.address else None


@frozen
class Reach:
    """That other machines must reach the server; `address` where it is not to be the one that leads out of here."""

    address: str | None = None


def read_record(home: Home) -> ServerRecord | None:
    try:
        return codec.read(ServerRecord, record_file(home))
    except StoreError:
        return None  # being written, or cut short by a crash: worth no more than a new port


def write_record(descriptor: int, record: ServerRecord) -> None:
    data = codec.encode(replace(record, pid=None))
    if os.pwrite(descriptor, data, 0) != len(data):
        raise OSError(28, "No space left on device")
    os.ftruncate(descriptor, len(data))


def record_file(home: Home) -> Path:
    return home.mlflow / "server.json"

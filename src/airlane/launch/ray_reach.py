"""Reaching a cluster's dashboard, which listens on its head's loopback address, from another host.

`python -I -S .../ray_reach.py fetch FOLDER PATH...` prints the answers as one JSON object by path, or {"error": WORDS};
`... relay FOLDER` joins stdin and stdout to one connection with the dashboard. FOLDER holds the cluster's files.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from airlane.launch.ray_cluster_file import read_cluster
from airlane.launch.ray_rest import RestError, get, get_json, read_token
from airlane.launch.ray_settings import CLUSTER, TOKEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LOG_FILE = "/api/v0/logs/file"
_BLOCK_BYTES = 1 << 16
_CONNECT_S = 5.0


def dashboard_of(folder: str) -> str:
    """Where the dashboard listens, "host:port". Raises RestError when the cluster has none."""
    cluster = read_cluster(os.path.join(folder, CLUSTER))
    if not cluster or not cluster.get("dashboard"):
        raise RestError("the cluster's head has not started yet")
    return str(cluster["dashboard"])


def fetch(folder: str, paths: Sequence[str]) -> dict[str, Any]:
    """What the dashboard answers, by path. Raises RestError."""
    address = dashboard_of(folder)
    try:
        token = read_token(os.path.join(folder, TOKEN))
    except OSError as error:
        raise RestError("the cluster's token is gone: the cluster has ended") from error
    return {path: _answer(address, path, token) for path in paths}


def _answer(address: str, path: str, token: str) -> Any:
    """Logs are text, everything else is JSON."""
    if path.startswith(LOG_FILE):
        return get(address, path, token).decode(errors="replace")
    return get_json(address, path, token)


def relay(folder: str) -> None:
    """Carry bytes both ways until the dashboard closes the connection. Raises RestError or OSError."""
    host, _, port = dashboard_of(folder).rpartition(":")
    with socket.create_connection((host, int(port)), _CONNECT_S) as connection:
        connection.settimeout(None)
        threading.Thread(target=_send_input, args=(connection,), daemon=True).start()
        while block := connection.recv(_BLOCK_BYTES):
            _write_all(1, block)


def _send_input(connection: socket.socket) -> None:
    try:
        while block := os.read(0, _BLOCK_BYTES):
            connection.sendall(block)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the other direction ends the relay


def _write_all(descriptor: int, block: bytes) -> None:
    while block:
        block = block[os.write(descriptor, block) :]


def main(arguments: list[str]) -> int:
    verb, folder, *paths = arguments[1:]
    if verb == "relay":
        try:
            relay(folder)
        except (RestError, OSError):
            return 1  # the browser sees a connection that closes
        return 0
    try:
        answer: dict[str, Any] = fetch(folder, paths)
    except RestError as error:
        answer = {"error": str(error)}
    _write_all(1, json.dumps(answer).encode() + b"\n")
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv))

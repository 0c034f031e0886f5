"""How the embedded server's process is started: its sockets, its environment, its log."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from airlane.errors import TrackingError
from airlane.store.disk import make_private_folder
from airlane.store.paths import Home
from airlane.tracking.server_record import HOST, ServerRecord

LAUNCH_S = 30.0
LOG_BYTES = 4 * 1024 * 1024
NAME_ADDRESS = "name an address of this machine that the nodes reach, or set tracking_uri to a server of yours"
_BACKLOG = 512
_PORT_TRIES = 8  # a port that is free at one address may be taken at the other
_KEPT_VARIABLES = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


def launch(home: Home, record: ServerRecord, lock: int, listeners: list[socket.socket], leash: int | None) -> None:
    descriptors = [listener.fileno() for listener in listeners]
    start = {"record": asdict(record), "record_fd": lock, "socket_fds": descriptors, "leash_fd": leash}
    make_private_folder(home.mlflow / "tmp")
    with _log(home) as log:
        process = subprocess.Popen(
            [record.python, "-I", str(Path(__file__).with_name("serve.py")), json.dumps(start)],
            cwd=home.mlflow,
            env=environment(home, record),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock, *descriptors, *(() if leash is None else (leash,))),
            start_new_session=True,
        )
    # This process only forks the server and ends, so that the server is nobody's child.
    try:
        process.wait(timeout=LAUNCH_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.returncode != 0:
        raise start_failure(home)


def environment(home: Home, record: ServerRecord) -> dict[str, str]:
    """A small environment: no secrets of the caller, and no AIR_RUN_ID, by which a run's processes are found."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    if record.address is not None:
        names = (HOST, "localhost", record.address, record.host, f"{record.host}.*")
        kept["MLFLOW_SERVER_ALLOWED_HOSTS"] = ",".join(f"{name}:*" for name in names)
    return kept | {
        "TMPDIR": str(home.mlflow / "tmp"),  # MLflow keeps a lock file there, named after the (relative) store
        "PYTHONUNBUFFERED": "1",
        "MALLOC_ARENA_MAX": "2",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        # A request holds one connection while it asks for another: a pool of them can deadlock, and SQLite's are cheap.
        "MLFLOW_SQLALCHEMYSTORE_POOLCLASS": "NullPool",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
    }


def listen(port: int, addresses: tuple[str, ...]) -> list[socket.socket]:
    """Sockets that listen at this port of every address, or at one that is free there if another program has it."""
    for last in (False, *[False] * _PORT_TRIES, True):
        listeners: list[socket.socket] = []
        try:
            for address in addresses:
                listeners.append(_listener(address, listeners[0].getsockname()[1] if listeners else port))
        except OSError as error:
            for listener in listeners:
                listener.close()
            if last:
                where = " and ".join(addresses)
                raise TrackingError(f"no port on {where} for the MLflow server: {error}", hint=NAME_ADDRESS) from error
            port = 0
        else:
            return listeners
    raise AssertionError("the last try returns or raises")


def _listener(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def log_file(home: Home) -> Path:
    return home.mlflow / "server.log"


@contextlib.contextmanager
def _log(home: Home) -> Iterator[int]:
    path = log_file(home)
    if path.exists() and path.stat().st_size > LOG_BYTES:
        path.replace(path.with_name("server.log.1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def start_failure(home: Home) -> TrackingError:
    try:
        with log_file(home).open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4096))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    said = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return TrackingError(f"the MLflow server did not start: {said}", hint=log_hint(home))


def log_hint(home: Home) -> str:
    return f"its log: {log_file(home)}"

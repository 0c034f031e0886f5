"""The embedded MLflow server's process. Runs in the `mlflow-server` environment: standard library and MLflow only.

Started by server.py as `python -I serve.py START`, in the folder that holds the data. START is a JSON object: `record`
is what server.json says; `record_fd` is flock-ed by the starter and stays so for as long as this process lives; the
`socket_fds` listen already; `leash_fd`, where there is one, is a pipe that the server ends with.

A record with an `address` is for other machines too: then everyone signs in through MLflow's own basic authentication,
except this user's own programs on this machine, which are known by their sockets.

This is MLflow's app under uvicorn, in one process: ready in 5 s at 270 MB. `mlflow server` runs the same app in two
processes: ready in 9-13 s at 540 MB (measured with MLflow 3.17.2 on 2 cores).
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import os
import secrets
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

IDENTITY = "/airlane"
RECORD = "server.json"
LOGIN = "login.json"
OWN_USERS = "air-"
LOOPBACK = "127.0.0.1"
THREADS = 4
WATCH_EVERY_S = 5.0
STORE = "sqlite:///mlflow.db"  # relative: no character of the home's path can upset it
AUTH_FILE = "basic_auth.ini"
# A password is checked with 30 ms of arithmetic: MLflow keeps the outcome, in memory.
AUTH_SETTINGS = """\
[mlflow]
default_permission = NO_PERMISSIONS
database_uri = sqlite:///basic_auth.db
auth_cache_ttl_seconds = 86400
"""
Asgi = Callable[[dict[str, Any], Any, Callable[[dict[str, Any]], Awaitable[None]]], Awaitable[None]]


def main() -> None:
    start = json.loads(sys.argv[1])
    record, record_fd = start["record"], start["record_fd"]
    if os.fork():
        os._exit(0)  # the starter waits for this process, and is nobody's parent afterwards
    os.umask(0o077)
    record["pid"] = os.getpid()
    _write_record(record_fd, record)
    current_version = version("mlflow")
    if record["mlflow_version"] not in (None, current_version):
        _upgrade(record["mlflow_version"])
    record["mlflow_version"] = current_version
    _write_record(record_fd, record)
    threading.Thread(target=_leave_with_home, args=(record_fd,), daemon=True).start()
    if start["leash_fd"] is not None:
        threading.Thread(target=_leave_with_leash, args=(start["leash_fd"],), daemon=True).start()
    _serve(start["socket_fds"], record)


def _leave_with_leash(leash_fd: int) -> None:
    """End when the process that holds the other end of the pipe has ended, however it did."""
    select.select([leash_fd], [], [])
    os.kill(os.getpid(), signal.SIGTERM)


def _leave_with_home(record_fd: int) -> None:
    """End when the record is gone, with the home or alone: nobody would find this server again."""
    while True:
        time.sleep(WATCH_EVERY_S)
        try:
            gone = not os.path.samestat(os.stat(RECORD), os.fstat(record_fd))  # noqa: PTH116 - beside its descriptor
        except FileNotFoundError:
            gone = True
        except OSError:
            gone = False  # a file system that does not answer now is no proof
        if gone:
            os.kill(os.getpid(), signal.SIGTERM)


def _write_record(record_fd: int, record: dict[str, Any]) -> None:
    data = json.dumps(record).encode() + b"\n"
    if os.pwrite(record_fd, data, 0) != len(data):
        raise OSError(28, "No space left on device")
    os.ftruncate(record_fd, len(data))


def _upgrade(previous_version: str) -> None:
    """Bring a store that another version of MLflow wrote up to date, keeping a copy of it."""
    store, kept = Path("mlflow.db"), Path(f"mlflow.db.{previous_version}")
    if not store.exists():
        return
    if not kept.exists():
        scratch = Path("mlflow.db.copy")
        with contextlib.closing(sqlite3.connect(store)) as old, contextlib.closing(sqlite3.connect(scratch)) as copy:
            old.backup(copy)
        scratch.replace(kept)
    subprocess.run([sys.executable, "-I", "-m", "mlflow", "db", "upgrade", STORE], check=True, stdin=subprocess.DEVNULL)


def _serve(socket_fds: list[int], record: dict[str, Any]) -> None:
    uvicorn = importlib.import_module("uvicorn")  # before mlflow.server, which then installs its host checks
    names = importlib.import_module("mlflow.server.constants")
    os.environ[names.BACKEND_STORE_URI_ENV_VAR] = STORE
    os.environ[names.REGISTRY_STORE_URI_ENV_VAR] = STORE
    os.environ[names.SERVE_ARTIFACTS_ENV_VAR] = "true"
    os.environ[names.ARTIFACTS_DESTINATION_ENV_VAR] = "./artifacts"
    os.environ[names.ARTIFACT_ROOT_ENV_VAR] = "mlflow-artifacts:/"
    _prepare_store()
    if record["address"] is None:
        app = importlib.import_module("mlflow.server.fastapi_app").app
    else:
        app = _app_with_login(record["port"])
    # Before the first request: two that create the tables at the same time would fail.
    stores = importlib.import_module("mlflow.server.handlers")
    stores.initialize_backend_stores(STORE, STORE, "mlflow-artifacts:/")
    identity = {"id": record["id"], "pid": record["pid"], "mlflow_version": record["mlflow_version"]}
    config = uvicorn.Config(
        _with_identity(app, identity), access_log=False, timeout_keep_alive=30, timeout_graceful_shutdown=2
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=descriptor) for descriptor in socket_fds])


def _app_with_login(port: int) -> Asgi:
    """MLflow's app behind its basic authentication, as `mlflow server --app-name basic-auth` makes it.

    Who login.json names administers it, and whoever that file named before is out.
    """
    login = json.loads(Path(LOGIN).read_text(encoding="utf-8"))
    username, password = login["MLFLOW_TRACKING_USERNAME"], login["MLFLOW_TRACKING_PASSWORD"]
    Path(AUTH_FILE).write_text(AUTH_SETTINGS, encoding="ascii")
    names = importlib.import_module("mlflow.environment_variables")
    os.environ[names.MLFLOW_AUTH_CONFIG_PATH.name] = AUTH_FILE
    os.environ[names.MLFLOW_AUTH_ADMIN_USERNAME.name] = username
    os.environ[names.MLFLOW_AUTH_ADMIN_PASSWORD.name] = password
    os.environ[names.MLFLOW_FLASK_SERVER_SECRET_KEY.name] = secrets.token_hex(32)
    os.environ[names.MLFLOW_BASIC_AUTH_FAIL_CLOSED.name] = "true"
    os.environ["_MLFLOW_SGI_NAME"] = "uvicorn"
    auth = importlib.import_module("mlflow.server.auth")
    app: Asgi = auth.create_app()
    for user in auth.store.list_users():
        if user.username.startswith(OWN_USERS) and user.username != username:
            auth.store.delete_user(user.username)
    return _trusting_own_programs(app, f"{username}:{password}", port)


def _trusting_own_programs(app: Asgi, credentials: str, port: int) -> Asgi:
    """Sign in this user's programs on this machine, which could read the login anyway.

    Root's could too, but may speak for others: a proxy does.
    """
    header = (b"authorization", b"Basic " + base64.b64encode(credentials.encode()))

    async def respond(scope: dict[str, Any], receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        headers = scope.get("headers", ())
        if scope["type"] == "http" and all(name != b"authorization" for name, _ in headers):
            client, client_port = scope.get("client") or ("", 0)
            if client == LOOPBACK and _owner(client_port, port) == os.getuid():
                scope = {**scope, "headers": [*headers, header]}
        await app(scope, receive, send)

    return respond


def _owner(client_port: int, server_port: int) -> int | None:
    """Whose socket is at the other end of a loopback connection; None where the system does not tell (Linux does).

    Source: proc_net_tcp.rst of the Linux kernel. An address is in the machine's byte order; state 01 is a connection.
    """
    address = socket.inet_aton(LOOPBACK)
    host = f"{int.from_bytes(address, sys.byteorder):08X}"
    wanted = f" {host}:{client_port:04X} {host}:{server_port:04X} 01 "
    try:
        table = Path("/proc/net/tcp").read_text(encoding="ascii")
    except OSError:
        return None
    start = table.find(wanted)
    return int(table[start:].split(maxsplit=7)[6]) if start >= 0 else None


def _prepare_store() -> None:
    """Let readers and a writer not block each other, and have a commit cost no sync of the disk."""
    event = importlib.import_module("sqlalchemy.event")
    engine = importlib.import_module("sqlalchemy.engine").Engine

    def prepare(connection: Any, _record: Any) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=60000"):
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", prepare)


def _with_identity(app: Asgi, identity: dict[str, Any]) -> Asgi:
    """Say who this is, and keep out MLflow's assistant.

    The assistant runs programs as this user for whoever reaches the loopback address: on a shared machine, everybody.
    """
    threads = importlib.import_module("anyio.to_thread")

    async def respond(scope: dict[str, Any], receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        path = scope.get("path", "")
        if scope["type"] == "lifespan":
            # SQLite writes one at a time: more threads would only wait for each other, in no order.
            threads.current_default_thread_limiter().total_tokens = THREADS
        if scope["type"] == "http" and path == IDENTITY:
            await _answer(send, 200, json.dumps(identity).encode())
        elif scope["type"] in ("http", "websocket") and "/mlflow/assistant" in path:
            await _answer(send, 403, b'{"error_code": "PERMISSION_DENIED", "message": "The assistant is off."}')
        else:
            await app(scope, receive, send)

    return respond


async def _answer(send: Callable[[dict[str, Any]], Awaitable[None]], status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    main()

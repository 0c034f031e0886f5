"""The embedded MLflow server: started when first needed, found again by every run, replaced when it died or hangs.

`mlflow/server.json` describes the server and is flock-ed by it for as long as it lives, so the kernel tells whether it
does. The file stays when the server goes: the next one takes the same port, and addresses in use stay valid.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from airlane.errors import AirError, StoreError, TrackingError
from airlane.frozen import frozen
from airlane.store import codec
from airlane.store.disk import make_private_folder, read_bytes
from airlane.store.locks import taken_by_another
from airlane.store.paths import Home

HOST = "127.0.0.1"
QUICK_S = 2.0
HUNG_AFTER_S = 20.0
STARTING_S = 180.0  # a start takes 5 s, and far longer on a machine that is busy
LAUNCH_S = 30.0
START_S = 60.0
STOP_S = 4.0
LOG_BYTES = 4 * 1024 * 1024
_POLL_S = 0.05
_BACKLOG = 512
_KEPT_VARIABLES = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@frozen
class ServerRecord:
    """server.json. `pid` is None until the server's process has written its own; `id` is new with every start."""

    id: str
    host: str
    port: int
    started_at: float
    python: str
    pid: int | None = None
    mlflow_version: str | None = None

    @property
    def uri(self) -> str:
        return f"http://{HOST}:{self.port}"


@frozen
class ServerStatus:
    """A server that lives. `rss_bytes` is None where the system does not tell."""

    uri: str
    pid: int | None
    mlflow_version: str | None
    started_at: float
    rss_bytes: int | None
    answering: bool


def ensure(home: Home, python: Callable[[], Path], *, deadline_s: float = START_S) -> str:
    """The address of the running server, started if need be.

    `python` gives the interpreter of the `mlflow-server` environment. It is called only when a server must be started;
    the time that it takes (it may build the environment) does not count against the deadline.

    Raises:
        TrackingError: no server answers in time; the message shows the end of its log.
        AirError: what `python` raises.
    """
    with _wrapped("start"):
        record = _read(home)
        if record is not None and alive(home) and _answers(record, QUICK_S):
            return record.uri
        make_private_folder(home.mlflow)
        deadline = time.monotonic() + deadline_s
        if alive(home):
            with _one_at_a_time(home, deadline):
                if (running := _settle(home, deadline)) is not None:
                    return running.uri
        interpreter = python()
        deadline = time.monotonic() + deadline_s
        with _one_at_a_time(home, deadline):
            return (_settle(home, deadline) or _start(home, interpreter, deadline)).uri


def alive(home: Home) -> bool:
    """Whether a server process exists; it may still be starting, or hang. Costs microseconds."""
    try:
        descriptor = os.open(_record_file(home), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return taken_by_another(descriptor)
    finally:
        os.close(descriptor)


def has_answered(home: Home) -> bool:
    """Whether the server that lives is past its start: it has answered before. It may hang; costs two small reads."""
    record = _read(home)
    return record is not None and alive(home) and read_bytes(_answered_file(home)) == record.id.encode()


def status(home: Home) -> ServerStatus | None:
    """The server that lives, or None."""
    with _wrapped("look at"):
        record = _read(home)
        if record is None or not alive(home):
            return None
        return ServerStatus(
            uri=record.uri,
            pid=record.pid,
            mlflow_version=record.mlflow_version,
            started_at=record.started_at,
            rss_bytes=None if record.pid is None else _rss_bytes(record.pid),
            answering=_answers(record, QUICK_S),
        )


def stop(home: Home, *, deadline_s: float = 30.0) -> bool:
    """End the server; False if there was none. When this returns, its process is gone.

    Raises:
        TrackingError: it runs on another machine, or would not end.
    """
    with _wrapped("stop"):
        if not alive(home):
            return False
        deadline = time.monotonic() + deadline_s
        with _one_at_a_time(home, deadline):
            if not alive(home):
                return False
            _end(home, _started(home, deadline), deadline)
            return True


def _settle(home: Home, deadline: float) -> ServerRecord | None:
    """The server that lives and answers; None if a new one may be started, after ending one that hangs."""
    if not alive(home):
        return None
    record = _started(home, deadline)
    # A server that is still starting listens already, and answers when it is ready.
    age_s = max(0.0, time.time() - record.started_at)
    patience_s = max(HUNG_AFTER_S, STARTING_S - age_s)
    left_s = deadline - time.monotonic()
    if _answers(record, min(patience_s, left_s)):
        _note_answer(home, record)
        return record
    if not alive(home):
        return None
    if patience_s > left_s and record.host == socket.gethostname():
        raise TrackingError(f"the MLflow server (process {record.pid}) does not answer yet", hint=_log_hint(home))
    _end(home, record, deadline)
    return None


def _started(home: Home, deadline: float) -> ServerRecord:
    """The record of the server that lives, once its process has written it."""
    while True:
        record = _read(home)
        if record is not None and record.pid is not None:
            return record
        if time.monotonic() > deadline or not alive(home):
            raise TrackingError(f"{_record_file(home)} is locked, and does not say by whom", hint=_log_hint(home))
        time.sleep(_POLL_S)


def _start(home: Home, python: Path, deadline: float) -> ServerRecord:
    with contextlib.ExitStack() as held:
        lock = os.open(_record_file(home), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        held.callback(os.close, lock)
        _lock(lock, deadline, "mlflow/server.json")
        previous = _read(home)
        listener = held.enter_context(_listen(previous.port if previous else 0))
        record = ServerRecord(
            id=secrets.token_hex(8),
            host=socket.gethostname(),
            port=int(listener.getsockname()[1]),
            started_at=time.time(),
            python=str(python),
            mlflow_version=previous.mlflow_version if previous else None,
        )
        _write(lock, record)
        _launch(home, record, lock, listener.fileno())
    # Our copies of the lock and the socket are closed: if the server dies now, the connection below drops at once.
    while not _answers(record, max(0.1, deadline - time.monotonic())):
        if not alive(home):
            raise _start_failure(home)
        if time.monotonic() > deadline:
            raise TrackingError("the MLflow server is still starting", hint=_log_hint(home))
        time.sleep(_POLL_S)
    _note_answer(home, record)
    return record


def _launch(home: Home, record: ServerRecord, lock: int, listener: int) -> None:
    command = [record.python, "-I", str(Path(__file__).with_name("serve.py")), str(lock), str(listener)]
    make_private_folder(home.mlflow / "tmp")
    with _log(home) as log:
        process = subprocess.Popen(
            [*command, json.dumps(asdict(record))],
            cwd=home.mlflow,
            env=_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock, listener),
            start_new_session=True,
        )
    # This process only forks the server and ends, so that the server is nobody's child.
    try:
        process.wait(timeout=LAUNCH_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.returncode != 0:
        raise _start_failure(home)


def _environment(home: Home) -> dict[str, str]:
    """A small environment: no secrets of the caller, and no AIR_RUN_ID, by which a run's processes are found."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
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


def _end(home: Home, record: ServerRecord, deadline: float) -> None:
    """SIGTERM, then SIGKILL; returns when the kernel has freed the server's lock."""
    if record.host != socket.gethostname():
        raise TrackingError(
            f"the MLflow server of {home.root} runs on {record.host}, not on this machine",
            hint="set tracking_uri in the profile to a server that all machines reach",
        )
    for number in (signal.SIGTERM, signal.SIGKILL):
        if record.pid is not None and alive(home):
            with contextlib.suppress(ProcessLookupError):
                os.kill(record.pid, number)
        patience = min(deadline, time.monotonic() + STOP_S)
        while alive(home) and time.monotonic() < patience:
            time.sleep(_POLL_S)
        if not alive(home):
            return
    raise TrackingError(f"the MLflow server (process {record.pid}) would not end")


def _answers(record: ServerRecord, timeout_s: float) -> bool:
    """Whether this very server answers, and not another program that has its port now."""
    from airlane.tracking.address import Address
    from airlane.tracking.connection import Connection, Request
    from airlane.tracking.serve import IDENTITY

    connection = Connection(Address("http", HOST, record.port, "", None), {})
    try:
        answer = connection.exchange(Request("GET", IDENTITY, timeout_s=timeout_s))
        return bool(json.loads(answer.body)["id"] == record.id)
    except (TrackingError, ValueError, TypeError, KeyError):
        return False
    finally:
        connection.close()


def _listen(port: int) -> socket.socket:
    """A listening socket at this port, or at any free one if another program has it."""
    for candidate in dict.fromkeys((port, 0)):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, candidate))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            if candidate == 0:
                raise TrackingError(f"no port on {HOST} for the MLflow server: {error}") from error
        else:
            return listener
    raise AssertionError("port 0 was tried")


@contextlib.contextmanager
def _one_at_a_time(home: Home, deadline: float) -> Iterator[None]:
    descriptor = os.open(home.mlflow / "starting.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, deadline, "mlflow/starting.lock")
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, deadline: float, name: str) -> None:
    pause_s = 0.01
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                message = f"{name} is held by another process that starts or stops the MLflow server"
                raise TrackingError(message) from None
            time.sleep(pause_s)
            pause_s = min(0.2, pause_s * 2)
        else:
            return


def _read(home: Home) -> ServerRecord | None:
    try:
        return codec.read(ServerRecord, _record_file(home))
    except StoreError:
        return None  # being written, or cut short by a crash: worth no more than a new port


def _write(descriptor: int, record: ServerRecord) -> None:
    data = codec.encode(replace(record, pid=None))
    if os.pwrite(descriptor, data, 0) != len(data):
        raise OSError(28, "No space left on device")
    os.ftruncate(descriptor, len(data))


def _record_file(home: Home) -> Path:
    return home.mlflow / "server.json"


def _answered_file(home: Home) -> Path:
    return home.mlflow / "answered"


def _note_answer(home: Home, record: ServerRecord) -> None:
    # Without the note, runs wait a little longer before they queue.
    with contextlib.suppress(OSError):
        _answered_file(home).write_text(record.id, encoding="ascii")


def _log_file(home: Home) -> Path:
    return home.mlflow / "server.log"


@contextlib.contextmanager
def _log(home: Home) -> Iterator[int]:
    path = _log_file(home)
    if path.exists() and path.stat().st_size > LOG_BYTES:
        path.replace(path.with_name("server.log.1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _start_failure(home: Home) -> TrackingError:
    try:
        with _log_file(home).open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4096))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    said = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return TrackingError(f"the MLflow server did not start: {said}", hint=_log_hint(home))


def _log_hint(home: Home) -> str:
    return f"its log: {_log_file(home)}"


def _rss_bytes(pid: int) -> int | None:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def _wrapped(verb: str) -> Iterator[None]:
    try:
        yield
    except AirError:
        raise
    except OSError as error:
        raise TrackingError(f"cannot {verb} the MLflow server: {error}") from error

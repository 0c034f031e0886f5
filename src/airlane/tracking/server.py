"""The embedded MLflow server: started when first needed, found again by every run, replaced when it died or hangs.

`mlflow/server.json` describes the server and is flock-ed by it for as long as it lives, so the kernel tells whether it
does. The file stays when the server goes: the next one takes the same port, and addresses in use stay valid.

A server for other machines listens at one more address, behind a login (login.py). It stays so in later starts: runs in
a queue count on it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from airlane.errors import AirError, TrackingError
from airlane.frozen import frozen
from airlane.launch.interface import is_own, reachable_address, resolve
from airlane.store.disk import make_private_folder, read_bytes
from airlane.store.locks import taken_by_another
from airlane.store.paths import Home
from airlane.tracking.login import login_file, make_login
from airlane.tracking.server_launch import NAME_ADDRESS, launch, listen, log_hint, start_failure
from airlane.tracking.server_record import HOST, Reach, ServerRecord, read_record, record_file, write_record

QUICK_S = 2.0
HUNG_AFTER_S = 20.0
STARTING_S = 180.0  # a start takes 5 s, and far longer on a machine that is busy
START_S = 60.0
STOP_S = 4.0
_POLL_S = 0.05


@frozen
class ServerStatus:
    """A server that lives. `rss_bytes` is None where the system does not tell.

    `public_uri` and `login_file` are for other machines, None where they do not reach it.
    """

    uri: str
    pid: int | None
    mlflow_version: str | None
    started_at: float
    rss_bytes: int | None
    answering: bool
    public_uri: str | None = None
    login_file: Path | None = None


def ensure(
    home: Home,
    python: Callable[[], Path],
    *,
    reach: Reach | None = None,
    leash: int | None = None,
    deadline_s: float = START_S,
) -> str:
    """The address of the running server, started if need be; with `reach`, the one that holds on every machine.

    `python` gives the interpreter of the `mlflow-server` environment. It is called only when a server must be started;
    the time that it takes (it may build the environment) does not count against the deadline. A server that is out of
    reach is started anew at the same port. A server that is started ends when `leash`, the reading end of a pipe, does.

    Raises:
        TrackingError: no server answers in time; the message shows the end of its log.
        AirError: what `python` raises.
    """
    with _wrapped("start"):
        return _address(_ensure(home, python, reach, leash, deadline_s), reach)


def _ensure(
    home: Home, python: Callable[[], Path], reach: Reach | None, leash: int | None, deadline_s: float
) -> ServerRecord:
    record = read_record(home)
    fits = record is not None and _within(record, reach)
    # What another machine's lock says here is up to the file system: its answer is proof enough.
    if record is not None and fits and (alive(home) or not record.here) and _answers(record, QUICK_S):
        return record
    make_private_folder(home.mlflow)
    deadline = time.monotonic() + deadline_s
    if alive(home) and (record is None or fits):
        with _one_at_a_time(home, deadline):
            if (running := _settle(home, reach, deadline)) is not None:
                return running
    interpreter = python()
    deadline = time.monotonic() + deadline_s
    with _one_at_a_time(home, deadline):
        return _settle(home, reach, deadline) or _start(home, _Start(interpreter, reach, leash), deadline)


def _address(record: ServerRecord, reach: Reach | None) -> str:
    return record.uri if reach is None else record.public_uri or record.uri


def _within(record: ServerRecord, reach: Reach | None) -> bool:
    """Whether the server is where it is to be reached."""
    if reach is None:
        return True
    if record.address is None or (reach.address is not None and _resolved(reach.address) != record.address):
        return False
    return not record.here or is_own(record.address)


def _resolved(address: str) -> str:
    try:
        return resolve(address)
    except OSError as error:
        raise TrackingError(f"no address for {address}: {error.strerror}", hint=NAME_ADDRESS) from error


def alive(home: Home) -> bool:
    """Whether a server process exists; it may still be starting, or hang. Costs microseconds."""
    try:
        descriptor = os.open(record_file(home), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return taken_by_another(descriptor)
    finally:
        os.close(descriptor)


def has_answered(home: Home) -> bool:
    """Whether the server that lives is past its start: it has answered before. It may hang; costs two small reads."""
    record = read_record(home)
    return record is not None and alive(home) and read_bytes(_answered_file(home)) == record.id.encode()


def find(home: Home) -> ServerRecord | None:
    """The server, if it answers here and now, whichever machine it runs on."""
    record = read_record(home)
    if record is None or (record.here and not alive(home)) or not _answers(record, QUICK_S):
        return None
    return record


def status(home: Home) -> ServerStatus | None:
    """The server that lives, or None."""
    with _wrapped("look at"):
        record = read_record(home)
        if record is None or not alive(home):
            return None
        return ServerStatus(
            uri=record.uri,
            pid=record.pid,
            mlflow_version=record.mlflow_version,
            started_at=record.started_at,
            rss_bytes=_rss_bytes(record.pid) if record.pid is not None and record.here else None,
            answering=_answers(record, QUICK_S),
            public_uri=record.public_uri,
            login_file=login_file(home) if record.address else None,
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


def _settle(home: Home, reach: Reach | None, deadline: float) -> ServerRecord | None:
    """The server that lives and answers; None if a new one may be started.

    One that hangs, or is out of reach, is ended.
    """
    if not alive(home):
        return None
    record = _started(home, deadline)
    if not _within(record, reach):
        _end(home, record, deadline)
        return None
    # A server that is still starting listens already, and answers when it is ready.
    age_s = max(0.0, time.time() - record.started_at)
    patience_s = max(HUNG_AFTER_S, STARTING_S - age_s)
    left_s = deadline - time.monotonic()
    if _answers(record, min(patience_s, left_s)):
        _note_answer(home, record)
        return record
    if not alive(home):
        return None
    if patience_s > left_s and record.here:
        raise TrackingError(f"the MLflow server (process {record.pid}) does not answer yet", hint=log_hint(home))
    _end(home, record, deadline)
    return None


def _started(home: Home, deadline: float) -> ServerRecord:
    """The record of the server that lives, once its process has written it."""
    while True:
        record = read_record(home)
        if record is not None and record.pid is not None:
            return record
        if time.monotonic() > deadline or not alive(home):
            raise TrackingError(f"{record_file(home)} is locked, and does not say by whom", hint=log_hint(home))
        time.sleep(_POLL_S)


@frozen
class _Start:
    """How a server is to be started, see `ensure`."""

    python: Path
    reach: Reach | None
    leash: int | None


def _start(home: Home, start: _Start, deadline: float) -> ServerRecord:
    with contextlib.ExitStack() as held:
        lock = os.open(record_file(home), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        held.callback(os.close, lock)
        _lock(lock, deadline, "mlflow/server.json")
        previous = read_record(home)
        address = _public_address(start.reach, previous)
        if address is not None:
            make_login(home)
        listeners = listen(previous.port if previous else 0, (HOST, address) if address else (HOST,))
        for listener in listeners:
            held.enter_context(listener)
        record = ServerRecord(
            id=secrets.token_hex(8),
            host=socket.gethostname(),
            port=int(listeners[0].getsockname()[1]),
            started_at=time.time(),
            python=str(start.python),
            mlflow_version=previous.mlflow_version if previous else None,
            address=address,
        )
        write_record(lock, record)
        launch(home, record, lock, listeners, start.leash)
    # Our copies of the lock and the socket are closed: if the server dies now, the connection below drops at once.
    while not _answers(record, max(0.1, deadline - time.monotonic())):
        if not alive(home):
            raise start_failure(home)
        if time.monotonic() > deadline:
            raise TrackingError("the MLflow server is still starting", hint=log_hint(home))
        time.sleep(_POLL_S)
    _note_answer(home, record)
    return record


def _public_address(reach: Reach | None, previous: ServerRecord | None) -> str | None:
    if reach is not None and reach.address is not None:
        return _resolved(reach.address)
    if previous is not None and previous.address is not None and is_own(previous.address):
        return previous.address
    if reach is None and (previous is None or previous.address is None):
        return None
    found = reachable_address()
    if found is None and reach is not None:
        raise TrackingError(f"{socket.gethostname()} has no address but loopback", hint=NAME_ADDRESS)
    return found


def _end(home: Home, record: ServerRecord, deadline: float) -> None:
    """SIGTERM, then SIGKILL; returns when the kernel has freed the server's lock."""
    if not record.here:
        raise TrackingError(
            f"the MLflow server of {home.root} runs on {record.host}, not on this machine",
            hint=f"stop it on {record.host}: air ui --stop; or set tracking_uri to a server that all machines reach",
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

    connection = Connection(Address("http", record.contact, record.port, "", None), {})
    try:
        answer = connection.exchange(Request("GET", IDENTITY, timeout_s=timeout_s))
        return bool(json.loads(answer.body)["id"] == record.id)
    except (TrackingError, ValueError, TypeError, KeyError):
        return False
    finally:
        connection.close()


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


def _answered_file(home: Home) -> Path:
    return home.mlflow / "answered"


def _note_answer(home: Home, record: ServerRecord) -> None:
    # Without the note, runs wait a little longer before they queue.
    with contextlib.suppress(OSError):
        _answered_file(home).write_text(record.id, encoding="ascii")


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

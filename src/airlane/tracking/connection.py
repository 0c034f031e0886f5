"""One HTTP connection to a tracking server: a deadline on every exchange, and one retry where that is harmless."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO

from airlane.errors import TrackingError, TrackingRejectedError
from airlane.frozen import frozen
from airlane.tracking.address import Address

IDLE_LIMIT_S = 2.0  # uvicorn closes idle connections after 5 s; a request on a closing one would be lost


@frozen
class Answer:
    """What the server said."""

    status: int
    body: bytes
    location: str | None = None


@frozen
class Request:
    """`repeat` says that sending it twice is the same as sending it once; `path` is relative to the server's base."""

    method: str
    path: str
    body: bytes | BinaryIO | None = None
    length_bytes: int = 0
    content_type: str = "application/json"
    timeout_s: float = 10.0
    repeat: bool = True


class Connection:
    """Kept alive between exchanges that follow each other closely. For one thread at a time."""

    def __init__(self, address: Address, env: Mapping[str, str]) -> None:
        self._address = address
        self._env = env
        self._open: http.client.HTTPConnection | None = None
        self._used_at = 0.0

    def exchange(self, request: Request) -> Answer:
        """Send a request and read the whole answer.

        Raises:
            TrackingError: the server could not be reached, dropped the connection, or did not answer in time.
        """
        deadline = time.monotonic() + request.timeout_s
        try:
            return self._once(request, deadline)
        except (ConnectionError, http.client.HTTPException) as error:
            refused = isinstance(error, ConnectionRefusedError)
            if refused or not request.repeat or time.monotonic() >= deadline:
                raise self._failure(error, request) from error
        except OSError as error:
            raise self._failure(error, request) from error
        try:
            return self._once(request, deadline)
        except (OSError, http.client.HTTPException) as error:
            raise self._failure(error, request) from error

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _once(self, request: Request, deadline: float) -> Answer:
        completed = False
        try:
            answer = self._talk(self._connected(deadline), request, deadline)
            completed = True
            return answer
        finally:
            self._used_at = time.monotonic()
            if not completed:
                self.close()

    def _connected(self, deadline: float) -> http.client.HTTPConnection:
        if self._open is not None and time.monotonic() - self._used_at > IDLE_LIMIT_S:
            self.close()
        if self._open is None:
            self._open = _new_connection(self._address, self._env, _left_s(deadline))
            self._open.connect()
        return self._open

    def _talk(self, connection: http.client.HTTPConnection, request: Request, deadline: float) -> Answer:
        headers = {"Accept": "application/json", "User-Agent": "airlane", "Content-Type": request.content_type}
        if self._address.authorization is not None:
            headers["Authorization"] = self._address.authorization
        if request.length_bytes or request.body is not None:
            headers["Content-Length"] = str(request.length_bytes)
        body = request.body
        if body is not None and not isinstance(body, bytes):
            body.seek(0)
        connection.sock.settimeout(_left_s(deadline))
        with _cut_at(connection.sock, deadline) as cut:
            try:
                connection.request(request.method, self._target(request.path), body=body, headers=headers)
                response = connection.getresponse()
                content = response.read()
            except (OSError, http.client.HTTPException):
                if cut.is_set():
                    raise TimeoutError from None
                raise
        if response.will_close:
            self.close()
        return Answer(response.status, content, response.getheader("Location"))

    def _target(self, path: str) -> str:
        # A plain-HTTP proxy wants the whole URI in the request line.
        through_proxy = self._address.scheme == "http" and _proxy(self._address, self._env) is not None
        return f"{self._address.base if through_proxy else self._address.prefix}{path}"

    def _failure(self, error: Exception, request: Request) -> TrackingError:
        where = self._address.base
        match error:
            case TimeoutError():
                return TrackingError(f"tracking server {where} did not answer within {request.timeout_s:g} s")
            case ConnectionRefusedError():
                return TrackingError(f"tracking server {where} refused the connection", hint="is it running?")
            case ssl.SSLCertVerificationError():
                return TrackingRejectedError(
                    f"tracking server {where}: its certificate is not trusted ({error.verify_message})",
                    hint="name its certificate authority in MLFLOW_TRACKING_SERVER_CERT_PATH",
                )
            case socket.gaierror():
                return TrackingError(f"tracking server {where}: no such host ({error.strerror})")
            case ConnectionError() | http.client.HTTPException():
                return TrackingError(f"tracking server {where} dropped the connection ({error.__class__.__name__})")
            case _:
                return TrackingError(f"tracking server {where} cannot be reached: {error}")


def _left_s(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


@contextmanager
def _cut_at(sock: socket.socket, deadline: float) -> Iterator[threading.Event]:
    """Shut the socket down at the deadline: its own timeout starts anew with every byte of a slow answer."""
    cut = threading.Event()

    def shut_down() -> None:
        cut.set()
        try:
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
        except OSError:
            return  # closed meanwhile: the exchange is over

    timer = threading.Timer(_left_s(deadline), shut_down)
    timer.daemon = True
    timer.start()
    try:
        yield cut
    finally:
        timer.cancel()


def _new_connection(address: Address, env: Mapping[str, str], timeout_s: float) -> http.client.HTTPConnection:
    proxy = _proxy(address, env)
    host, port = proxy or (address.host, address.port)
    if address.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=_tls(env))
    if proxy is not None:
        connection.set_tunnel(address.host, address.port)
    return connection


def _tls(env: Mapping[str, str]) -> ssl.SSLContext:
    authority = env.get("MLFLOW_TRACKING_SERVER_CERT_PATH") or env.get("REQUESTS_CA_BUNDLE")
    try:
        context = ssl.create_default_context(cafile=authority or None)
        if certificate := env.get("MLFLOW_TRACKING_CLIENT_CERT_PATH"):
            context.load_cert_chain(certificate)
    except OSError as error:
        raise TrackingRejectedError(f"tracking certificates cannot be read: {error}") from error
    if env.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("true", "1"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _proxy(address: Address, env: Mapping[str, str]) -> tuple[str, int] | None:
    """Host and port of the proxy that the environment names for this address (a proxy that wants no sign-in)."""
    name = f"{address.scheme}_proxy"
    value = env.get(name) or env.get(name.upper())
    if not value or address.loopback or _direct(address.host, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    from urllib.parse import urlsplit

    parts = urlsplit(value if "://" in value else f"http://{value}")
    return (parts.hostname, parts.port or 80) if parts.hostname else None


def _direct(host: str, no_proxy: str) -> bool:
    names = [name.strip().lstrip(".") for name in no_proxy.split(",") if name.strip()]
    return any(name in ("*", host) or host.endswith(f".{name}") for name in names)

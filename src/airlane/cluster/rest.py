"""A Ray cluster's dashboard over HTTP: nothing but the standard library, no proxies, and the cluster's token."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import math
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

from airlane.errors import AirError, ConfigError, RayAnswerError, RayDeniedError, RayUnreachableError
from airlane.frozen import frozen

__all__ = ["Dashboard", "RayAnswerError", "RayDeniedError", "RayUnreachableError", "Readable", "Stream"]

_BLOCK_BYTES = 1 << 18
_MOST_WORDS = 500  # of an answer that tells of an error; Ray sends whole tracebacks
_PORTS = {"http": 80, "https": 443}
_DENIED = (401, 403)
_NO_DASHBOARD = "is this the address of a Ray dashboard? Its port is 8265 unless another was chosen"


class Readable(Protocol):
    """What a body is read from, such as a file."""

    def read(self, size: int = ..., /) -> bytes: ...


@frozen
class _Request:
    method: str
    path: str
    body: bytes | Readable | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None
    within_s: float | None = None


class Stream(Iterator[bytes]):
    """The pieces of an answer as they come. It may be closed from another thread than the one that waits for them."""

    def __init__(
        self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse, url: str, silence_s: float
    ) -> None:
        self._connection, self._socket, self._answer = connection, connection.sock, answer
        self._url, self._silence_s = url, silence_s
        self._reading = threading.Lock()
        self._closed = False

    def __next__(self) -> bytes:
        """Raises RayUnreachableError: nothing came for too long, or the connection broke before the answer's end."""
        with self._reading:
            try:
                piece = b"" if self._closed else self._answer.read1(_BLOCK_BYTES)
            except (OSError, http.client.HTTPException) as error:
                if not self._closed:
                    self._connection.close()
                    raise unreachable(self._url, error, self._silence_s) from error
                piece = b""
        if not piece:
            self.close()
            raise StopIteration
        return piece

    def close(self) -> None:
        """Harmless twice, and while another thread waits: it is told that this was all."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._reading:
            self._connection.close()


class Dashboard:
    """A Ray cluster's head, over its dashboard port alone. Threads may share one.

    Every question raises RayUnreachableError (no answer), RayDeniedError (401 and 403) or RayAnswerError (a status that
    is neither of these nor 2xx, or another kind of answer).
    """

    def __init__(
        self, url: str, token: str | None = None, *, timeout_s: float = 10.0, called: str | None = None
    ) -> None:
        """`timeout_s` is how long the other side may be silent; `called` is what messages call it, in place of the URL.

        Raises:
            ConfigError: the address is none of http:// or https://, or the token cannot stand in a header.
        """
        parts = _parts(url)
        self._tls = parts.scheme == "https"
        self._host, self._port = str(parts.hostname), parts.port or _PORTS[parts.scheme]
        self._prefix = parts.path.rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc}{self._prefix}"
        self._called = called or self.url
        self._timeout_s = timeout_s
        self._headers = {"User-Agent": "airlane", "Accept": "*/*"}
        self._has_token = token is not None
        if token is not None:
            if not (token and token.isascii() and token.isprintable()):
                raise ConfigError(f"the token for {self._called} is not one line of text", hint="ray get-auth-token")
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: list[http.client.HTTPConnection] = []  # only appended to and popped from, so threads may share it
        weakref.finalize(self, _close_all, self._idle)

    @property
    def called(self) -> str:
        """What messages call it."""
        return self._called

    def get(self, path: str, *, within_s: float | None = None) -> bytes:
        """The body of the answer; with `within_s`, all of it in that time, also where it comes byte by byte."""
        return self._whole(_Request("GET", path, within_s=within_s))

    def get_json(self, path: str) -> Any:
        return self._read(path, self.get(path))

    def post_json(self, path: str, body: Mapping[str, Any], *, timeout_s: float | None = None) -> Any:
        headers = {"Content-Type": "application/json"}
        return self._read(path, self._whole(_Request("POST", path, json.dumps(body).encode(), headers, timeout_s)))

    def put(
        self, path: str, body: bytes | Readable, size_bytes: int | None = None, *, timeout_s: float | None = None
    ) -> None:
        """Send bytes, or a file from where it stands; where `size_bytes` is not known, in chunks."""
        headers = {"Content-Type": "application/octet-stream"}
        if size_bytes is not None:
            headers["Content-Length"] = str(size_bytes)
        self._whole(_Request("PUT", path, body, headers, timeout_s))

    def delete(self, path: str) -> Any:
        return self._read(path, self._whole(_Request("DELETE", path)))

    def stream(self, path: str, *, silence_s: float) -> Stream:
        """An answer in pieces; `silence_s` without any is a RayUnreachableError."""
        connection = self._new_connection(self._timeout_s)
        try:
            connection.connect()
            connection.sock.settimeout(silence_s)
            kept = connection.sock
            answer = self._ask(connection, _Request("GET", path))
            self._check(path, answer)
            connection.sock = kept  # http.client gives it up where the server will close the connection
            return Stream(connection, answer, self._called, silence_s)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise unreachable(self._called, error, silence_s) from error
        except AirError:
            connection.close()
            raise

    def close(self) -> None:
        """Let go of the connections kept for a next question, which may still be asked."""
        _close_all(self._idle)

    def _whole(self, request: _Request) -> bytes:
        timeout_s = min(request.timeout_s or self._timeout_s, request.within_s or math.inf)
        began = time.monotonic()
        try:
            if request.method == "GET" and self._idle:
                with contextlib.suppress(ConnectionError, http.client.HTTPException):  # closed meanwhile: ask anew
                    return self._exchange(self._idle.pop(), request)
            return self._exchange(self._new_connection(timeout_s), request)
        except (OSError, http.client.HTTPException) as error:
            if request.within_s is not None and time.monotonic() - began >= request.within_s:
                timeout_s = request.within_s
            raise unreachable(self._called, error, timeout_s) from error

    def _exchange(self, connection: http.client.HTTPConnection, request: _Request) -> bytes:
        keep = False
        try:
            answer = self._ask(connection, request)
            self._check(request.path, answer)
            content = answer.read()
            keep = not answer.will_close and request.timeout_s is None
        finally:
            if keep:
                self._idle.append(connection)
            else:
                connection.close()
        return content

    def _ask(self, connection: http.client.HTTPConnection, request: _Request) -> http.client.HTTPResponse:
        headers = {**self._headers, **request.headers}
        connection.response_class = _answer_class(request.within_s, connection)
        # Who refuses a large body may answer and close before all of it was sent: the answer says why.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(request.method, self._prefix + request.path, body=request.body, headers=headers)
        return connection.getresponse()

    def _check(self, path: str, answer: http.client.HTTPResponse) -> None:
        """Raises RayDeniedError or RayAnswerError unless the status is 2xx."""
        if answer.status // 100 == 2:  # noqa: PLR2004 # the hundred of success
            return
        if answer.status in _DENIED:
            raise self._denied()
        words = _words(answer.read())
        shown = f"{self._called}: {path.partition('?')[0]} answers {answer.status} {answer.reason}"
        raise RayAnswerError(f"{shown}: {words}" if words else shown, status=answer.status, words=words)

    def _read(self, path: str, body: bytes) -> Any:
        try:
            return json.loads(body)
        except ValueError as error:
            message = f"{self._called}: {path.partition('?')[0]} does not answer in JSON"
            raise RayAnswerError(message, status=http.client.OK, hint=_NO_DASHBOARD) from error

    def _new_connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._tls:
            tls = ssl.create_default_context()
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout_s, context=tls, blocksize=_BLOCK_BYTES
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s, blocksize=_BLOCK_BYTES)

    def _denied(self) -> RayDeniedError:
        hint = 'export RAY_AUTH_TOKEN_PATH=FILE, or token_file = "FILE" in the profile; on its head: ray get-auth-token'
        if self._has_token:
            return RayDeniedError(f"the Ray cluster at {self._called} does not accept this token", hint=hint)
        return RayDeniedError(f"the Ray cluster at {self._called} wants a token", hint=hint)


class _Until(io.RawIOBase):
    """What comes from a socket until a time; then a TimeoutError."""

    def __init__(self, source: io.RawIOBase, sock: socket.socket, until: float, silence_s: float) -> None:
        self._source, self._sock, self._until, self._silence_s = source, sock, until, silence_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override] # which takes any buffer
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._sock.settimeout(min(left_s, self._silence_s))
        try:
            return self._source.readinto(buffer)
        finally:
            self._sock.settimeout(self._silence_s)

    def close(self) -> None:
        self._source.close()
        super().close()


def _answer_class(within_s: float | None, connection: http.client.HTTPConnection) -> type[http.client.HTTPResponse]:
    """What reads an answer. The socket's own timeout is for each piece, however small, and so bounds nothing."""
    if within_s is None:
        return http.client.HTTPResponse
    until, silence_s = time.monotonic() + within_s, connection.timeout or within_s

    class Answer(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **named: Any) -> None:
            super().__init__(sock, *args, **named)
            self.fp = io.BufferedReader(_Until(self.fp.detach(), sock, until, silence_s))

    return Answer


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def unreachable(url: str, error: OSError | http.client.HTTPException, patience_s: float) -> AirError:
    """Why there is no answer; a ConfigError where asking again would be of no use."""
    match error:
        case ConnectionRefusedError():
            hint = "is the cluster running, and its dashboard there?"
            return RayUnreachableError(f"{url} refuses the connection", refused=True, hint=hint)
        case TimeoutError():
            return RayUnreachableError(f"{url} does not answer within {patience_s:g} s")
        case socket.gaierror():
            return RayUnreachableError(f"{url}: no such host ({error.strerror})")
        case ssl.SSLCertVerificationError():
            hint = "export SSL_CERT_FILE=FILE, with its certificate authority"
            return ConfigError(f"{url}: its certificate is not trusted ({error.verify_message})", hint=hint)
        case ssl.SSLError():
            return RayUnreachableError(f"{url} does not speak TLS ({error.reason})", hint="try http://")
        case ConnectionError() | http.client.IncompleteRead():
            return RayUnreachableError(f"{url} dropped the connection")
        case http.client.HTTPException():
            return RayUnreachableError(f"{url} does not speak HTTP", hint=_NO_DASHBOARD)
        case _:
            return RayUnreachableError(f"{url} cannot be reached: {error.strerror or error}")


def _parts(url: str) -> SplitResult:
    """Raises ConfigError."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _PORTS and parts.hostname and parts.port != 0
    except ValueError:
        usable = None
    if not usable:
        raise ConfigError(f"{url!r} is not the address of a Ray dashboard", hint="it looks like http://HOST:8265")
    if parts.username is not None:
        raise ConfigError(f"the address of {parts.hostname} holds a user's name or password; Ray knows only tokens")
    return parts


def _words(body: bytes) -> str:
    """What an answer says about an error: the message in JSON, or the last line, where a traceback has its reason."""
    text = body.decode("utf-8", "replace").strip()
    if text.startswith("<"):
        return ""
    with contextlib.suppress(ValueError):
        content = json.loads(text)
        if isinstance(content, dict):
            text = str(content.get("msg") or content.get("message") or text)
    if text.startswith("Traceback "):
        text = text.rstrip("\n .").rpartition("\n")[2]
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]} ..."

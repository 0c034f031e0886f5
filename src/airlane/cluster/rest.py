"""A Ray cluster's dashboard over HTTP: nothing but the standard library, no proxies, and the cluster's token."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, BinaryIO
from urllib.parse import SplitResult, urlsplit

from airlane.errors import AirError, ConfigError, RayAnswerError, RayDeniedError, RayUnreachableError
from airlane.frozen import frozen

__all__ = ["Dashboard", "RayAnswerError", "RayDeniedError", "RayUnreachableError"]

_BLOCK_BYTES = 1 << 18
_MOST_WORDS = 500  # of an answer that tells of an error; Ray sends whole tracebacks
_PORTS = {"http": 80, "https": 443}
_DENIED = (401, 403)


@frozen
class _Request:
    method: str
    path: str
    body: bytes | BinaryIO | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Dashboard:
    """A Ray cluster's head, over its dashboard port alone. Threads may share one.

    Every question raises RayUnreachableError (no answer), RayDeniedError (401 and 403) or RayAnswerError (a status that
    is neither of these nor 2xx, or another kind of answer).
    """

    def __init__(self, url: str, token: str | None = None, *, timeout_s: float = 10.0) -> None:
        """`timeout_s` is how long the other side may be silent.

        Raises:
            ConfigError: the address is none of http:// or https://, or the token cannot stand in a header.
        """
        parts = _parts(url)
        self._tls = parts.scheme == "https"
        self._host, self._port = str(parts.hostname), parts.port or _PORTS[parts.scheme]
        self._prefix = parts.path.rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc}{self._prefix}"
        self._timeout_s = timeout_s
        self._headers = {"User-Agent": "airlane", "Accept": "*/*"}
        self._has_token = token is not None
        if token is not None:
            if not (token and token.isascii() and token.isprintable()):
                raise ConfigError(f"the token for {self.url} is not one line of text", hint="ray get-auth-token")
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: list[http.client.HTTPConnection] = []  # only appended to and popped from, so threads may share it

    def get(self, path: str) -> bytes:
        """The body of the answer."""
        return self._whole(_Request("GET", path))

    def get_json(self, path: str) -> Any:
        return self._read(path, self.get(path))

    def post_json(self, path: str, body: Mapping[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        return self._read(path, self._whole(_Request("POST", path, json.dumps(body).encode(), headers)))

    def put(self, path: str, body: bytes | BinaryIO, size_bytes: int | None = None) -> None:
        """Send bytes, or a file from where it stands; where `size_bytes` is not known, in chunks."""
        headers = {"Content-Type": "application/octet-stream"}
        if size_bytes is not None:
            headers["Content-Length"] = str(size_bytes)
        self._whole(_Request("PUT", path, body, headers))

    def delete(self, path: str) -> Any:
        return self._read(path, self._whole(_Request("DELETE", path)))

    def stream(self, path: str, *, silence_s: float) -> Iterator[bytes]:
        """The pieces of an answer as they come.

        `silence_s` without any is a RayUnreachableError, as is a connection that breaks before the answer's end.
        """
        with contextlib.closing(self._new_connection()) as connection:
            try:
                connection.connect()
                connection.sock.settimeout(silence_s)
                answer = self._ask(connection, _Request("GET", path))
                self._check(path, answer)
                while piece := answer.read1(_BLOCK_BYTES):
                    yield piece
            except (OSError, http.client.HTTPException) as error:
                raise self._unreachable(error, silence_s) from error

    def close(self) -> None:
        """Let go of the connections kept for a next question, which may still be asked."""
        while self._idle:
            self._idle.pop().close()

    def _whole(self, request: _Request) -> bytes:
        try:
            if request.method == "GET" and self._idle:
                with contextlib.suppress(ConnectionError, http.client.HTTPException):  # closed meanwhile: ask anew
                    return self._exchange(self._idle.pop(), request)
            return self._exchange(self._new_connection(), request)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error, self._timeout_s) from error

    def _exchange(self, connection: http.client.HTTPConnection, request: _Request) -> bytes:
        keep = False
        try:
            answer = self._ask(connection, request)
            self._check(request.path, answer)
            content = answer.read()
            keep = not answer.will_close
        finally:
            if keep:
                self._idle.append(connection)
            else:
                connection.close()
        return content

    def _ask(self, connection: http.client.HTTPConnection, request: _Request) -> http.client.HTTPResponse:
        headers = {**self._headers, **request.headers}
        # Who refuses a large body may answer and close before it was sent: the answer says why.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(request.method, self._prefix + request.path, body=request.body, headers=headers)
        return connection.getresponse()

    def _check(self, path: str, answer: http.client.HTTPResponse) -> None:
        """Raises RayDeniedError or RayAnswerError unless the status is 2xx."""
        if answer.status // 100 == 2:  # noqa: PLR2004 # the hundred of the codes of success
            return
        if answer.status in _DENIED:
            raise self._denied()
        words = _words(answer.read())
        raise RayAnswerError(
            f"{self.url}{path.partition('?')[0]} answers {answer.status} {answer.reason}{': ' if words else ''}{words}",
            status=answer.status,
        )

    def _read(self, path: str, body: bytes) -> Any:
        try:
            return json.loads(body)
        except ValueError as error:
            shown = path.partition("?")[0]
            raise RayAnswerError(
                f"{self.url}{shown} does not answer in JSON",
                status=http.client.OK,
                hint="is this the address of a Ray dashboard? Its port is 8265 unless another was chosen",
            ) from error

    def _new_connection(self) -> http.client.HTTPConnection:
        if self._tls:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout_s, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s, blocksize=_BLOCK_BYTES)

    def _denied(self) -> RayDeniedError:
        hint = 'export RAY_AUTH_TOKEN_PATH=FILE, or token_file = "FILE" in the profile; on its head: ray get-auth-token'
        if self._has_token:
            return RayDeniedError(f"the Ray cluster at {self.url} does not accept this token", hint=hint)
        return RayDeniedError(f"the Ray cluster at {self.url} wants a token", hint=hint)

    def _unreachable(self, error: OSError | http.client.HTTPException, patience_s: float) -> AirError:
        match error:
            case ConnectionRefusedError():
                message = f"{self.url} refuses the connection"
                return RayUnreachableError(
                    message, refused=True, hint="is the cluster running, and its dashboard there?"
                )
            case TimeoutError():
                return RayUnreachableError(f"{self.url} does not answer within {patience_s:g} s")
            case socket.gaierror():
                return RayUnreachableError(f"{self.url}: no such host ({error.strerror})")
            case ssl.SSLCertVerificationError():
                hint = "export SSL_CERT_FILE=FILE, with its certificate authority"
                return ConfigError(f"{self.url}: its certificate is not trusted ({error.verify_message})", hint=hint)
            case ssl.SSLError():
                return RayUnreachableError(f"{self.url} does not speak TLS ({error.reason})", hint="try http://")
            case ConnectionError() | http.client.IncompleteRead():
                return RayUnreachableError(f"{self.url} dropped the connection")
            case http.client.HTTPException():
                hint = "name the dashboard's port (8265 unless another was chosen), not that of the GCS (6379)"
                return RayUnreachableError(f"{self.url} does not speak HTTP", hint=hint)
            case _:
                return RayUnreachableError(f"{self.url} cannot be reached: {error.strerror or error}")


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
        text = text.rpartition("\n")[2]
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]} ..."

"""A stand-in for a Ray dashboard, in this process, that answers as it is told (tests/e2e/ray_jobs has a real one)."""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass(frozen=True)
class Asked:
    """A question that has come."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """`pieces` are sent in chunks; without `whole`, the connection is cut after them. `drop` answers nothing at all.

    `unread` answers before the body has been read, and closes. `then` runs after the pieces.
    """

    status: int = 200
    body: bytes = b""
    pieces: tuple[bytes, ...] | None = None
    whole: bool = True
    drop: bool = False
    unread: bool = False
    raw: bytes | None = None
    then: Callable[[], object] | None = None


@dataclass
class StandIn:
    """Answers by method and path, each once but the last; keeps what it was asked."""

    answers: dict[str, deque[Answer]] = field(default_factory=lambda: defaultdict(deque))
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), type("Bound", (_Requests,), {"stand_in": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def on(self, question: str, *answers: Answer) -> None:
        """`question` is "GET /path"."""
        self.answers[question].extend(answers)

    def on_json(self, question: str, *contents: Any) -> None:
        self.on(question, *(Answer(body=json.dumps(content).encode()) for content in contents))

    def take(self, question: str) -> Answer:
        waiting = self.answers[question]
        if not waiting:
            return Answer(404, b"nothing here")
        return waiting.popleft() if len(waiting) > 1 else waiting[0]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Who asks may leave at any time."""


class _Requests(BaseHTTPRequestHandler):
    stand_in: StandIn
    protocol_version = "HTTP/1.1"
    timeout = 5

    def setup(self) -> None:
        super().setup()
        self.stand_in.connections += 1

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - as the base class has them

    def _answer(self) -> None:
        answer = self.stand_in.take(f"{self.command} {self.path.partition('?')[0]}")
        body = b"" if answer.unread else self._body()
        self.stand_in.asked.append(Asked(self.command, self.path, dict(self.headers.items()), body))
        if answer.drop or answer.raw is not None:
            self.wfile.write(answer.raw or b"")
            self.close_connection = True
            return
        self.send_response(answer.status)
        if answer.unread:
            self.send_header("Connection", "close")
        if answer.pieces is None:
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in answer.pieces:
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if answer.then is not None:
            answer.then()
        if answer.whole:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            found = b""
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def log_message(self, *_: object) -> None:
        """Nothing is told on stderr."""


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    made = StandIn()
    yield made
    made.close()

"""Answers that a real cluster gave, and a stand-in for its head that gives them (tests/e2e/top has a real one).

Recorded from Ray 2.60: four nodes without GPUs, one of them dead; a submitted job with three actors that live, twelve
that are dead and one that waits for 50 CPUs; a placement group, and one that asks for more than there is.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

RECORDED = Path(__file__).parent / "recorded"
HEAD_NODE = "c0a59e8d988868b8da41768d92e637b71f0af400c1cddfbbe5bb0adb"
DEAD_NODE = "7992c69ebbec9bcd7d263c72cebde4291052a0aaf4a777e85eaebebc"
WORKER_NODE = "6a77f6d6da602b21123b2778f2aeea81c72c036114e4bd5421344aa9"

# What reporter_models.py of Ray 2.60 says that a node with GPUs would tell; no such node was at hand.
MADE_UP_GPUS: list[dict[str, Any]] = [
    {
        "index": 0,
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": "GPU-made-up-0",
        "utilizationGpu": 97,
        "memoryUsed": 71680,
        "memoryTotal": 81559,
        "processesPids": [{"pid": 4242, "gpuMemoryUsage": 70000, "gpuUtilization": 96}],
        "powerMw": 612500,
        "temperatureC": 71,
    },
    {
        "index": 1,
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": "GPU-made-up-1",
        "utilizationGpu": None,
        "memoryUsed": 0,
        "memoryTotal": 81559,
        "processesPids": None,
        "powerMw": None,
        "temperatureC": None,
    },
]


def body(name: str) -> bytes:
    return (RECORDED / f"{name}.json").read_bytes()


def answer(name: str) -> Any:
    """A recorded answer, to be changed."""
    return json.loads(body(name))


def encoded(content: Any) -> bytes:
    return json.dumps(content).encode()


BODIES = {
    "/api/version": "version",
    "/nodes": "summary",
    "/api/v0/nodes": "nodes",
    "/api/cluster_status": "cluster_status",
    "/api/jobs/": "jobs",
    "/api/v0/actors/summarize": "actor_classes",
    "/api/v0/placement_groups": "groups",
    f"/nodes/{WORKER_NODE}": "node",
}
ACTORS = {"ALIVE": "actors_alive", "PENDING_CREATION": "actors_pending"}
NO_TRAIN = b"Train state data is not available. Please make sure Ray Train is running."

Reply = tuple[int, bytes]


@dataclass
class StandInHead:
    """Gives the recorded answers, or by path what it is told to: a status and a body, or what makes them."""

    instead: dict[str, Reply | Callable[[], Reply]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    trickle: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.leaving = threading.Event()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, where it listened before."""
        self._server = _Server(("127.0.0.1", self.port), type("Bound", (_Requests,), {"head": self}))
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def reply(self, path: str, query: dict[str, list[str]]) -> Reply:
        instead = self.instead.get(path)
        if instead is not None:
            return instead() if callable(instead) else instead
        if path == "/api/v0/actors":
            return 200, body(ACTORS.get(query["filter_values"][0], "actors_none"))
        if path == "/api/train/v2/runs/v1":
            return 500, NO_TRAIN
        return (200, body(BODIES[path])) if path in BODIES else (404, b"404: Not Found")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    head: StandInHead

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        self.head.asked.append((parts.path, query))
        self.head.tokens.add(self.headers.get("Authorization"))
        status, content = self.head.reply(parts.path, query)
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if parts.path in self.head.trickle:
            while not self.head.leaving.is_set():
                self.wfile.write(b" ")
                time.sleep(0.02)
        self.wfile.write(content)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # its name in the standard library
        pass


@pytest.fixture
def head() -> Iterator[StandInHead]:
    standing = StandInHead()
    yield standing
    standing.leaving.set()
    standing.stop()

"""A stand-in for an MLflow server, in this process, whose faults can be ordered (tests/e2e/tracking has a real one)."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest


class StandIn:
    """Keeps experiments, runs and artifacts in memory. A fault applies to the next request."""

    def __init__(self) -> None:
        self.experiments: dict[str, dict[str, Any]] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.artifacts: dict[str, bytes] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.faults: deque[str] = deque()
        self.down = False
        self.artifact_root = "mlflow-artifacts:/"
        self.release = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Requests,), {"stand_in": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.port: int = self._server.server_address[1]

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next_fault(self) -> str:
        return self.faults.popleft() if self.faults else "down" if self.down else ""

    def only_run(self) -> dict[str, Any]:
        (run,) = self.runs.values()
        return run

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        with self._lock:
            parts = urlsplit(path)
            if method == "PUT":
                self.artifacts[unquote(parts.path.partition("/mlflow-artifacts/artifacts/")[2])] = body
                return 200, {}
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            data = json.loads(body) if body else query
            call = parts.path.partition("/api/2.0/mlflow/")[2]
            calls: dict[str, Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]] = {
                "experiments/search": lambda _: (200, {"experiments": []}),
                "experiments/get-by-name": self._get_experiment,
                "experiments/create": self._create_experiment,
                "experiments/restore": self._restore_experiment,
                "runs/create": self._create_run,
                "runs/search": self._search_runs,
                "runs/get": lambda data: self._with_run(data, lambda _run: None),
                "runs/update": lambda data: self._with_run(data, lambda run: run["info"].update(data)),
                "runs/log-batch": lambda data: self._with_run(data, lambda run: _log(run, data)),
            }
            return calls[call](data)

    def _get_experiment(self, data: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        found = self.experiments.get(data["experiment_name"])
        missing = 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such experiment"}
        return (200, {"experiment": found}) if found else missing

    def _create_experiment(self, data: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if data["name"] in self.experiments:
            return 400, {"error_code": "RESOURCE_ALREADY_EXISTS", "message": "there is one"}
        number = str(len(self.experiments) + 1)
        location = data.get("artifact_location", f"{self.artifact_root}{number}")
        self.experiments[data["name"]] = {
            "experiment_id": number,
            "name": data["name"],
            "artifact_location": location,
            "lifecycle_stage": "active",
        }
        return 200, {"experiment_id": number}

    def _restore_experiment(self, data: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        for experiment in self.experiments.values():
            if experiment["experiment_id"] == data["experiment_id"]:
                experiment["lifecycle_stage"] = "active"
        return 200, {}

    def _create_run(self, data: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        run_id = f"run{len(self.runs)}"
        location = next(
            e["artifact_location"] for e in self.experiments.values() if e["experiment_id"] == data["experiment_id"]
        )
        info = {
            "run_id": run_id,
            "run_name": data["run_name"],
            "experiment_id": data["experiment_id"],
            "status": "RUNNING",
            "artifact_uri": f"{location}/{run_id}/artifacts",
        }
        self.runs[run_id] = {"info": info, "data": {"tags": data["tags"], "params": [], "metrics": []}}
        return 200, {"run": self.runs[run_id]}

    def _search_runs(self, data: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        wanted = set(data["filter"].replace("tags.`", "").replace("`", "").split(" and "))
        found = [
            run
            for run in self.runs.values()
            if wanted <= {f"{tag['key']} = '{tag['value']}'" for tag in run["data"]["tags"]}
        ]
        return 200, {"runs": found[-1:]}

    def _with_run(self, data: dict[str, Any], act: Callable[[dict[str, Any]], None]) -> tuple[int, dict[str, Any]]:
        run = self.runs.get(data["run_id"])
        if run is None:
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"Run {data['run_id']} not found"}
        act(run)
        return 200, {"run": run}


class Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    stand_in: StandIn

    def do_GET(self) -> None:
        self._respond("GET")

    def do_POST(self) -> None:
        self._respond("POST")

    def do_PUT(self) -> None:
        self._respond("PUT")

    def log_message(self, *_: object) -> None: ...

    def _respond(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.stand_in.requests.append((f"{method} {self.path}", dict(self.headers)))
        fault = self.stand_in.next_fault()
        if fault == "hang":
            self.stand_in.release.wait()
        if fault in ("drop", "hang", "down"):
            self._drop()
        elif fault == "redirect":
            self._send(302, b"{}", ("Location", "https://elsewhere.example/"))
        elif fault == "page":
            self._send(200, b"<html>sign in</html>")
        elif fault.isdigit():
            self._send(int(fault), json.dumps({"message": "as ordered\nmore"}).encode())
        else:
            self._work(method, body, fault)

    def _work(self, method: str, body: bytes, fault: str) -> None:
        status, content = self.stand_in.answer(method, self.path, body)
        if fault == "drop after work":
            self._drop()
        elif fault == "drip":
            self._drip()
        else:
            self._send(status, json.dumps(content).encode())

    def _send(self, status: int, data: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _drip(self) -> None:
        """A byte now and then: each one renews a timeout that counts from the last byte."""
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not self.stand_in.release.wait(0.02):
                self.wfile.write(b" ")
                self.wfile.flush()
        except OSError:
            self.close_connection = True

    def _drop(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _log(run: dict[str, Any], data: dict[str, Any]) -> None:
    run["data"]["metrics"] += data.get("metrics", [])
    run["data"]["params"] += data.get("params", [])
    names = {tag["key"] for tag in data.get("tags", [])}
    run["data"]["tags"] = [t for t in run["data"]["tags"] if t["key"] not in names] + data.get("tags", [])


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    server = StandIn()
    yield server
    server.close()

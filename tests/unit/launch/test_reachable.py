from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from airlane.launch import reachable

# "ann:sesame", as HTTP's basic authentication has it.
SIGNED = "Basic YW5uOnNlc2FtZQ=="


class LoginOnly(BaseHTTPRequestHandler):
    """A stand-in for an MLflow server that one user may use."""

    def do_GET(self) -> None:
        code = 200 if self.headers.get("Authorization") == SIGNED else 401
        if self.path.startswith("/teapot"):
            code = 418
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def uri() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), LoginOnly)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def login(folder: Path, password: str) -> str:
    file = folder / "login.json"
    file.write_text(json.dumps({"MLFLOW_TRACKING_USERNAME": "ann", "MLFLOW_TRACKING_PASSWORD": password}))
    return str(file)


def test_a_server_that_takes_the_login_is_reached(uri: str, tmp_path: Path) -> None:
    assert reachable.obstacle(uri, login(tmp_path, "sesame")) is None


def test_a_refused_login_names_its_file(uri: str, tmp_path: Path) -> None:
    file = login(tmp_path, "guessed")
    assert reachable.obstacle(uri, file) == f"the login in {file} was refused"


def test_a_server_that_asks_for_a_login_is_reached_without_one(uri: str) -> None:
    assert reachable.obstacle(uri) is None


def test_something_else_at_the_address_is_not_taken_for_mlflow(uri: str) -> None:
    assert reachable.obstacle(f"{uri}/teapot") == "HTTP 418 from something that is no MLflow server"


def test_what_is_in_the_way_is_said(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    assert "refused" in str(reachable.obstacle(f"http://127.0.0.1:{port}"))
    assert "No such file" in str(reachable.obstacle(f"http://127.0.0.1:{port}", str(tmp_path / "none")))
    assert reachable.obstacle("http://no-such-host.invalid:1") is not None


def test_a_server_that_is_silent_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable, "TIMEOUT_S", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert reachable.obstacle(f"http://127.0.0.1:{silent.getsockname()[1]}") == "timed out"


def test_the_program_prints_one_line(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["reachable.py", uri, login(tmp_path, "sesame")])
    reachable.main()
    assert capsys.readouterr().out == "tracking=ok\n"

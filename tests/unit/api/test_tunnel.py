"""A port here that leads elsewhere: through a command, and through a real sshd on this machine."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest

from airlane.api import tunnel
from airlane.api.tunnel import RelayTunnel, SshTunnel, free_port, open_tunnel, ssh_argv
from airlane.launch import ray_reach
from real_sshd import real_sshd


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"{self.path} ".encode() * 1000
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class has it
        """Nothing on stderr."""


@pytest.fixture
def dashboard() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def page(port: int, path: str) -> bytes:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        content: bytes = answer.read()
        return content


def test_a_relay_carries_connections_side_by_side(dashboard: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(f'{{"dashboard": "{dashboard}"}}')
    port = free_port(0)
    relay = [sys.executable, "-I", "-S", str(ray_reach.__file__), "relay", str(tmp_path)]
    with closing(RelayTunnel(port, relay)) as opened:
        threading.Thread(target=opened.serve, daemon=True).start()
        with socket.create_connection(("127.0.0.1", port)):  # one that says nothing holds up no other
            assert page(port, "/one") == b"/one " * 1000
            assert page(port, "/two") == b"/two " * 1000


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A real sshd of this user; "there" leads to it for the ssh that a tunnel starts."""
    with real_sshd(tmp_path) as ssh_config:

        def with_config(*args: object, **options: object) -> list[str]:
            line = ssh_argv(*args, **options)  # type: ignore[arg-type]
            return [line[0], "-F", str(ssh_config), *line[1:]]

        monkeypatch.setattr(tunnel, "ssh_argv", with_config)
        yield "there"


@pytest.mark.root
def test_ssh_is_used_where_it_asks_for_nothing(sshd: str, dashboard: str) -> None:
    port = free_port(0)
    with closing(open_tunnel(port, host=sshd, dashboard=dashboard, relay=["false"])) as opened:
        assert isinstance(opened, SshTunnel)
        assert page(port, "/x") == b"/x " * 1000


@pytest.mark.root
def test_the_relay_is_used_where_ssh_leads_nowhere(sshd: str, dashboard: str, tmp_path: Path) -> None:
    assert sshd
    (tmp_path / "user.pub").write_text("")  # nobody may come in
    (tmp_path / "cluster.json").write_text(f'{{"dashboard": "{dashboard}"}}')
    relay = [sys.executable, "-I", "-S", str(ray_reach.__file__), "relay", str(tmp_path)]
    port = free_port(0)
    with closing(open_tunnel(port, host=sshd, dashboard=dashboard, relay=relay)) as opened:
        assert isinstance(opened, RelayTunnel)
        threading.Thread(target=opened.serve, daemon=True).start()
        assert page(port, "/y") == b"/y " * 1000


def test_a_port_that_is_taken_is_replaced_by_one_that_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        assert free_port(taken) not in (0, taken)

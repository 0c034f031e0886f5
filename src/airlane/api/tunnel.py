"""A port of this machine that leads to a cluster's dashboard on another: through ssh, or through the backend."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Sequence

from airlane.errors import BackendError

LOOPBACK = "127.0.0.1"
_SSH_PATIENCE_S = 15.0
_LOOK_EVERY_S = 0.1


def free_port(wanted: int) -> int:
    """The port, if it is free on the loopback address; else one that is."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    raise BackendError(f"no port is free on {LOOPBACK}", hint="end what holds them: ss -ltn")


def ssh_argv(port: int, host: str, dashboard: str) -> list[str]:
    """The command that makes `port` here lead to "address:port" as `host` sees it."""
    return ["ssh", "-N", "-o", "ExitOnForwardFailure=yes", "-L", f"{LOOPBACK}:{port}:{dashboard}", host]


class SshTunnel:
    """ssh, running, without asking for anything."""

    def __init__(self, port: int, host: str, dashboard: str) -> None:
        line = ssh_argv(port, host, dashboard)
        options = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=5")
        self._process = subprocess.Popen(
            [line[0], *options, *line[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._port = port

    def opens(self) -> bool:
        """Whether it leads somewhere; False once ssh has given up."""
        deadline = time.monotonic() + _SSH_PATIENCE_S
        while self._process.poll() is None and time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex((LOOPBACK, self._port)) == 0:
                    return True
            time.sleep(_LOOK_EVERY_S)
        return False

    def serve(self) -> None:
        """Wait for ssh to end."""
        self._process.wait()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


class RelayTunnel:
    """A listener whose connections are each handed to a command that carries them: `argv`, on stdin and stdout."""

    def __init__(self, port: int, argv: Sequence[str]) -> None:
        self._argv = list(argv)
        self._listener = socket.create_server((LOOPBACK, port), reuse_port=False)
        self._carriers: list[subprocess.Popen[bytes]] = []
        self._closed = False

    def serve(self) -> None:
        """Carry connections until interrupted, or closed."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                raise
            with connection:
                carried = connection.fileno()
                carrier = subprocess.Popen(
                    self._argv, stdin=carried, stdout=carried, stderr=subprocess.DEVNULL, start_new_session=True
                )
            self._carriers = [*(one for one in self._carriers if one.poll() is None), carrier]

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):  # closing alone would leave who waits in accept() waiting
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for carrier in self._carriers:
            carrier.terminate()
        for carrier in self._carriers:
            carrier.wait()


def open_tunnel(port: int, *, host: str, dashboard: str, relay: Sequence[str]) -> SshTunnel | RelayTunnel:
    """A tunnel by ssh where that asks for no password, else by `relay`. Raises BackendError."""
    try:
        tunnel = SshTunnel(port, host, dashboard)
    except OSError:  # no ssh here
        return RelayTunnel(port, relay)
    try:
        if tunnel.opens():
            return tunnel
    except BaseException:
        tunnel.close()
        raise
    tunnel.close()
    return RelayTunnel(port, relay)

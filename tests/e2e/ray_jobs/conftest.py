"""`air ray job` against a real Ray cluster that Airlane did not start."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ray_lab import RayLab

AIR = Path(sys.executable).with_name("air")
_LEFT_OUT = ("AIR_", "MLFLOW_", "RAY_")


@dataclass(frozen=True)
class Desk:
    """Where somebody types: a home and configuration of their own, and the variables that name the cluster."""

    folder: Path
    variables: dict[str, str]

    @property
    def env(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(_LEFT_OUT)}
        return {**kept, "AIR_HOME": str(self.folder / "home"), "AIR_CONFIG": str(self.config), **self.variables}

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    def air(self, *words: str, timeout_s: float = 120, **options: Any) -> subprocess.CompletedProcess[str]:
        line = [str(AIR), *words]
        return subprocess.run(
            line, check=False, env=self.env, capture_output=True, text=True, timeout=timeout_s, **options
        )

    def submit(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.air("ray", "job", "submit", *words, **options)

    def data(self, *words: str) -> dict[str, Any]:
        """What a command says with --json."""
        done = self.air(*words, "--json")
        content = json.loads(done.stdout.splitlines()[-1])
        assert "data" in content, content
        found: dict[str, Any] = content["data"]
        return found

    def status(self, name: str) -> dict[str, Any]:
        return self.data("ray", "job", "status", name)

    def started(self, *words: str) -> str:
        """The id of a job that is not waited for."""
        done = self.submit("--no-wait", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def typed(self, *words: str) -> Typed:
        """A command that goes on while the test does something else."""
        return Typed(subprocess.Popen([str(AIR), *words], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def with_variables(self, **variables: str) -> Desk:
        return Desk(self.folder, {**self.variables, **variables})


@dataclass
class Typed:
    """A command that runs, and what it has written so far."""

    process: subprocess.Popen[bytes]
    out: bytes = b""

    def until(self, text: bytes, *, within_s: float = 60) -> None:
        """Wait until the text is on stdout."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + within_s
        while text not in self.out:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"not within {within_s:g} s: {text!r} in {self.out!r}"
            block = os.read(self.process.stdout.fileno(), 1 << 16)
            assert block, f"it ended before {text!r}: {self.out!r}"
            self.out += block

    def ended(self, *, timeout_s: float = 60) -> tuple[int, bytes, str]:
        """The exit code, stdout and stderr."""
        out, err = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, self.out + out, err.decode()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)


@pytest.fixture
def desk(ray_lab: RayLab, tmp_path: Path) -> Desk:
    """With the cluster's address and token in Ray's own variables."""
    made = Desk(
        tmp_path,
        {"RAY_API_SERVER_ADDRESS": ray_lab.url, "RAY_AUTH_TOKEN_PATH": str(ray_lab.token_file), "HOME": str(tmp_path)},
    )
    made.config.write_text("")
    return made


@dataclass
class Wire:
    """A way to a dashboard that can be cut, and closed for a while."""

    target: tuple[str, int]
    port: int = 0
    _listener: socket.socket | None = None
    _ends: list[socket.socket] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Nobody listens any more, and what was connected is cut."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        self.cut()

    def cut(self) -> None:
        """End every connection that there is."""
        ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self.target)
                self._ends += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_carry, args=(one, other), daemon=True).start()


def _carry(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while block := one.recv(1 << 16):
            other.sendall(block)
        other.shutdown(socket.SHUT_WR)


@pytest.fixture
def wire(ray_lab: RayLab) -> Iterator[Wire]:
    host, _, port = ray_lab.url.removeprefix("http://").rpartition(":")
    made = Wire((host, int(port)))
    made.open()
    yield made
    made.close()


def wait_until(true: Callable[[], bool], *, within_s: float, what: str) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.05)

"""Real agents: as root in a PID namespace, as root without one, and as an ordinary user."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airlane import launch
from airlane.launch.order import Order

NOBODY = 65534
PATIENCE_S = 20.0
PACKAGE = Path(launch.__file__).parent


def wait_until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:.0f} s for {what}"
        time.sleep(0.01)


@dataclass
class RunningAgent:
    """An agent that carries out an order in `folder`."""

    order: Order
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        path = Path(self.order.log_file)
        return path.read_bytes().decode(errors="replace") if path.exists() else ""

    @property
    def record(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(Path(self.order.record_file).read_text())
        return value

    def said(self, text: str) -> None:
        wait_until(lambda: text in self.log, f"{text!r} in the log")

    def ask(self, request: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{request}\n".encode())
        self.process.stdin.flush()

    def end(self) -> dict[str, Any]:
        """The final record of an agent that ends well."""
        assert self.process.wait(PATIENCE_S) == 0
        assert self.record["ended_at"] is not None
        return self.record


@dataclass
class AgentHost:
    """Starts agents under one user with one containment."""

    folder: Path
    containment: str
    user: int
    python: str = sys.executable

    def __post_init__(self) -> None:
        self.run_id = uuid.uuid4().hex[:10]
        self.started: list[RunningAgent] = []
        # A copy: another user may not see our checkout, and the package need not be installed where an agent runs.
        shutil.copytree(PACKAGE, self.folder / "lib/airlane/launch", ignore=shutil.ignore_patterns("__pycache__"))
        (self.folder / "lib/airlane/__init__.py").touch()
        self.work = self.folder / 'it\'s a "work"\nfolder – ü'
        self.work.mkdir()
        # What commands start and leave: it says that it is up, and its arguments name the run.
        self.seconds = f"600.{int(self.run_id, 16)}"
        sleeper = self.work / "sleeper"
        sleeper.write_text(f"#!/bin/sh\ntouch up\nexec sleep {self.seconds}\n")
        sleeper.chmod(0o755)

    @property
    def wrapper(self) -> list[str]:
        if self.user == os.geteuid():
            return []
        return ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]

    @property
    def agent_line(self) -> list[str]:
        return [*self.wrapper, self.python, "-I", "-S", str(self.folder / "lib/airlane/launch/__main__.py")]

    def order(self, command: str, **changes: Any) -> Order:
        path = self.work / "command file.sh"
        path.write_text(command)
        order = Order(
            run_id=self.run_id,
            attempt=0,
            node_rank=0,
            command_file=str(path),
            working_folder=str(self.work),
            log_file=str(self.folder / "0.log"),
            record_file=str(self.folder / "0.json"),
            env={"AIR_RUN_ID": self.run_id, "AIR_ATTEMPT": "0"},
            containment=self.containment,
        )
        return replace(order, **changes)

    def secrets(self, values: dict[str, str]) -> str:
        path = self.folder / "secrets.json"
        path.write_text(json.dumps(values))
        path.chmod(0o600)
        return str(path)

    def start(self, command: str, *, popen: dict[str, Any] | None = None, **changes: Any) -> RunningAgent:
        order = self.order(command, **changes)
        order_file = self.folder / "order.json"
        order_file.write_text(order.to_json())
        self.hand_over()
        arguments: dict[str, Any] = {"stdin": subprocess.PIPE, **(popen or {})}
        process = subprocess.Popen([*self.agent_line, str(order_file)], **arguments)
        agent = RunningAgent(order, process)
        self.started.append(agent)
        return agent

    def run(self, command: str, **changes: Any) -> RunningAgent:
        """Start an agent and wait for its good end."""
        agent = self.start(command, **changes)
        agent.end()
        return agent

    def left_over(self) -> list[str]:
        """The command lines of this run's sleepers that live."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if self.seconds in line:
                found.append(line)
        return found

    def hand_over(self) -> None:
        """Give the folder, as it is now, to the user."""
        if self.user != os.geteuid():
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, self.user, self.user, follow_symlinks=False)

    def close(self) -> None:
        for agent in self.started:
            if agent.process.poll() is None:
                agent.process.kill()
            agent.process.wait()
            if agent.process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    agent.process.stdin.close()


def _host(kind: str) -> Iterator[AgentHost]:
    root = os.geteuid() == 0
    if sys.platform != "linux":
        pytest.skip("containment by the kernel is Linux's")
    if kind == "root in a PID namespace" and not root:
        pytest.skip("needs root: a PID namespace")
    if kind == "root without a PID namespace" and not root:
        pytest.skip("needs root")
    folder = Path(tempfile.mkdtemp(prefix="air agent's "))
    user = NOBODY if root and kind == "an ordinary user" else os.geteuid()
    host = AgentHost(folder, "pid_namespace" if "in a PID" in kind else "subreaper", user)
    host.python = _python_for(host)
    try:
        yield host
    finally:
        host.close()
        shutil.rmtree(folder, ignore_errors=True)


def _python_for(host: AgentHost) -> str:
    for python in (os.path.realpath(sys.executable), shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        if python:
            tried = subprocess.run([*host.wrapper, python, "-I", "-S", "-c", ""], capture_output=True, check=False)
            if tried.returncode == 0:
                return python
    pytest.skip(f"no Python that user {host.user} may run")


@pytest.fixture(params=["root in a PID namespace", "root without a PID namespace", "an ordinary user"])
def host(request: pytest.FixtureRequest) -> Iterator[AgentHost]:
    yield from _host(request.param)


@pytest.fixture
def namespace_host() -> Iterator[AgentHost]:
    yield from _host("root in a PID namespace")


@pytest.fixture
def user_host() -> Iterator[AgentHost]:
    yield from _host("an ordinary user")

"""A Ray cluster of several nodes on this machine that Airlane did not start: plain `ray start`, logical CPUs and GPUs.

Every process of it carries a variable, so that closing it ends these and no other, whoever forked them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from airlane.launch.processes import all_pids, environment_text, kill_all, lives, start_ticks
from airlane.launch.ray_ports import PortBlock, take_block
from airlane.launch.ray_rest import RestError, node_rows

if TYPE_CHECKING:
    from airlane.launch.processes import Identity

_MARK = "AIR_TEST_RAY_LAB"
_LOOPBACK = "127.0.0.1"
_NOT_INHERITED = ("AIR_", "MLFLOW_", "RAY_", "CUDA_", "SLURM_")
_OBJECT_STORE_BYTES = 100 << 20
_READY_S = 300.0
# `ray start` gives a node 30 s to register, and the head as long to answer, whatever else the machine does; then it
# fails with these words.
_TOO_SLOW = ("timed out during startup", "No node info found for head node in GCS")
_MOST_STARTS = 3
_GONE_S = 10.0
_MOST_RESTARTS = 4
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True)
class _Node:
    """One node: the process that was started, and the ports that are its alone."""

    start: subprocess.Popen[bytes]
    ports: PortBlock
    starts: int = 1


class RayLab:
    """A head (node 0) and `nodes` - 1 workers, ready when this is made.

    `folder` takes the token and what `ray start` says. With `dead_after_s`, a node that is killed or silent is dead to
    the head after about so long; otherwise after as long as Ray takes by itself (14 s and more than a minute).
    """

    def __init__(
        self,
        folder: Path,
        python: Path,
        *,
        nodes: int = 3,
        cpus: int = 2,
        gpus: int = 2,
        token: bool = True,
        dead_after_s: float | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._python = python
        self._cpus, self._gpus = cpus, gpus
        self._id = secrets.token_hex(3)
        self._temp = Path(f"/tmp/rl-{self._id}")  # short: a socket's path below it ends at 107 bytes
        self.token_file = self._make_token() if token else None
        self._settings = {**_health_check(dead_after_s), **(settings or {})}
        self._nodes: list[_Node] = []
        self._restarts = 0
        self._temp.mkdir(mode=0o700)
        try:
            for _ in range(nodes):
                self._add()
            self._wait_for(range(nodes))
        except BaseException:
            self.close()
            raise

    @property
    def sessions(self) -> Path:
        """The folder below which every node keeps Ray's session."""
        return self._temp

    @property
    def nodes(self) -> int:
        """How many nodes were started, dead ones included."""
        return len(self._nodes)

    @property
    def address(self) -> str:
        """The head's GCS, "host:port"."""
        return f"{_address(0)}:{self._nodes[0].ports.gcs}"

    @property
    def client_address(self) -> str:
        return f"ray://{_address(0)}:{self._nodes[0].ports.client}"

    @property
    def url(self) -> str:
        """The head's dashboard, which is also where jobs go."""
        return f"http://{self._dashboard}"

    @property
    def token(self) -> str:
        """Empty without authentication."""
        return self.token_file.read_text() if self.token_file else ""

    @property
    def env(self) -> dict[str, str]:
        """The variables with which a program finds the cluster."""
        return {"RAY_ADDRESS": self.address, "RAY_API_SERVER_ADDRESS": self.url, **self._authentication}

    def add_node(self) -> int:
        """Start another worker; returns its number once it has registered."""
        node = self._add()
        self._wait_for([node])
        return node

    def node_id(self, node: int) -> str:
        """As Ray has it."""
        return str(self._row(node)["node_id"])

    def state(self, node: int) -> str:
        """What the head thinks of a node: ALIVE or DEAD."""
        return str(self._row(node)["state"])

    def wait_until_dead(self, node: int, *, within_s: float) -> None:
        _wait_until(lambda: self.state(node) == "DEAD", within_s=within_s, what=f"node {node} is dead to the head")

    def raylet_pid(self, node: int) -> int:
        """Raises AssertionError where it is not alive."""
        found = [pid for pid, _ in self._processes(node) if _program(pid).endswith(b"/raylet/raylet")]
        assert len(found) == 1, f"raylets of node {node}: {found}"
        return found[0]

    def kill_raylet(self, node: int) -> None:
        """Nothing else of the node is killed; Ray itself ends the rest."""
        os.kill(self.raylet_pid(node), signal.SIGKILL)

    def kill_node(self, node: int) -> None:
        """Everything on the node at once, as when a machine loses power."""
        kill_all(lambda: self._processes(node))

    def hang_raylet(self, node: int) -> None:
        os.kill(self.raylet_pid(node), signal.SIGSTOP)

    def wake_raylet(self, node: int) -> None:
        os.kill(self.raylet_pid(node), signal.SIGCONT)

    def hang_node(self, node: int) -> None:
        """Everything on the node at once, as when a machine freezes. The agent of a raylet that hangs alone goes on."""
        for pid, _ in self._processes(node):
            os.kill(pid, signal.SIGSTOP)

    def wake_node(self, node: int) -> None:
        for pid, _ in self._processes(node):
            os.kill(pid, signal.SIGCONT)

    def pids(self) -> list[int]:
        """Everything alive that the cluster, or what runs on it, has started."""
        return [pid for pid, _ in self._processes()]

    def close(self) -> None:
        """End all of it, and leave nothing. Harmless twice."""
        deadline = time.monotonic() + _GONE_S
        while kill_all(self._processes) or self._processes():
            assert time.monotonic() < deadline, f"not ended: {self._processes()}"
        for node in self._nodes:
            node.start.wait()
            node.ports.give_back()
        shutil.rmtree(self._temp, ignore_errors=True)
        assert not self._temp.exists()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make_token(self) -> Path:
        file = self._folder / "token"
        file.touch(mode=0o600)
        file.write_text(secrets.token_hex(32))
        return file

    @property
    def _dashboard(self) -> str:
        return f"{_LOOPBACK}:{self._nodes[0].ports.dashboard}"

    @property
    def _authentication(self) -> dict[str, str]:
        if self.token_file is None:
            return {"RAY_AUTH_MODE": "disabled"}
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token_file)}

    def _add(self) -> int:
        """Workers need not wait for the head: they try until it answers."""
        node, ports = len(self._nodes), take_block()
        self._nodes.append(_Node(self._start(node, ports), ports))
        return node

    def _start(self, node: int, ports: PortBlock) -> subprocess.Popen[bytes]:
        line = [str(self._python.with_name("ray")), "start", *self._arguments(node, ports)]
        with self._log(node).open("wb") as log:
            return subprocess.Popen(
                line,
                cwd=self._temp,
                env=self._environment(node, ports),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _log(self, node: int) -> Path:
        return self._folder / f"start-{node}.log"

    def _arguments(self, node: int, ports: PortBlock) -> list[str]:
        options: dict[str, object] = {
            "node-ip-address": _address(node),
            "node-name": f"lab-{node}",
            "num-cpus": self._cpus,
            "num-gpus": self._gpus,
            "temp-dir": self._temp / str(node),
            "object-store-memory": _OBJECT_STORE_BYTES,
            "node-manager-port": ports.node_manager,
            "object-manager-port": ports.object_manager,
            "dashboard-agent-listen-port": ports.agent_http,
            "dashboard-agent-grpc-port": ports.agent_grpc,
            "runtime-env-agent-port": ports.runtime_env_agent,
            "metrics-export-port": ports.metrics,
            "min-worker-port": 0,
            "max-worker-port": 0,
        }
        if node == 0:
            options |= {
                "port": ports.gcs,
                "include-dashboard": "true",
                "dashboard-host": _LOOPBACK,
                "dashboard-port": ports.dashboard,
                "ray-client-server-port": ports.client,
            }
        else:
            options["address"] = self.address
        flags = ["--block", "--disable-usage-stats", *(["--head"] if node == 0 else [])]
        return [*flags, *(f"--{name}={value}" for name, value in options.items())]

    def _environment(self, node: int, ports: PortBlock) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
        return {
            **kept,
            **self._settings,
            **self._authentication,
            "PATH": f"{self._python.parent}{os.pathsep}{os.environ['PATH']}",
            "RAY_USAGE_STATS_ENABLED": "0",
            "AUTOSCALER_METRIC_PORT": str(ports.autoscaler_metrics),
            "DASHBOARD_METRIC_PORT": str(ports.dashboard_metrics),
            "SPT_NOENV": "1",  # processes that rename themselves keep the environment they are known by
            _MARK: f"{self._id}/{node}",
        }

    def _processes(self, node: int | None = None) -> list[Identity]:
        """Those of one node, or all, by what their environment says."""
        marks = {f"{_MARK}={self._id}/{n}".encode() for n in (range(self.nodes + 1) if node is None else [node])}
        found = ((pid, start_ticks(pid)) for pid in all_pids() if marks & set(environment_text(pid).split(b"\0")))
        return [(pid, ticks) for pid, ticks in found if ticks is not None and lives(pid)]

    def _rows(self) -> dict[str, dict[str, Any]]:
        return {row["node_name"]: row for row in node_rows(self._dashboard, self.token)}

    def _row(self, node: int) -> dict[str, Any]:
        return self._rows()[f"lab-{node}"]

    def _wait_for(self, nodes: range | list[int]) -> None:
        _wait_until(lambda: self._registered(nodes), within_s=_READY_S, what=f"nodes {list(nodes)} have registered")

    def _registered(self, nodes: range | list[int]) -> bool:
        for node in nodes:
            if self._nodes[node].start.poll() is not None:
                self._start_again(node)
        try:
            rows = self._rows()
        except RestError:
            return False
        return all(rows.get(f"lab-{node}", {}).get("state") == "ALIVE" for node in nodes)

    def _start_again(self, node: int) -> None:
        """Where the machine was too busy. Raises AssertionError for any other reason."""
        was, said = self._nodes[node], self._log(node).read_text(errors="replace")
        assert any(words in said for words in _TOO_SLOW), f"`ray start` of node {node} has ended:\n{said}"
        assert was.starts < _MOST_STARTS, f"{_MOST_STARTS} times the machine was too busy for node {node}"
        self.kill_node(node)
        shutil.rmtree(self._temp / str(node), ignore_errors=True)
        self._nodes[node] = _Node(self._start(node, was.ports), was.ports, was.starts + 1)


def _address(node: int) -> str:
    """Nodes of one machine are told apart by their address, and Ray replaces 127.0.0.1."""
    return f"127.0.0.{2 + node}"


def _health_check(dead_after_s: float | None) -> dict[str, str]:
    if dead_after_s is None:
        return {}
    tries = 4
    every_ms = str(int(dead_after_s * 1000 / tries))
    return {
        "RAY_health_check_initial_delay_ms": "0",
        "RAY_health_check_period_ms": every_ms,
        "RAY_health_check_timeout_ms": every_ms,
        "RAY_health_check_failure_threshold": str(tries),
    }


def _program(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return b""


def _wait_until(true: Callable[[], bool], *, within_s: float, what: str) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(_LOOK_EVERY_S)

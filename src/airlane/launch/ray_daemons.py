"""Ray's own processes on one node: how they are started, whether they live, and what they said."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time

from airlane.launch.cores import granted_cores
from airlane.launch.processes import STOPS_LAST, kill_all, start_ticks, started_with
from airlane.launch.ray_ports import PortBlock, take_block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airlane.launch.processes import Identity
    from airlane.launch.ray_settings import RaySettings

LOOPBACK = "127.0.0.1"
# What an outer cluster may have left in the environment: RAY_AUTH_TOKEN would win over our token's file.
_NOT_INHERITED = (
    "RAY_ADDRESS",
    "RAY_API_SERVER_ADDRESS",
    "RAY_AUTH_TOKEN",
    "RAY_CLIENT_MODE",
    "RAY_JOB_CONFIG_JSON_ENV_VAR",
    "RAY_NAMESPACE",
)
_MOST_STARTS = 3
# Source: Ray 2.60, _private/node.py.
_TOO_SLOW = ("timed out during startup", "No node info found for head node")
_LOOK_EVERY_S = 0.5
_TAIL_BYTES = 8192
_TAIL_LINES = 12
_SHOWN_LINES = 6  # as many as logs/rules.py takes
_PROBE_S = 2.0
# "[2026-11-30 20:10:28,770 E 20 20] (raylet) ...": an error, a failed check or a crash.
_ERROR_LINE = re.compile(r"\[[^\]]* [CEF] \d+ \d+\]")


class RayFailedError(Exception):
    """The cluster cannot start, or has ended before its time; the text says which part, and where."""


class Daemons:
    """The Ray processes of this node; `stopped` says whether it was asked to stop.

    `address` is the node's own, never 127.0.0.1, which Ray replaces by another.
    """

    def __init__(self, settings: RaySettings, node: int, stopped: Callable[[], bool]) -> None:
        self._stopped = stopped
        self._settings = settings
        self._node = node
        self.address = settings.addresses[node]
        if self.address == LOOPBACK and sys.platform == "linux":
            # Every node on one host is told apart by its address, and none is seen from outside.
            self.address = primary_address() if settings.public else f"127.0.0.{2 + node}"
        self.temp_folder = os.environ["RAY_TMPDIR"]
        self.ports: PortBlock | None = None
        self._starts = 0

    def start(self, head: str | None, deadline: float) -> PortBlock:
        """Start a head, or a worker of the head at "host:port"; returns the ports taken. Raises RayFailedError."""
        ray = shutil.which("ray")
        if ray is None:
            raise RayFailedError(
                "there is no `ray` in the environment: use environment.version AI5, or an image with Ray"
            )
        while True:
            ports = self.ports = take_block()
            self._starts += 1
            if self._run_start([ray, "start", *self._arguments(ports, head)], ports, deadline):
                return ports
            self.end()  # it holds the temporary folder, and ports
            again = not ports.is_free() or self._was_slow()
            ports.give_back()
            if not again or self._starts == _MOST_STARTS or self._stopped() or time.monotonic() > deadline:
                said = "".join(f"\n  {line}" for line in tail(self._settings.start_log(self._node))[-_SHOWN_LINES:])
                where = self._settings.node_in_words(self._node)
                raise RayFailedError(f"`ray start` failed on {where}{said}")

    def _was_slow(self) -> bool:
        """Whether Ray gave up on itself: 30 s are all that it takes, on a busy machine or a cold disk too few."""
        said = tail(self._settings.start_log(self._node))
        return any(words in line for line in said for words in _TOO_SLOW)

    def _run_start(self, line: list[str], ports: PortBlock, deadline: float) -> bool:
        environment = {
            **base_environment(self._settings, os.environ),
            STOPS_LAST: self.temp_folder,
            "AUTOSCALER_METRIC_PORT": str(ports.autoscaler_metrics),
            "DASHBOARD_METRIC_PORT": str(ports.dashboard_metrics),
        }
        with open(self._settings.start_log(self._node), "ab") as log:
            started = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )
            while time.monotonic() < deadline and not self._stopped():
                try:
                    return started.wait(_LOOK_EVERY_S) == 0
                except subprocess.TimeoutExpired:
                    continue
            started.kill()
            started.wait()
            return False

    def _arguments(self, ports: PortBlock, head: str | None) -> list[str]:
        settings = self._settings
        cpus = settings.cpus_per_node
        if cpus is None:
            cpus = max(1, granted_cores(os.environ) // settings.hosts.count(settings.hosts[self._node]))
        options = {
            "node-ip-address": self.address,
            "node-name": node_name(self._node),
            "num-cpus": cpus,
            "num-gpus": min(settings.gpus_per_node, len(visible_gpus())),
            "temp-dir": self.temp_folder,
            "node-manager-port": ports.node_manager,
            "object-manager-port": ports.object_manager,
            "dashboard-agent-listen-port": ports.agent_http,
            "dashboard-agent-grpc-port": ports.agent_grpc,
            "runtime-env-agent-port": ports.runtime_env_agent,
            "metrics-export-port": ports.metrics,
            # Each worker takes a port that the kernel finds free: no range to meet in, however many there are.
            "min-worker-port": 0,
            "max-worker-port": 0,
            "log-color": "false",
        }
        if settings.object_store_bytes is not None:
            options["object-store-memory"] = settings.object_store_bytes
        if head is not None:
            options["address"] = head
        else:
            options.update(
                {
                    "port": ports.gcs,
                    "include-dashboard": "true",
                    "dashboard-host": "0.0.0.0" if settings.public else LOOPBACK,  # noqa: S104 - the user's choice
                    "dashboard-port": ports.dashboard,
                    "ray-client-server-port": ports.client,
                }
            )
        first = ["--head"] if head is None else []
        return [*first, "--disable-usage-stats", *(f"--{name}={value}" for name, value in options.items())]

    def end(self) -> None:
        """End Ray's processes of this node, and no other's, at once: nothing is left to be saved."""

        def ours() -> list[Identity]:
            found = ((pid, start_ticks(pid)) for pid in started_with(f"{STOPS_LAST}={self.temp_folder}"))
            return [(pid, ticks) for pid, ticks in found if ticks is not None and pid != os.getpid()]

        if sys.platform == "linux":
            kill_all(ours)

    def raylet_lives(self) -> bool:
        return self.ports is None or answers(self.address, self.ports.node_manager) is not False

    def last_words(self, process: str) -> list[str]:
        """The errors at the end of what one of Ray's processes wrote on this node, statistics left out."""
        logs = os.path.join(self.temp_folder, "session_latest", "logs")
        said = tail(os.path.join(logs, f"{process}.err"))
        said += [line for line in tail(os.path.join(logs, f"{process}.out")) if _ERROR_LINE.match(line)]
        return said[-_TAIL_LINES:]


def base_environment(settings: RaySettings, environ: Mapping[str, str]) -> dict[str, str]:
    """What Ray's processes and the command find: our token, no statistics, every line of every worker."""
    kept = {name: value for name, value in environ.items() if name not in _NOT_INHERITED}
    return {
        "RAY_DEDUP_LOGS": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        **kept,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": settings.token_file,
    }


def node_name(node: int) -> str:
    """How a node of the run is called in Ray."""
    return f"node-{node}"


def visible_gpus() -> list[str]:
    return [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]


def primary_address() -> str:
    """The address by which this machine reaches others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # reserved for documentation: RFC 5737
        except OSError:
            return LOOPBACK
        address: str = probe.getsockname()[0]
        return address


def answers(address: str, port: int) -> bool | None:
    """Whether somebody listens there: False when the host says no, None when it says nothing."""
    try:
        socket.create_connection((address, port), _PROBE_S).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        return None
    return True


def tail(path: str) -> list[str]:
    """The last lines of a file that say something."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-_TAIL_LINES:]

"""One node of a run with `ray:`: `python -I -S .../ray_node.py SETTINGS`, by the Python of the environment or image.

Node 0 starts the head, waits until every node and accelerator has registered, and runs the command; the others join and
stay until it is done. Nothing here ends Ray's processes: the agent ends whatever this leaves, and no other.
Exit codes: the command's on node 0; 0 on the others once it has succeeded; 1 when the cluster fails.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from airlane.launch.command import STRICT_BASH
from airlane.launch.processes import started_with, stops_last
from airlane.launch.ray_cluster_file import ENDED, READY, ClusterFile, read_cluster
from airlane.launch.ray_daemons import LOOPBACK, Daemons, RayFailedError, answers, base_environment, node_name, tail
from airlane.launch.ray_rest import RestError, node_rows, read_token
from airlane.launch.ray_settings import RaySettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOOK_EVERY_S = 0.5
_SIGNALLED = 128
# The head's last word may reach a worker, through a network file system, later than the end of its connection.
_WORD_PATIENCE_S = 10.0
_SILENCE_S = 30.0


class StoppedError(Exception):
    """The node was asked to stop before the cluster was ready."""


class Member:
    """One node. Asked to stop, it stays for as long as the command on node 0 goes on: that may need Ray to save."""

    def __init__(self, settings: RaySettings, node: int) -> None:
        self._settings = settings
        self._node = node
        self.stopping = False
        signal.signal(signal.SIGTERM, self._asked_to_stop)
        self._daemons = Daemons(settings, node, lambda: self.stopping)

    def _asked_to_stop(self, *_: object) -> None:
        self.stopping = True

    def run(self) -> int:
        """Returns the exit code. Raises RayFailedError or StoppedError."""
        raise NotImplementedError

    def end(self) -> None:
        """Leave nothing that the agent would have to wait for."""
        if self.stopping:
            self._daemons.end()

    def _pause(self) -> None:
        """Wait a moment, before the cluster is ready. Raises StoppedError."""
        if self.stopping:
            raise StoppedError
        time.sleep(_LOOK_EVERY_S)


class Head(Member):
    """Node 0."""

    def __init__(self, settings: RaySettings) -> None:
        super().__init__(settings, 0)
        self._cluster = ClusterFile(settings.cluster_file)
        self._dashboard = ""
        self._address = ""

    def run(self) -> int:
        deadline = time.monotonic() + self._settings.ready_timeout_s
        ports = self._daemons.start(None, deadline)
        address = self._daemons.address
        self._address, self._dashboard = f"{address}:{ports.gcs}", f"{LOOPBACK}:{ports.dashboard}"
        self._cluster.update(
            address=self._address,
            client=f"{address}:{ports.client}",
            dashboard=f"{address if self._settings.public else LOOPBACK}:{ports.dashboard}",
            host=self._settings.hosts[0],
            nodes=[],
        )
        nodes = self._wait_for_nodes(deadline)
        self._cluster.update(phase=READY, ready_at=time.time())
        say(f"Ray cluster ready at {self._address}: {totals(nodes)}")
        code = self._run_command()
        if self.stopping:
            self._wait_for_the_rest()
        if code == 0 or self.stopping:
            self._cluster.update(phase=ENDED)
        return code

    def _wait_for_nodes(self, deadline: float) -> list[dict[str, Any]]:
        """Wait until every node has registered with its accelerators. Raises RayFailedError, naming those missing."""
        token = read_token(self._settings.token_file)
        nodes: list[dict[str, Any]] = []
        while True:
            try:
                found = self._registered(token)
            except RestError as error:  # the dashboard needs a moment more than the rest
                trouble = str(error)
            else:
                trouble = self._missing(found)
                if found != nodes:
                    nodes = found
                    self._cluster.update(nodes=nodes)
                if not trouble:
                    return nodes
            self._check_daemons()
            if time.monotonic() > deadline:
                raise RayFailedError(f"not ready within {self._settings.ready_timeout_s:g} s: {trouble}")
            self._pause()

    def _registered(self, token: str) -> list[dict[str, Any]]:
        rows = {row["node_name"]: row for row in node_rows(self._dashboard, token) if row["state"] == "ALIVE"}
        found = []
        for node, host in enumerate(self._settings.hosts):
            row = rows.get(node_name(node))
            if row is not None:
                has = row["resources_total"]
                found.append(
                    {
                        "node": node,
                        "host": host,
                        "address": row["node_ip"],
                        "node_id": row["node_id"],
                        "cpus": int(has.get("CPU", 0)),
                        "gpus": int(has.get("GPU", 0)),
                    }
                )
        return found

    def _missing(self, found: list[dict[str, Any]]) -> str:
        """Which nodes and accelerators are not there, in words; empty when all are."""
        settings = self._settings
        there = {node["node"] for node in found}
        absent = [node for node in range(settings.nodes) if node not in there]
        lacking = [node for node in found if node["gpus"] < settings.gpus_per_node]
        words = [
            f"{settings.node_in_words(node['node'])} has {node['gpus']} of {settings.gpus_per_node} GPUs"
            for node in lacking
        ]
        for node in absent:
            said = "; ".join(tail(settings.start_log(node))[-3:]) or "it has not begun to start Ray"
            words.append(f"{settings.node_in_words(node)} has not joined ({said})")
        return ", ".join(words)

    def _check_daemons(self) -> None:
        """Raises RayFailedError when one of the processes that hold the cluster together has ended."""
        where = self._settings.node_in_words(0)
        host, _, port = self._address.rpartition(":")
        for process, alive in (("gcs_server", answers(host, int(port))), ("raylet", self._daemons.raylet_lives())):
            if alive is False:
                said = "".join(f"\n  {line}" for line in self._daemons.last_words(process))
                raise RayFailedError(f"the head's {process} on {where} has ended{said}")

    def _run_command(self) -> int:
        environment = {
            **base_environment(self._settings, os.environ),
            "RAY_ADDRESS": self._address,
            "RAY_API_SERVER_ADDRESS": f"http://{self._dashboard}",
        }
        command = subprocess.Popen([*STRICT_BASH, self._settings.command_file], env=environment)
        while True:
            try:
                code = command.wait(_LOOK_EVERY_S)
            except subprocess.TimeoutExpired:
                if not self.stopping:
                    self._check_daemons()
            else:
                return code if code >= 0 else _SIGNALLED - code

    def _wait_for_the_rest(self) -> None:
        """Bash ends at once when it is asked to; what it has started may use Ray to save, until the agent ends it."""
        words = f"RAY_ADDRESS={self._address}", f"AIR_RUN_ID={os.environ['AIR_RUN_ID']}"  # and no driver of others
        while sys.platform == "linux" and any(not stops_last(pid) for pid in started_with(*words)):
            time.sleep(_LOOK_EVERY_S)


class Worker(Member):
    """Any other node: it joins, and stays until the head says that all is done."""

    def __init__(self, settings: RaySettings, node: int) -> None:
        super().__init__(settings, node)
        self._heard_at = time.monotonic()

    def run(self) -> int:
        deadline = time.monotonic() + self._settings.ready_timeout_s
        head = self._wait_for_head(deadline)
        self._daemons.start(head, deadline)
        say(f"joined the Ray cluster at {head}")
        host, _, port = head.rpartition(":")
        while not self._ended():
            if not self._head_is_there(host, int(port)):
                self._expect_the_end()
                return 0
            if not self._daemons.raylet_lives():
                said = "".join(f"\n  {line}" for line in self._daemons.last_words("raylet"))
                raise RayFailedError(f"the raylet on {self._settings.node_in_words(self._node)} has ended{said}")
            time.sleep(_LOOK_EVERY_S)
        return 0

    def _wait_for_head(self, deadline: float) -> str:
        while True:
            cluster = read_cluster(self._settings.cluster_file)
            if cluster and cluster.get("address"):
                return str(cluster["address"])
            if time.monotonic() > deadline:
                waited = f"{self._settings.ready_timeout_s:g} s"
                raise RayFailedError(f"no head on {self._settings.node_in_words(0)} within {waited}")
            self._pause()

    def _head_is_there(self, host: str, port: int) -> bool:
        """Whether the head answers, or is only silent for a while."""
        found = answers(host, port)
        if found:
            self._heard_at = time.monotonic()
        silent_s = time.monotonic() - self._heard_at
        return found or (found is None and not self.stopping and silent_s <= _SILENCE_S)

    def _expect_the_end(self) -> None:
        """The head is gone: return if it had said that all is done. Raises RayFailedError, or StoppedError."""
        deadline = time.monotonic() + _WORD_PATIENCE_S
        while not self._ended():
            if time.monotonic() > deadline:
                here, head = self._settings.node_in_words(self._node), self._settings.node_in_words(0)
                raise RayFailedError(f"the head on {head} does not answer {here} any more")
            self._pause()

    def _ended(self) -> bool:
        cluster = read_cluster(self._settings.cluster_file)
        return cluster is not None and cluster.get("phase") == ENDED


def totals(nodes: list[dict[str, Any]]) -> str:
    """What the nodes have together, such as 2 nodes, 16 GPUs, 192 CPUs."""
    counts = (("node", len(nodes)), ("GPU", sum(n["gpus"] for n in nodes)), ("CPU", sum(n["cpus"] for n in nodes)))
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts if count)


def say(words: str) -> None:
    """A line in the node's log."""
    print(words, flush=True)  # noqa: T201 - the node's log is this process's output


def main(arguments: list[str]) -> int:
    settings, node = RaySettings.read(arguments[1]), int(os.environ["NODE_RANK"])
    member = Head(settings) if node == 0 else Worker(settings, node)
    try:
        return member.run()
    except StoppedError:
        return _SIGNALLED + signal.SIGTERM
    except (RayFailedError, OSError) as error:
        if member.stopping:
            return _SIGNALLED + signal.SIGTERM
        say(f"Ray cluster failed: {error}")
        return 1
    finally:
        member.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""The nodes of one attempt on this machine: an agent process for each."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from airlane.backends.agents import AGENT_MAIN, unwritten, write_order
from airlane.backends.base import Allocation, NodePlace, NodeReport, Waiting
from airlane.backends.slots import Ticket
from airlane.launch.complaint import EXIT_NO_RECORD
from airlane.launch.order import Order
from airlane.launch.order_file import START, WHEN_TOLD
from airlane.launch.ports import free_port
from airlane.launch.scratch import remove_left_scratch
from airlane.launch.sweep import sweep
from airlane.store.paths import RunPaths
from airlane.store.records import NodeRecord, RunRecord
from airlane.store.runs import read_node_record

ADDRESS = "127.0.0.1"
# An agent that lost its supervisor stops its command within its orphan grace; then it is ended.
ORPHANS_PATIENCE_S = 5.0
_KILLED_PATIENCE_S = 10.0
_UNKILLABLE_PATIENCE_S = 2.0
_FIRST_IN_LINE_LOOK_S = 0.02


class LocalAllocation(Allocation):
    """Slots held by the supervisor and by the agents it starts."""

    def __init__(
        self,
        run: RunRecord,
        paths: RunPaths,
        attempt: int,
        *,
        ticket: Ticket,
        count: int,
        sweep_run: Callable[[str], None],
        words: str,
    ) -> None:
        self._run = run
        self._paths = paths
        self._attempt = attempt
        self._ticket = ticket
        self._count = count
        self._sweep_run = sweep_run
        self._words = words
        self._idle: dict[int, subprocess.Popen[bytes]] = {}
        self._agents: dict[int, subprocess.Popen[bytes]] = {}
        self._unwritten: dict[int, NodeRecord] = {}
        self._waiting: Waiting | None = None
        self._live: tuple[int, ...] = ()

    def waiting(self) -> Waiting | None:
        position = self._ticket.take(self._count, on_stale=self._sweep_run)
        if position is None:
            self._waiting = None
            self._wake_agents()
        elif self._waiting is None or self._waiting.position != position:
            pool = self._ticket.pool
            detail = f"{_ordinal(position)} in line, {pool.busy()} of {pool.size} {self._words} busy"
            self._waiting = Waiting(detail, position)
        return self._waiting

    def _wake_agents(self) -> None:
        """Start the agents' interpreters: they are ready by the time their orders are."""
        keep = self._ticket.descriptors
        for node in range(self._run.nodes):
            if node not in self._idle and node not in self._agents:
                self._idle[node] = subprocess.Popen(
                    [sys.executable, "-I", "-S", AGENT_MAIN, WHEN_TOLD, self._order_path(node)],
                    stdin=subprocess.PIPE,
                    bufsize=0,  # what a dead agent did not read must not be written again when the pipe is closed
                    env={**os.environ, "AIR_KEEP_FDS": ",".join(str(descriptor) for descriptor in keep)},
                    pass_fds=keep,
                    start_new_session=True,
                )

    def _order_path(self, node: int) -> Path:
        return self._paths.node_order(attempt=self._attempt, node=node)

    def places(self) -> tuple[NodePlace, ...]:
        share = self._run.accelerators_per_node
        simulated = self._run.simulate or self._run.accelerator_type.startswith("CPU_")
        host = os.uname().nodename
        devices = () if simulated else self._ticket.slots
        return tuple(
            NodePlace(node, host, ADDRESS, devices[node * share : (node + 1) * share])
            for node in range(self._run.nodes)
        )

    def free_port(self) -> int:
        return free_port(ADDRESS)

    def start(self, order: Order) -> None:
        write_order(self._order_path(order.node_rank), order)
        agent = self._idle.pop(order.node_rank)
        self._agents[order.node_rank] = agent
        _tell(agent, START)
        self._live = (*self._live, order.node_rank)

    def look(self) -> tuple[NodeReport, ...]:
        reports = tuple(self._report(node, agent) for node, agent in sorted(self._agents.items()))
        self._live = tuple(report.node for report in reports if report.agent_alive)
        return reports

    def _report(self, node: int, agent: subprocess.Popen[bytes]) -> NodeReport:
        # Alive is asked first: an agent that ends after this has written its record before the next look.
        alive = agent.poll() is None
        record = read_node_record(self._paths, attempt=self._attempt, node=node)
        if agent.returncode == EXIT_NO_RECORD and (record is None or record.ended_at is None):
            record = self._unwritten.setdefault(node, unwritten(node, agent.pid, record))
        return NodeReport(node, alive, record)

    def stop(self, node: int) -> None:
        _tell(self._agents[node], b"stop\n")

    def kill(self, node: int) -> None:
        agent = self._agents[node]
        if agent.poll() is None:
            agent.kill()
        sweep(self._run.id, attempt=self._attempt)

    def wait(self, timeout_s: float) -> None:
        self._ticket.touch()
        if not self._agents:
            first = self._waiting is None or self._waiting.position == 1
            time.sleep(min(timeout_s, _FIRST_IN_LINE_LOOK_S) if first else timeout_s)
            return
        live = [self._agents[node] for node in self._live]
        if not live:
            time.sleep(timeout_s)
        elif all(agent.poll() is None for agent in live):  # none has ended since the last look
            _wait_for_any([agent.pid for agent in live], timeout_s)

    def release(self) -> None:
        agents = [*self._idle.values(), *self._agents.values()]
        self._idle = {}
        for agent in agents:
            if agent.poll() is None:
                agent.kill()
        for agent in agents:
            _reap(agent)
        if self._agents:
            sweep(self._run.id, attempt=self._attempt)
            remove_left_scratch(self._run.id, attempt=self._attempt)
        self._ticket.give_back()


def _tell(agent: subprocess.Popen[bytes], word: bytes) -> None:
    if agent.poll() is None and agent.stdin is not None:
        with contextlib.suppress(BrokenPipeError):  # it has just ended, and the next look shows it
            agent.stdin.write(word)


def end_agents(run: RunPaths) -> None:
    """End what a dead supervisor left: its agents end by themselves, or are ended; then so are the run's processes."""
    begun = time.monotonic()
    pause_s = 0.01
    while agents := tuple(_agents_of(run)):
        waited_s = time.monotonic() - begun
        if waited_s > ORPHANS_PATIENCE_S:
            for pid in agents:
                _kill(pid)
        if waited_s > ORPHANS_PATIENCE_S + _UNKILLABLE_PATIENCE_S:
            break  # the kernel holds them (a dead network disk): they die when it lets go
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.1)
    sweep(run.id)
    remove_left_scratch(run.id)


def _agents_of(run: RunPaths) -> Iterator[int]:
    """The agents of a run, found by their command line: they may not have written a record yet."""
    for name in os.listdir("/proc") if sys.platform == "linux" else []:  # noqa: PTH208
        if name.isdigit():
            try:
                arguments = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
                zombie = b") Z " in Path("/proc", name, "stat").read_bytes()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if not zombie and is_agent(arguments, run):
                yield int(name)


def is_agent(arguments: Sequence[bytes], run: RunPaths) -> bool:
    """Whether this is the command line of an agent of the run: our script, then an order (a `tail` of a log is not)."""
    under = os.fsencode(run.attempts) + b"/"
    return any(
        script.endswith(b"/airlane/launch/__main__.py") and order.startswith(under) and order.endswith(b".order.json")
        for script, order in itertools.pairwise(arguments)
    )


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _reap(agent: subprocess.Popen[bytes]) -> None:
    if agent.stdin is not None:
        agent.stdin.close()
    try:
        agent.wait(_KILLED_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return  # the kernel holds it (a dead network disk); its slots stay taken for as long as it is there


def _wait_for_any(pids: list[int], timeout_s: float) -> None:
    """Return when one of these children ends, or after the timeout."""
    if not hasattr(os, "pidfd_open"):
        time.sleep(min(timeout_s, 0.05))
        return
    poller = select.poll()
    descriptors = []
    try:
        for pid in pids:
            descriptors.append(os.pidfd_open(pid))
            poller.register(descriptors[-1], select.POLLIN)
        poller.poll(timeout_s * 1000)
    except OSError:  # no descriptor left: look again soon
        time.sleep(min(timeout_s, 0.05))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"

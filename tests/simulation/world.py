"""A simulated machine for the supervisor: virtual time, nodes that fail, a disk that fills up, and power cuts.

Everything random comes from one seed, so that a schedule replays exactly.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from airlane.backends.base import Allocation, Backend, Compute, Interruption, Liveness, NodePlace, NodeReport, Waiting
from airlane.errors import BackendError, CapacityError, EnvironmentBuildError, NodeFailedError, SnapshotError
from airlane.launch.order import Order
from airlane.store import codec
from airlane.store.disk import SystemDisk
from airlane.store.paths import RunPaths
from airlane.store.records import Attempt, CauseKind, LastMetric, NodeRecord, RunRecord, Status
from airlane.store.runs import NewRun
from airlane.tracking.tracker import AttemptInfo, AttemptOutcome, TrackedRun


class PowerCut(BaseException):
    """The supervisor's machine went dark: nothing of the supervisor runs after this."""


@dataclass
class World:
    """Virtual time and what is going to happen in it."""

    chance: random.Random
    now: float = 1_800_000_000.0
    dark: bool = False
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(when, self.now), next(self._order), what))

    def advance(self, until: float, *, stop_at_event: bool = False) -> None:
        """Let time pass; with `stop_at_event`, only until the next thing happens."""
        while self._events and self._events[0][0] <= until:
            when, _, what = heapq.heappop(self._events)
            self.now = max(self.now, when)
            what()
            if stop_at_event:
                return
        self.now = max(self.now, until)


class SimClock:
    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> float:
        return self._world.now

    def sleep(self, seconds: float) -> None:
        if self._world.dark:
            raise PowerCut
        self._world.advance(self._world.now + seconds)


class UnsyncedDisk(SystemDisk):
    """The real disk, without the waits for it that only a power cut could tell."""

    def replace(self, path: Path, data: bytes, *, last: bool = False) -> None:
        del last
        path.write_bytes(data)

    def create(self, path: Path, data: bytes) -> bool:
        created = not path.exists()
        if created:
            path.write_bytes(data)
        return created


class SimDisk:
    """The supervisors' disk. `cut_at` is the write, counted from now, before, after or within which the power goes."""

    def __init__(self, world: World, *, full: Callable[[float], bool]) -> None:
        self._world = world
        self._cut_at: int | None = None
        self._cut_how = "before"
        self._full = full
        self.writes = 0
        self.statuses: list[Status] = []

    def cut(self, *, at: int | None, how: str) -> None:
        self._cut_at = None if at is None else self.writes + at
        self._cut_how = how

    def replace(self, path: Path, data: bytes, *, last: bool = False) -> None:
        del last
        self._write(path, lambda: self._whole(path, data), torn=None)

    def append(self, path: Path, data: bytes) -> None:
        def add(part: bytes) -> None:
            with path.open("ab") as file:
                file.write(part)

        self._write(path, lambda: add(data), torn=lambda: add(data[: len(data) // 2]))

    def create(self, path: Path, data: bytes) -> bool:
        created = not path.exists()
        if created:
            self._write(path, lambda: self._whole(path, data), torn=None)
        return created

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def _whole(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        if path.name == "status.json":
            self.statuses.append(codec.decode(Status, data, source="the simulation"))

    def _write(self, path: Path, write: Callable[[], None], *, torn: Callable[[], None] | None) -> None:
        if self._world.dark:
            raise PowerCut
        number, self.writes = self.writes, self.writes + 1
        if number == self._cut_at:
            self._world.dark = True
            if self._cut_how == "after":
                write()
            elif self._cut_how == "within" and torn is not None:
                torn()
            raise PowerCut
        if self._full(self._world.now):
            raise OSError(28, "No space left on device", str(path))
        write()


@dataclass(frozen=True)
class NodeScript:
    """What a node's command would do if nobody interfered, and how its agent behaves."""

    duration_s: float
    exit_code: int
    fault: str | None = None  # dies | hangs | late | twice | unkillable | broken
    grace_used: float = 0.0  # the share of the stop grace that the command takes to end


class SimNode:
    """One node of one attempt, agent and command together."""

    def __init__(self, world: World, order: Order, script: NodeScript) -> None:
        self.world, self.order, self.script = world, order, script
        self.agent_alive = True
        self.stopped: str | None = None
        self._record = NodeRecord(order.node_rank, f"host{order.node_rank}", 1, "simulated", world.now)
        self._write()
        if script.fault == "broken":
            self._end(error="bash is not installed")
        elif script.fault == "dies":
            world.at(world.now + script.duration_s, self.vanish)
        elif script.fault != "hangs":
            world.at(world.now + script.duration_s, lambda: self._end(exit_code=script.exit_code))

    def _write(self) -> None:
        Path(self.order.record_file).write_bytes(codec.encode(self._record))

    def vanish(self) -> None:
        """The agent and everything below it is gone without a word."""
        self.agent_alive = False

    def stop(self, reason: str, grace_s: float) -> None:
        if not self.agent_alive or self.stopped is not None or self.script.fault == "hangs":
            return
        self.stopped = reason
        if self.script.fault == "unkillable":
            return
        late_s = self.world.chance.uniform(0, 8) if self.script.fault == "late" else 0.0
        end = self.world.now + grace_s * self.script.grace_used + late_s
        self.world.at(end, lambda: self._end(exit_code=143, stop_reason=reason))

    def kill(self) -> None:
        if self.script.fault != "unkillable":
            self.vanish()

    def _end(self, *, exit_code: int | None = None, stop_reason: str | None = None, error: str | None = None) -> None:
        if not self.agent_alive:
            return
        if stop_reason is None:
            stop_reason = self.stopped
        if self._record.ended_at is None:
            self._record = replace(
                self._record, ended_at=self.world.now, exit_code=exit_code, stop_reason=stop_reason, error=error
            )
        self._write()
        if self.script.fault == "twice":
            self.world.at(self.world.now + 1.0, self._write)
        self.agent_alive = False


class SimAllocation(Allocation):
    def __init__(self, backend: SimBackend, run: RunRecord, attempt: int, granted_at: float) -> None:
        self._backend, self._run, self._attempt, self._granted_at = backend, run, attempt, granted_at
        self.nodes: dict[int, SimNode] = {}
        self.released = False

    def waiting(self) -> Waiting | None:
        left = self._granted_at - self._backend.world.now
        return None if left <= 0 else Waiting(f"{left:.0f} s to go", 1)

    def places(self) -> tuple[NodePlace, ...]:
        return tuple(NodePlace(node, f"host{node}", f"10.0.0.{node}") for node in range(self._run.nodes))

    def free_port(self) -> int:
        return 20_000

    def start(self, order: Order) -> None:
        self._alive()
        script = self._backend.script(self._attempt, order.node_rank)
        assert not Path(order.record_file).exists(), "a node that starts over the record of another"
        if script.fault == "refused":
            raise BackendError(f"host{order.node_rank} does not answer")
        self.nodes[order.node_rank] = SimNode(self._backend.world, order, script)

    def look(self) -> tuple[NodeReport, ...]:
        self._alive()
        reports = []
        for number, node in sorted(self.nodes.items()):
            record = codec.read(NodeRecord, Path(node.order.record_file))
            reports.append(NodeReport(number, node.agent_alive, record))
        return tuple(reports)

    def interruption(self) -> Interruption | None:
        return self._backend.taken_back

    def stop(self, node: int) -> None:
        self._alive()
        self.nodes[node].stop("stop", self.nodes[node].order.stop_grace_s)

    def kill(self, node: int) -> None:
        self._alive()
        self.nodes[node].kill()

    def wait(self, timeout_s: float) -> None:
        self._alive()
        self._backend.world.advance(self._backend.world.now + timeout_s, stop_at_event=True)

    def release(self) -> None:
        self._alive()
        self.released = True
        for node in self.nodes.values():
            node.vanish()

    def _alive(self) -> None:
        if self._backend.world.dark:
            raise PowerCut


@dataclass(frozen=True)
class TakeBack:
    """That a scheduler takes the nodes of a supervisor back, `after_s` its start, and ends it `grace_s` later.

    It tells the supervisor itself `told_s` after the nodes; None if only the nodes hear of it. `requeue` says that the
    scheduler starts the run again by itself.
    """

    interruption: Interruption
    after_s: float
    grace_s: float
    told_s: float | None
    stops_nodes: bool
    requeue: bool


class SimBackend(Backend):
    name = "simulated"

    def __init__(
        self, world: World, script: Callable[[int, int], NodeScript], refusal: Callable[[int], str | None]
    ) -> None:
        self.world = world
        self.script = script
        self._refusal = refusal
        self.allocations: list[SimAllocation] = []
        self._supervisors = 0
        self._attempts_before = 0
        self._take_back: TakeBack | None = None
        self.taken_back: Interruption | None = None
        self.told: Interruption | None = None
        self.goes_on = False
        self.last_end: Interruption | None = None

    def begin(self, take_back: TakeBack | None, how_it_ended: Interruption | None, *, attempts: int) -> None:
        """A supervisor starts after so many attempts, whose nodes are to be taken back like that."""
        self._supervisors += 1
        self._attempts_before = attempts
        self.taken_back = self.told = None
        self._take_back, self.last_end, self.goes_on = take_back, how_it_ended, False
        if take_back is None:
            return
        when = self.world.now + take_back.after_s
        self._at(when, lambda: self._take(take_back))
        if take_back.told_s is not None:
            self._at(when + take_back.told_s, lambda: setattr(self, "told", take_back.interruption))
        self._at(when + take_back.grace_s, lambda: setattr(self.world, "dark", True))

    def _at(self, when: float, what: Callable[[], None]) -> None:
        """Unless another supervisor has started by then."""
        mine = self._supervisors
        self.world.at(when, lambda: what() if self._supervisors == mine else None)

    def _take(self, take_back: TakeBack) -> None:
        self.taken_back = take_back.interruption
        if take_back.stops_nodes:
            for node in self.nodes:
                node.stop("stop", node.order.stop_grace_s)

    def asked_to_stop(self) -> Interruption | None:
        return self.told

    def last_words(self, run: RunPaths) -> Interruption | None:
        assert run.root.exists()
        return self.last_end

    def move(self, run: RunRecord, paths: RunPaths, attempts: Sequence[Attempt]) -> str | None:
        assert paths.id == run.id
        if self.world.dark:
            raise PowerCut
        here = attempts[self._attempts_before :]  # this supervisor's nodes are without those that failed before
        failed = any(a.cause is not None and a.cause.kind is CauseKind.NODE_FAILED for a in here)
        if self.taken_back is None and self.told is None and not failed:
            return None
        if not self.goes_on and self.world.chance.random() < 0.05:
            raise BackendError("the scheduler refuses another one")
        self.goes_on = True
        return "goes on elsewhere"

    def cancel(self, run: RunPaths) -> None:
        assert run.root.exists()
        if self.world.dark:
            raise PowerCut
        if self.world.chance.random() < 0.1:
            raise BackendError("the scheduler does not answer")
        self.goes_on = False

    def check(self, compute: Compute) -> tuple[str, ...]:
        return (f"{compute.nodes} simulated nodes",)

    def submit(self, run: NewRun, supervise: Callable[[], None], *, ready: bool) -> None:
        raise AssertionError(f"the simulation starts its supervisors itself ({run}, {supervise}, {ready})")

    def poll(self, runs: Sequence[RunPaths]) -> Mapping[str, Liveness]:
        return {run.id: Liveness.DEAD if self.world.dark else Liveness.ALIVE for run in runs}

    def sweep(self, run: RunPaths) -> None:
        assert run.root.exists()
        for node in self.nodes:
            node.vanish()

    def allocate(self, run: RunRecord, paths: RunPaths, attempt: int) -> SimAllocation:
        assert paths.id == run.id
        refusal = self._refusal(attempt)
        if refusal == "capacity":
            raise CapacityError("this machine has 0 (asked for: 8)")
        if refusal == "backend":
            raise BackendError("the scheduler does not answer")
        if refusal == "host":
            raise NodeFailedError("host0 does not answer", host="host0")
        wait_s = self.world.chance.choice([0.0, 0.0, 3.0, 40.0])
        allocation = SimAllocation(self, run, attempt, self.world.now + wait_s)
        self.allocations.append(allocation)
        return allocation

    @property
    def nodes(self) -> list[SimNode]:
        return [node for allocation in self.allocations for node in allocation.nodes.values()]

    def orphan(self) -> None:
        """The supervisor is gone: every agent sees its pipe close."""
        for node in self.nodes:
            node.stop("orphaned", node.order.orphan_grace_s)


class SimWorkshop:
    progress: str | None = "building"

    def __init__(self, world: World, paths: RunPaths, record: RunRecord, *, build_s: float, fault: str | None) -> None:
        self._world, self._paths, self._record = world, paths, record
        self._build_s, self._fault = build_s, fault
        self._ready_at: float | None = None
        self.run_ended = False

    def begin(self) -> None:
        self._ready_at = self._world.now + self._build_s

    def ready(self) -> bool:
        assert self._ready_at is not None
        if self._fault == "build":
            raise EnvironmentBuildError("no version of torch fits")
        return self._world.now >= self._ready_at

    def orders(
        self, attempt: int, places: Sequence[NodePlace], port: int, tracked: TrackedRun | None
    ) -> tuple[Order, ...]:
        if self._fault == "unpack":
            raise SnapshotError("the archive is damaged")
        if self._fault == "disk":
            raise OSError(28, "No space left on device")
        assert tracked is None
        self._paths.nodes(attempt).mkdir(parents=True, exist_ok=True)
        return tuple(
            Order(
                run_id=self._record.id,
                attempt=attempt,
                node_rank=place.node,
                command_file=str(self._paths.command),
                working_folder="/",
                log_file=str(self._paths.log(attempt=attempt, node=place.node)),
                record_file=str(self._paths.node_record(attempt=attempt, node=place.node)),
                env={"MASTER_PORT": str(port)},
                stop_grace_s=self._record.limits.stop_grace_s,
            )
            for place in places
        )

    def clean(self, attempt: int) -> None:
        assert attempt >= 0

    def close(self, *, run_ends: bool) -> None:
        if self._world.dark:
            raise PowerCut
        self.run_ended = run_ends
        if run_ends:
            self._paths.secrets.unlink(missing_ok=True)


class SimTracking:
    error: str | None = None
    last_metric: LastMetric | None = None

    def __init__(self, world: World, *, start_s: float) -> None:
        self._world = world
        self._ready_at = world.now + start_s

    def open(self) -> None:
        pass

    def settled(self, timeout_s: float) -> bool:
        if self._world.dark:
            raise PowerCut
        if self._world.now < self._ready_at:
            self._world.advance(self._world.now + timeout_s)
        return self._world.now >= self._ready_at

    def begin_attempt(self, info: AttemptInfo, timeout_s: float) -> TrackedRun | None:
        assert info.attempt >= 0
        assert timeout_s > 0
        return None

    def watch_metrics(self, files: Mapping[int, Path]) -> None:
        assert files

    def end_attempt(self, outcome: AttemptOutcome) -> None:
        assert outcome.cause.summary

    def close(self, timeout_s: float) -> None:
        assert timeout_s > 0

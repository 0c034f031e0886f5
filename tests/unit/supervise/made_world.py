"""A supervisor on a simulated machine (see tests/simulation/world.py) where each thing that happens is written down."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airlane.backends.base import Interruption
from airlane.store import codec
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Attempt, CauseKind, EnvironmentRecord, RunRecord, Status
from airlane.store.runs import RunContent, RunStore, RunView
from airlane.store.states import Phase, State
from airlane.supervise.supervisor import Supervisor, Tools
from simulation.world import (
    NodeScript,
    SimAllocation,
    SimBackend,
    SimClock,
    SimDisk,
    SimTracking,
    SimWorkshop,
    TakeBack,
    World,
)

from .made_nodes import made_limits

LASTS = NodeScript(1000.0, 0)
PREEMPTED = Interruption(CauseKind.PREEMPTED, "a run that goes first")
TIMEOUT = Interruption(CauseKind.TIMEOUT, "the place's time limit")
CANCELED = Interruption(CauseKind.CANCELED, "canceled with scancel")
NODE_FAILED = Interruption(CauseKind.NODE_FAILED, "host0 failed", "host0")


class ScriptedBackend(SimBackend):
    """Moves only as `moves` says, and keeps what was asked of it."""

    def __init__(self, world: World, scripts: Sequence[NodeScript]) -> None:
        super().__init__(world, lambda attempt, _node: scripts[min(attempt, len(scripts) - 1)], lambda _attempt: None)
        self.asked: list[str] = []
        self.moves: Callable[[Sequence[Attempt]], str | None] | None = None
        self.wait_s = 0.0
        self.cancel_refusal: Exception | None = None
        self.is_replaced: Callable[[], bool] = lambda: False

    def allocate(self, run: RunRecord, paths: RunPaths, attempt: int) -> SimAllocation:
        assert (run.id, attempt >= 0) == (paths.id, True)
        allocation = SimAllocation(self, run, attempt, self.world.now + self.wait_s)
        self.allocations.append(allocation)
        return allocation

    def move(self, run: RunRecord, paths: RunPaths, attempts: Sequence[Attempt]) -> str | None:
        assert run.id == paths.id
        ended = [attempt.state.value for attempt in attempts if attempt.state is not None]
        live = [node for node in self.nodes if node.agent_alive]
        self.asked.append(f"move after {', '.join(ended) or 'nothing'}" + (" while nodes run" if live else ""))
        if self.moves is not None:
            return self.moves(attempts)
        return "elsewhere" if self.taken_back is not None or self.told is not None else None

    def cancel(self, run: RunPaths) -> None:
        assert run.root.exists()
        self.asked.append("cancel")
        if self.cancel_refusal is not None:
            raise self.cancel_refusal

    def replaced(self, run: RunPaths) -> bool:
        assert run.root.exists()
        return self.is_replaced()


class CountedWorkshop(SimWorkshop):
    """Knows how often it was begun."""

    begun = 0

    def begin(self) -> None:
        self.begun += 1
        super().begin()


@dataclass
class Stage:
    """One run. Each call of `supervise` is a supervisor that reads from disk what the one before it left."""

    folder: Path
    scripts: Sequence[NodeScript] = (LASTS,)
    nodes: int = 1
    build_s: float = 0.0
    tracking_s: float = 0.0
    limits: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world = World(random.Random(1))
        self.start = self.world.now
        record = RunRecord(
            "", "test", "me", self.start, "w.yaml", "made", None, self.nodes, self.nodes, 1, "CPU_1xCORE",
            simulate=False, limits=made_limits(**{"stop_grace_s": 5.0, **self.limits}),
            environment=EnvironmentRecord("host", (), "3.11", None), tracking_uri="none",
        )  # fmt: skip
        self.store = RunStore(Home(self.folder / "a 'home' ü\n"))
        new = self.store.create(record, RunContent("", "true", secrets=b"{}"))
        os.close(new.lock)
        self.record, self.paths = new.record, new.paths
        self.backend = ScriptedBackend(self.world, self.scripts)
        self.disk = SimDisk(self.world, full=lambda _now: False)
        self.orphans: list[Attempt] = []

    def supervise(self, take_back: TakeBack | None = None, how_it_ended: Interruption | None = None) -> State | None:
        """One supervisor's life; `how_it_ended` is what the place says of the one before it."""
        earlier = codec.read(Status, self.paths.status)
        self.backend.begin(take_back, how_it_ended, attempts=0)
        self.workshop = CountedWorkshop(self.world, self.paths, self.record, build_s=self.build_s, fault=None)
        tools = Tools(
            backend=self.backend,
            workshop=self.workshop,
            tracking=SimTracking(self.world, start_s=self.tracking_s),
            disk=self.disk,
            clock=SimClock(self.world),
            evidence=lambda _attempt: lambda _node, _record: None,
            stop_requested=self.backend.asked_to_stop,
            close_orphan=self.orphans.append,
            params={},
            pid=1,
            host="here",
            look_every_s=0.5,
        )
        return Supervisor(self.record, self.paths, tools, earlier=earlier).run()

    @property
    def view(self) -> RunView:
        return self.store.view(self.paths)

    @property
    def ends(self) -> list[tuple[State | None, str]]:
        """State and cause of every attempt."""
        return [(a.state, a.cause.summary if a.cause is not None else "open") for a in self.view.attempts]

    def left(self, *attempts: Attempt, state: State = State.RUNNING) -> None:
        """The status that a supervisor left which was killed."""
        status = Status(state, Phase.RUNNING, None, self.start, 1, "here", attempts)
        self.paths.status.write_bytes(codec.encode(status))

    def cancel_at(self, after_s: float) -> None:
        self.world.at(self.start + after_s, self.paths.cancel.touch)


def taken(
    interruption: Interruption, *, after_s: float = 10.0, told_s: float | None = None, stops_nodes: bool = False
) -> TakeBack:
    """The place takes the nodes back and lets the supervisor live."""
    return TakeBack(interruption, after_s, 10_000.0, told_s, stops_nodes, requeue=False)

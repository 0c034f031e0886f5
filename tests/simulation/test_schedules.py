"""A thousand seeded schedules of faults against the real supervisor, policy, rules, store and settlement.

A failing seed is printed; `AIR_SIM_SEED=<seed> pytest tests/simulation` replays it alone.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from airlane.store import codec
from airlane.store.paths import Home
from airlane.store.records import CauseKind, EnvironmentRecord, Limits, NodeRecord, RunRecord, Status
from airlane.store.runs import RunContent, RunStore, RunView
from airlane.store.states import State, may_move
from airlane.supervise.causes import Evidence
from airlane.supervise.settle import settle
from airlane.supervise.supervisor import Supervisor, Tools
from simulation.world import (
    NodeScript,
    PowerCut,
    SimBackend,
    SimClock,
    SimDisk,
    SimTracking,
    SimWorkshop,
    UnsyncedDisk,
    World,
)

SCHEDULES = 1_000
LONGEST_S = 4 * 3600.0


def no_evidence(attempt: int) -> Evidence:
    assert attempt >= 0
    return lambda _node, _record: None


@dataclass
class Schedule:
    """One seed's run, and everything that is going to go wrong with it."""

    seed: int
    folder: Path

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.world = World(self.chance)
        self.record = self._record()
        self.store = RunStore(Home(self.folder), disk=UnsyncedDisk())
        new = self.store.create(self.record, RunContent(workload="x: 1\n", command="true\n"))
        os.close(new.lock)
        self.paths, self.record = new.paths, new.record
        self.scripts = self._scripts()
        self.refusals = {n: self._pick({None: 30, "capacity": 1, "backend": 1}) for n in range(8)}
        self.backend = SimBackend(self.world, lambda a, n: self.scripts[a % 8, n], self.refusals.get)
        cut_at = self.chance.randrange(0, 45) if self.chance.random() < 0.5 else None
        cut_how = self.chance.choice(["before", "after", "within"])
        self.disk = SimDisk(self.world, cut_at=cut_at, cut_how=cut_how, full=self._disk_full())
        self.cancel_at = self._plan_cancel()

    def _record(self) -> RunRecord:
        limits = Limits(
            max_retries=self.chance.choice([0, 0, 1, 3]),
            timeout_s=self.chance.choice([None, 20.0, 60.0]),
            stop_grace_s=self.chance.choice([0.0, 5.0, 30.0]),
            straggler_grace_s=self.chance.choice([10.0, 300.0]),
        )
        nodes = self.chance.choice([1, 1, 2, 3])
        return RunRecord(
            id="",
            experiment_name="sim",
            user="me",
            submitted_at=self.world.now,
            workload_file="/x.yaml",
            backend="simulated",
            profile=None,
            nodes=nodes,
            accelerators=nodes,
            accelerators_per_node=1,
            accelerator_type="CPU_1xCORE",
            simulate=False,
            limits=limits,
            environment=EnvironmentRecord("host", (), "3.11", None),
        )

    def _pick(self, weights: dict[str | None, int]) -> str | None:
        return self.chance.choices(list(weights), list(weights.values()))[0]

    def _scripts(self) -> dict[tuple[int, int], NodeScript]:
        faults: dict[str | None, int] = {
            None: 30, "dies": 3, "hangs": 3, "late": 3, "twice": 2, "unkillable": 1, "broken": 1, "refused": 1,
        }  # fmt: skip
        return {
            (attempt, node): NodeScript(
                # 20.0 and 60.0 meet the timeouts to the tick: success and timeout race
                duration_s=self.chance.choice([0.0, 0.1, 5.0, 20.0, 60.0, self.chance.uniform(0, 90)]),
                exit_code=self.chance.choice([0, 0, 0, 1, 137]),
                fault=self._pick(faults),
                grace_used=self.chance.choice([0.0, 0.5, 1.0]),
            )
            for attempt in range(8)
            for node in range(self.record.nodes)
        }

    def _disk_full(self) -> Callable[[float], bool]:
        if self.chance.random() > 0.2:
            return lambda _now: False
        start = self.world.now + self.chance.uniform(0, 30)
        end = start + self.chance.uniform(0, 200)
        return lambda now: start <= now <= end

    def _plan_cancel(self) -> float:
        # In the end the user gives up on a command that hangs and has no timeout.
        patience_s = 1800.0 if self.chance.random() > 0.3 else self.chance.choice([0.0, 5.0, 20.0, 60.0, 77.7])
        when = self.world.now + patience_s
        self.world.at(when, self.paths.cancel.touch)
        return when

    def play(self) -> tuple[RunView, bool]:
        """The settled view, and whether the supervisor was cut off."""
        workshop = SimWorkshop(
            self.world,
            self.paths,
            self.record,
            build_s=self.chance.choice([0.0, 12.0]),
            fault=self._pick({None: 30, "build": 1, "unpack": 1, "disk": 1}),
        )
        tools = Tools(
            backend=self.backend,
            workshop=workshop,
            tracking=SimTracking(self.world, start_s=self.chance.choice([0.0, 0.0, 8.0, 500.0])),
            disk=self.disk,
            clock=SimClock(self.world),
            evidence=no_evidence,
            stop_requested=lambda: None,
            close_orphan=lambda _attempt: None,
            params={},
            pid=1,
            host="here",
            look_every_s=self.chance.choice([0.5, 5.0, 20.0, 20.0]),
        )
        cut = False
        try:
            Supervisor(self.record, self.paths, tools).run()
        except PowerCut:
            cut = True
            self.backend.orphan()
            self.world.advance(self.world.now + self.chance.choice([0.0, 1.0, 60.0]))
        else:
            # From here on the supervisor's process is gone, as after a cut, but its last word is on the disk.
            self.world.dark = True
        return self._settle(), cut

    def _settle(self) -> RunView:
        view = self.store.view(self.paths)
        return settle(view, self.store, self.backend, UnsyncedDisk(), now=self.world.now, evidence=no_evidence(0))


def check_invariants(schedule: Schedule, view: RunView, *, cut: bool) -> None:
    assert view.state.terminal, "a run without a terminal state"
    assert view.cause is not None
    assert view.cause.summary, "a terminal state without a cause"
    assert len(view.attempts) <= schedule.record.limits.max_retries + 1, "an attempt beyond the budget"
    assert all(a.state is not None and a.cause is not None for a in view.attempts), "an attempt left open"
    live = [node for node in schedule.backend.nodes if node.agent_alive]
    assert not live, "a node left started"
    assert cut or all(a.released for a in schedule.backend.allocations), "an allocation left held"
    check_never_backwards(schedule.disk.statuses)
    check_truth(schedule, view)


def check_never_backwards(statuses: list[Status]) -> None:
    for before, after in itertools.pairwise(statuses):
        # A full disk may have refused the RUNNING in between.
        skipped = before.state is State.PENDING and may_move(State.RUNNING, after.state)
        assert skipped or may_move(before.state, after.state), f"{before.state} -> {after.state}"
        assert len(after.attempts) >= len(before.attempts), "an attempt was forgotten"
        for old, new in zip(before.attempts, after.attempts, strict=False):
            assert old.ended_at is None or old == new, "an attempt that had ended changed"


def check_truth(schedule: Schedule, view: RunView) -> None:
    """The told end is what the nodes did."""
    if view.state is State.CANCELED:
        assert view.ended_at is not None
        assert view.ended_at >= schedule.cancel_at, "canceled before anybody asked"
        assert view.cause is not None
        assert view.cause.kind is CauseKind.CANCELED
    if view.state is State.TIMEDOUT:
        timeout_s = schedule.record.limits.timeout_s
        last = view.attempts[-1]
        assert timeout_s is not None
        assert (last.ended_at or 0) - last.started_at >= timeout_s
    if view.state is State.SUCCESS:
        number = view.attempts[-1].number
        records = [schedule.store.node_record(view.paths, attempt=number, node=n) for n in range(view.record.nodes)]
        assert records[0] is not None
        assert records[0].exit_code == 0
        assert not [r for r in records if r is not None and spoiled(r)], "a node that failed by itself in a success"


def spoiled(record: NodeRecord) -> bool:
    return record.ended_at is not None and record.stop_reason is None and record.exit_code != 0


def play(seed: int, folder: Path) -> Schedule:
    """One schedule, with every invariant checked."""
    schedule = Schedule(seed, folder)
    begun = schedule.world.now
    view, cut = schedule.play()
    check_invariants(schedule, view, cut=cut)
    assert schedule.world.now - begun < LONGEST_S, "the run took for ever"
    again = schedule._settle()
    assert (again.state, again.cause) == (view.state, view.cause), "a second look tells another end"
    return schedule


@pytest.mark.parametrize("block", range(10))
def test_a_thousand_schedules_of_faults_end_in_the_truth(block: int, tmp_path: Path) -> None:
    replay = os.environ.get("AIR_SIM_SEED")
    seeds = [int(replay)] if replay else range(block * SCHEDULES // 10, (block + 1) * SCHEDULES // 10)
    for seed in seeds:
        folder = tmp_path / str(seed)
        try:
            play(seed, folder)
        except Exception as error:
            error.add_note(f"replay this schedule alone: AIR_SIM_SEED={seed} pytest tests/simulation")
            raise
        shutil.rmtree(folder)


def test_a_seed_replays_to_the_same_end(tmp_path: Path) -> None:
    first, second = play(7, tmp_path / "a"), play(7, tmp_path / "b")
    assert first.disk.statuses == second.disk.statuses
    assert first.world.now == second.world.now


def test_the_simulation_reaches_every_end(tmp_path: Path) -> None:
    ends = set()
    for seed in range(150):
        schedule = play(seed, tmp_path / str(seed))
        view = schedule.store.view(schedule.paths)
        assert view.cause is not None
        ends.add((view.state, view.cause.kind))
    states = {state for state, _ in ends}
    assert states == {State.SUCCESS, State.FAILED, State.TIMEDOUT, State.CANCELED}
    kinds = {kind for _, kind in ends}
    assert {CauseKind.NODE_LOST, CauseKind.SUPERVISOR_LOST, CauseKind.SETUP, CauseKind.EXIT_CODE} <= kinds


def test_a_supervisor_that_forgets_to_stop_nodes_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The check on the checks: an invariant that cannot fail would be worth nothing.
    monkeypatch.setattr("simulation.world.SimAllocation.release", lambda self: setattr(self, "released", True))
    monkeypatch.setattr("simulation.world.SimBackend.sweep", lambda _self, _run: None)
    monkeypatch.setattr("simulation.world.SimAllocation.kill", lambda _self, _node: None)

    def play_all() -> None:
        for seed in range(200):
            play(seed, tmp_path / str(seed))

    with pytest.raises(AssertionError, match="a node left started"):
        play_all()


def test_a_record_survives_the_trip_through_its_file(tmp_path: Path) -> None:
    record = replace(Schedule(1, tmp_path).record, warnings=('a "quoted"\nline', "ünïcode"), hosted_only={"a": [1]})
    assert codec.decode(RunRecord, codec.encode(record), source="test") == record

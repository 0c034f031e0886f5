"""The supervisor: one per run, the only writer of its status. It looks, asks the rules, and obeys.

Its order of writes is what makes a crash harmless: an attempt is on disk before its nodes start, and the terminal
status is the last thing written. A run whose supervisor died in between is ended by settle.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airlane.backends.base import Allocation, Backend, Interruption, NodePlace
from airlane.errors import AirError
from airlane.frozen import frozen
from airlane.store.disk import Disk
from airlane.store.journal import Journal
from airlane.store.paths import RunPaths
from airlane.store.records import Attempt, Cause, CauseKind, RunRecord, Status
from airlane.store.states import Phase, State
from airlane.supervise.causes import Evidence, attempt_cause, interrupted_cause, interrupted_state, refused_cause
from airlane.supervise.policy import Finish, Retry, decide
from airlane.supervise.ports import Clock, Tracking, Workshop
from airlane.supervise.recording import attempt_info, attempt_outcome
from airlane.supervise.rules import Ended, Kill, Situation, Stop, Stopping, Wait, next_action
from airlane.supervise.settle import judge_attempt

# How often the supervisor looks for a cancel request while nothing else happens.
LOOK_EVERY_S = 0.2
SHORTEST_LOOK_S = 0.001
TRACKING_START_S = 120.0
TRACKING_BEGIN_S = 10.0
TRACKING_FLUSH_S = 4.0
TRACKING_CLOSE_S = 60.0
# With a full disk the last word is said as soon as there is space again; after this, others work it out.
LAST_WORD_PATIENCE_S = 600.0
_LOST = Cause(CauseKind.NODE_FAILED, "the supervisor of this attempt was lost, and the run was started again")


@frozen
class Tools:
    """What a supervisor works with.

    `stop_requested` is why the supervisor itself was asked to stop, if it was; `params` are the workload's parameters.
    `close_orphan` closes in MLflow an attempt whose supervisor died.
    """

    backend: Backend
    workshop: Workshop
    tracking: Tracking
    disk: Disk
    clock: Clock
    evidence: Callable[[int], Evidence]
    stop_requested: Callable[[], Interruption | None]
    close_orphan: Callable[[Attempt], None]
    params: dict[str, Any]
    pid: int
    host: str
    look_every_s: float = LOOK_EVERY_S


class ReplacedError(Exception):
    """Another supervisor has taken this one's place: what this one would still do or write would be wrong."""


class Moved:
    """Another supervisor goes on with the run."""


class Supervisor:
    """Takes one run from submission to its terminal state, or to where another supervisor goes on with it.

    `earlier` is the status that the one before it left.
    """

    def __init__(self, record: RunRecord, paths: RunPaths, tools: Tools, *, earlier: Status | None = None) -> None:
        self._record = record
        self._paths = paths
        self._tools = tools
        self._clock = tools.clock
        self._journal = Journal(paths, tools.disk)
        self._written = True
        self._moved = False
        now = self._clock.now()
        place = tools.backend.where(paths)
        self._status = Status(State.PENDING, Phase.PREPARING, None, now, tools.pid, tools.host, place=place)
        if earlier is not None:
            self._status = replace(self._status, state=earlier.state, attempts=earlier.attempts)

    def run(self) -> State | None:
        """Supervise until the end, and return it; None if another supervisor goes on with the run.

        Raises:
            ReplacedError: another one does so already; nothing of this one's attempt runs any more.
        """
        self._update()
        self._journal.reserve()
        self._event("supervisor_started", pid=self._tools.pid, host=self._tools.host)
        self._tools.tracking.open()
        self._close_earlier()
        refused = self._prepare()
        outcome = Finish(*refused) if refused is not None else self._attempts()
        if isinstance(outcome, Finish) and self._moved:
            self._move_back()
        self._tools.workshop.close(run_ends=isinstance(outcome, Finish))
        self._tools.tracking.close(TRACKING_FLUSH_S)
        if isinstance(outcome, Moved):
            self._insist()
            self._tools.tracking.close(TRACKING_CLOSE_S)
            return None
        self._finish(outcome)
        self._tools.tracking.close(TRACKING_CLOSE_S)
        return outcome.state

    def _close_earlier(self) -> None:
        """End the attempt in which the supervisor before this one died."""
        attempts = self._status.attempts
        if not attempts or attempts[-1].ended_at is not None:
            return
        last = attempts[-1]
        told = judge_attempt(self._record, self._paths, last, evidence=self._tools.evidence(last.number))
        words = self._tools.backend.last_words(self._paths)
        interrupted = (interrupted_state(words.kind), interrupted_cause(words)) if words is not None else None
        machine = words is not None and words.kind is CauseKind.NODE_FAILED and last.cause is None
        if machine and told is not None and told[0] is not State.SUCCESS:
            told = None  # the others failed because of the machine that did
        state, cause = told or interrupted or (State.FAILED, _LOST)
        ended = replace(last, ended_at=self._clock.now(), state=state, cause=cause)
        self._tools.close_orphan(ended)
        self._tools.workshop.clean(ended.number)
        # Its nodes may have run, though the disk refused the status that said so.
        self._update(state=State.RUNNING, attempts=(*attempts[:-1], ended))
        self._event("attempt_ended", attempt=ended.number, state=ended.state, cause=cause.summary)

    def _prepare(self) -> tuple[State, Cause] | None:
        """None once the nodes can be asked for; how the run ends if there is nothing to ask for."""
        workshop = self._tools.workshop
        decision = decide(self._record.limits, self._status.attempts) if self._status.attempts else None
        if isinstance(decision, Finish):
            return decision.state, decision.cause  # the supervisor before this one died between the attempt and the end
        try:
            workshop.begin()
            while not workshop.ready():
                self._update_if_changed(detail=workshop.progress)
                if self._canceled():
                    return State.CANCELED, self._cancel_cause()
                asked = self._tools.stop_requested()
                if asked is not None:
                    return _out_of_time(asked)
                self._clock.sleep(self._tools.look_every_s / 2)
            return self._wait_for_tracking()
        except (AirError, OSError) as error:
            return State.FAILED, refused_cause(error)

    def _wait_for_tracking(self) -> tuple[State, Cause] | None:
        """A server that is only now started must not hold nodes: it is waited for before the queue."""
        deadline = self._clock.now() + TRACKING_START_S
        while not self._tools.tracking.settled(self._tools.look_every_s) and self._clock.now() < deadline:
            if self._canceled():
                return State.CANCELED, self._cancel_cause()
            asked = self._tools.stop_requested()
            if asked is not None:
                return _out_of_time(asked)
            self._update_if_changed(detail="starting the MLflow server")
        return None

    def _attempts(self) -> Finish | Moved:
        while True:
            outcome = self._next_attempt() if self._status.attempts else self._move()
            if outcome is not None:
                return outcome
            self._attempt(len(self._status.attempts))

    def _next_attempt(self) -> Finish | Moved | None:
        """What ends this supervisor's work after an attempt; None once another one is due here."""
        decision = decide(self._record.limits, self._status.attempts)
        if isinstance(decision, Finish):
            return decision
        number = len(self._status.attempts)
        self._event("retry", attempt=number, delay_s=decision.delay_s)
        moved = self._move()
        if moved is not None:
            return moved
        self._update(phase=Phase.RETRYING, detail=f"attempt {number} starts in {decision.delay_s:g} s")
        if not self._pause(decision.delay_s):
            return Finish(State.CANCELED, self._cancel_cause())
        return self._move()

    def _move(self) -> Finish | Moved | None:
        """Let another supervisor make the next attempt, where the backend wants that."""
        try:
            where = self._tools.backend.move(self._record, self._paths, self._status.attempts)
        except (AirError, OSError) as error:
            return Finish(State.FAILED, refused_cause(error))
        if where is None:
            return None
        self._moved = True
        if self._canceled():  # whoever asked may have looked for the run where it was before
            return Finish(State.CANCELED, self._cancel_cause())
        self._event("moved", to=where)
        self._update(phase=Phase.QUEUED, detail=where)
        return Moved()

    def _move_early(self, interruption: Interruption) -> None:
        """Move while there is time: who takes the nodes back ends this supervisor too, and soon."""
        now, state = self._clock.now(), interrupted_state(interruption.kind)
        last = replace(self._status.attempts[-1], ended_at=now, state=state, cause=interrupted_cause(interruption))
        attempts = (*self._status.attempts[:-1], last)
        if isinstance(decide(self._record.limits, attempts), Retry):
            try:
                self._moved = self._tools.backend.move(self._record, self._paths, attempts) is not None
            except (AirError, OSError) as error:
                self._event("not_moved", why=str(error))  # asked again when the attempt has ended

    def _move_back(self) -> None:
        """Keep the next supervisor from starting; one that starts all the same finds the run at its end."""
        try:
            self._tools.backend.cancel(self._paths)
        except (AirError, OSError) as error:
            self._event("not_moved_back", why=str(error))

    def _attempt(self, number: int) -> None:
        """One try. When it returns, the attempt is closed in the status and nothing of it runs."""
        held: list[Allocation] = []
        try:
            state, cause = self._try(number, held)
        except ReplacedError:
            for allocation in held:
                _abandon(allocation)
            raise
        ended_at = self._clock.now()  # before the next run can have the nodes
        for allocation in held:
            allocation.release()
        self._tools.workshop.clean(number)
        self._close_attempt(state, cause, ended_at)

    def _try(self, number: int, held: list[Allocation]) -> tuple[State, Cause]:
        """How the attempt ended; what it was allocated is in `held`."""
        try:
            allocation = self._tools.backend.allocate(self._record, self._paths, number)
            held.append(allocation)
            ended = self._wait_for_nodes(allocation)
            self._open_attempt(number, () if ended else allocation.places())
            return ended or self._run_nodes(number, allocation)
        except (AirError, OSError) as error:
            self._open_attempt(number, ())
            return State.FAILED, refused_cause(error)

    def _wait_for_nodes(self, allocation: Allocation) -> tuple[State, Cause] | None:
        """None once the nodes are granted; how the attempt ended if it was canceled or interrupted first."""
        while (waiting := allocation.waiting()) is not None:
            self._update_if_changed(phase=Phase.QUEUED, detail=waiting.detail)
            if self._canceled():
                return State.CANCELED, self._cancel_cause()
            interruption = self._interruption(allocation)
            if interruption is not None:
                return State.FAILED, interrupted_cause(interruption)  # it never ran: it cannot have run out of time
            allocation.wait(self._tools.look_every_s)
        return None

    def _open_attempt(self, number: int, places: tuple[NodePlace, ...]) -> None:
        if len(self._status.attempts) > number:
            return
        attempt = Attempt(number, self._clock.now(), hosts=tuple(place.host for place in places))
        self._update(phase=Phase.STARTING, detail=None, attempts=(*self._status.attempts, attempt))
        self._event("attempt_started", attempt=number, hosts=list(attempt.hosts))

    def _close_attempt(self, state: State, cause: Cause, ended_at: float) -> None:
        ended = replace(self._status.attempts[-1], ended_at=ended_at, state=state, cause=cause)
        self._tools.tracking.end_attempt(attempt_outcome(self._record, self._paths, ended))
        self._update(attempts=(*self._status.attempts[:-1], ended), tracking_error=self._tools.tracking.error)
        self._event("attempt_ended", attempt=ended.number, state=state, cause=cause.summary)

    def _run_nodes(self, number: int, allocation: Allocation) -> tuple[State, Cause]:
        places = allocation.places()
        info = attempt_info(self._record, self._paths, self._status.attempts[-1], self._tools.params)
        tracked = self._tools.tracking.begin_attempt(info, TRACKING_BEGIN_S)
        if tracked is not None:
            attempt = replace(self._status.attempts[-1], mlflow_run_id=tracked.run_id, mlflow_url=tracked.url)
            self._status = replace(self._status, attempts=(*self._status.attempts[:-1], attempt))
        orders = self._tools.workshop.orders(number, places, allocation.free_port(), tracked)
        # From here on a reader must assume that nodes run: the status says so before the first one does.
        self._update(state=State.RUNNING, phase=Phase.RUNNING, tracking_error=self._tools.tracking.error)
        started_at = self._clock.now()
        for order in orders:
            # With a full disk a supervisor before this one may have made this attempt without a trace but this.
            self._paths.node_record(attempt=number, node=order.node_rank).unlink(missing_ok=True)
            allocation.start(order)
            self._event("node_started", attempt=number, node=order.node_rank, host=places[order.node_rank].host)
        metrics = {p.node: self._paths.node_metrics(attempt=number, node=p.node) for p in places}
        self._tools.tracking.watch_metrics(metrics)
        end, interruption = self._watch(allocation, started_at)
        taken_back = allocation.interruption()
        reports = allocation.look()
        for report in reports:
            code = report.record.exit_code if report.record is not None else None
            self._event("node_ended", attempt=number, node=report.node, exit_code=code)
        evidence = self._tools.evidence(number)
        limits = self._record.limits
        cause = attempt_cause(
            end,
            reports,
            places,
            limits=limits,
            started_at=started_at,
            evidence=evidence,
            interruption=interruption,
        )
        return end.state, self._cancel_cause(taken_back) if cause.kind is CauseKind.CANCELED else cause

    def _watch(self, allocation: Allocation, started_at: float) -> tuple[Ended, Interruption | None]:
        """How the attempt ended, and the interruption that it was stopped for, whatever was asked later."""
        stopping: Stopping | None = None
        interruption: Interruption | None = None
        while True:
            now = self._clock.now()
            reports = allocation.look()
            interruption = interruption if stopping is not None else self._interruption(allocation)
            situation = Situation(
                now=now,
                started_at=started_at,
                limits=self._record.limits,
                reports=reports,
                cancel=self._canceled() or _cancels(allocation.interruption()),
                interrupted=interrupted_state(interruption.kind) if interruption is not None else None,
                stopping=stopping,
            )
            match next_action(situation):
                case Ended() as end:
                    return end, interruption
                case Stop(nodes, reason, first):
                    stopping = Stopping(reason, now, first)
                    self._event("stop_requested", nodes=list(nodes), reason=reason, first=first)
                    self._stopping(interruption)
                    for node in nodes:
                        allocation.stop(node)
                    if interruption is not None:
                        self._move_early(interruption)
                case Kill(nodes) if stopping is not None:
                    stopping = replace(stopping, killed_since=now)
                    self._event("killed", nodes=list(nodes))
                    for node in nodes:
                        allocation.kill(node)
                case Wait(until):
                    self._rewrite_if_refused()
                    left = self._tools.look_every_s if until is None else until - now
                    allocation.wait(min(self._tools.look_every_s, max(SHORTEST_LOOK_S, left)))

    def _stopping(self, interruption: Interruption | None) -> None:
        last = self._status.attempts[-1]
        if interruption is not None:  # who takes the nodes back may end this supervisor before it says so
            last = replace(last, cause=interrupted_cause(interruption))
        self._update(phase=Phase.STOPPING, attempts=(*self._status.attempts[:-1], last))

    def _finish(self, finish: Finish) -> None:
        now = self._clock.now()
        self._event("finished", state=finish.state, cause=finish.cause.summary)
        if finish.state in (State.SUCCESS, State.TIMEDOUT) and self._status.state is State.PENDING:
            raise AssertionError(f"a run that never ran cannot be {finish.state}")
        tracking = self._tools.tracking
        self._status = replace(self._status, tracking_error=tracking.error, last_metric=tracking.last_metric)
        self._update(state=finish.state, phase=None, detail=None, cause=finish.cause, ended_at=now)
        self._insist()

    def _insist(self) -> None:
        """Wait until the last status is on the disk: nobody will write it after us."""
        deadline = self._clock.now() + LAST_WORD_PATIENCE_S
        while not self._written and self._clock.now() < deadline:
            self._clock.sleep(1.0)
            self._rewrite_if_refused()

    def _pause(self, seconds: float) -> bool:
        """Wait; False if the run was canceled meanwhile."""
        deadline = self._clock.now() + seconds
        while (left := deadline - self._clock.now()) > 0:
            if self._canceled():
                return False
            if self._tools.stop_requested() is not None:
                return True
            self._rewrite_if_refused()
            self._clock.sleep(min(self._tools.look_every_s, max(SHORTEST_LOOK_S, left)))
        return not self._canceled()

    def _stand_down_if_replaced(self) -> None:
        if self._tools.backend.replaced(self._paths):
            raise ReplacedError

    def _canceled(self) -> bool:
        self._stand_down_if_replaced()
        return self._paths.cancel.exists() or _cancels(self._tools.stop_requested())

    def _cancel_cause(self, taken_back: Interruption | None = None) -> Cause:
        asked = self._tools.stop_requested() or taken_back
        if asked is not None and _cancels(asked) and not self._paths.cancel.exists():
            return interrupted_cause(asked)
        return Cause(CauseKind.CANCELED, "canceled by the user")

    def _interruption(self, allocation: Allocation) -> Interruption | None:
        """Why the place takes the nodes back, if it does and the run was not canceled."""
        if self._paths.cancel.exists():
            return None
        found = self._tools.stop_requested() or allocation.interruption()
        return None if _cancels(found) else found

    def _update(self, **changes: Any) -> None:
        self._stand_down_if_replaced()
        self._status = replace(self._status, **changes, updated_at=self._clock.now())
        self._written = self._journal.put(self._status)

    def _update_if_changed(self, **changes: Any) -> None:
        if any(getattr(self._status, name) != value for name, value in changes.items()):
            self._update(**changes)
        else:
            self._rewrite_if_refused()

    def _rewrite_if_refused(self) -> None:
        if not self._written:
            self._stand_down_if_replaced()
            self._written = self._journal.put(self._status)

    def _event(self, kind: str, **facts: Any) -> None:
        self._stand_down_if_replaced()
        self._journal.event(kind, self._clock.now(), **facts)


def _abandon(allocation: Allocation) -> None:
    """End what runs without a word to it: it must not save over what the next attempt does."""
    for report in allocation.look():
        allocation.kill(report.node)
    allocation.release()


def _cancels(interruption: Interruption | None) -> bool:
    return interruption is not None and interruption.kind is CauseKind.CANCELED


def _out_of_time(asked: Interruption) -> tuple[State, Cause] | None:
    """How a run ends whose time was up before its first attempt; None where the backend can move it."""
    return (State.FAILED, interrupted_cause(asked)) if asked.kind is CauseKind.TIMEOUT else None

"""The truth about a run whose supervisor died: end what it left, read what the nodes wrote, and write the verdict once.

Whoever looks at the run does this (`air get`, `air list`, the next run), several at a time if it comes to that: ending
processes twice is harmless, and the verdict is created exclusively.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

from airlane.backends.base import Backend, Interruption, Liveness, NodeReport
from airlane.store import codec
from airlane.store.disk import Disk
from airlane.store.paths import RunPaths
from airlane.store.records import Attempt, Cause, CauseKind, RunRecord, Verdict
from airlane.store.runs import RunStore, RunView, read_node_record
from airlane.store.states import State
from airlane.supervise.causes import Evidence, interrupted_cause, interrupted_state, node_cause
from airlane.supervise.rules import first_failure

_LOST = "its supervisor ended without a word (killed, or the machine went down)"


def settle(view: RunView, store: RunStore, backend: Backend, disk: Disk, *, now: float, evidence: Evidence) -> RunView:
    """The run's view, terminal if its supervisor is dead."""
    if view.state.terminal:
        return view
    if backend.poll([view.paths]).get(view.paths.id, Liveness.UNKNOWN) is not Liveness.DEAD:
        return view
    return settle_dead(view, store, backend, disk, now=now, evidence=evidence)


def settle_dead(
    view: RunView, store: RunStore, backend: Backend, disk: Disk, *, now: float, evidence: Evidence
) -> RunView:
    """The same of a run whose supervisor is known to be dead: where there are many, one question told it of all."""
    view = store.view(view.paths)  # the supervisor may have written the end between the look and its own end
    if view.state.terminal:
        return view
    backend.sweep(view.paths)
    state, cause = judge(view, evidence=evidence, last_words=backend.last_words(view.paths))
    verdict = Verdict(state, cause, now, "a reader")
    with contextlib.suppress(OSError):
        disk.remove(view.paths.secrets)
        disk.remove(view.paths.reserve)
    try:
        disk.create(view.paths.verdict, codec.encode(verdict))
    except OSError:
        return replace(view, verdict=verdict)  # no space: the verdict is told now and written another time
    return store.view(view.paths)


def judge(view: RunView, *, evidence: Evidence, last_words: Interruption | None = None) -> tuple[State, Cause]:
    """How a run ended whose supervisor did not live to say so. Pure but for reading the nodes' records.

    What the nodes wrote comes first, then the user's request to cancel, then what the backend knows.
    """
    canceled = view.paths.cancel.exists()
    attempts = view.status.attempts if view.status is not None else ()
    if not attempts or attempts[-1].ended_at is not None:
        return _between_attempts(attempts, canceled=canceled, last_words=last_words)
    told = judge_attempt(view.record, view.paths, attempts[-1], evidence=evidence)
    if told is not None:
        state, cause = told
        known = attempts[-1].cause is not None
        return state, cause if known else replace(cause, summary=f"{cause.summary}; {_LOST}")
    if canceled:
        return State.CANCELED, _canceled(last_words)
    if last_words is not None:
        return interrupted_state(last_words.kind), interrupted_cause(last_words)
    return State.FAILED, Cause(
        CauseKind.SUPERVISOR_LOST, f"the run was lost: {_LOST}", hint=f"air rerun {view.paths.id}"
    )


def judge_attempt(
    record: RunRecord, paths: RunPaths, attempt: Attempt, *, evidence: Evidence
) -> tuple[State, Cause] | None:
    """How an attempt ended by what its nodes and its supervisor wrote; None if all nodes were stopped or cut short."""
    reports = tuple(
        NodeReport(node, False, read_node_record(paths, attempt=attempt.number, node=node))
        for node in range(record.nodes)
    )
    if _succeeded(reports):
        return State.SUCCESS, Cause(CauseKind.COMPLETED, "the command exited with code 0")
    if attempt.cause is not None:
        return interrupted_state(attempt.cause.kind), attempt.cause
    first = first_failure(tuple(r for r in reports if _ended_by_itself(r)))
    if first is None:
        return None
    report = next(r for r in reports if r.node == first)
    host = _host(attempt, first)
    return State.FAILED, node_cause(report, host, started_at=attempt.started_at, evidence=evidence)


def _succeeded(reports: tuple[NodeReport, ...]) -> bool:
    """Node 0 succeeded by itself, and every other node did too or was stopped after it (as the stop rule does)."""
    head, *others = (report.record for report in reports)
    if head is None or not head.succeeded or head.stop_reason is not None:
        return False  # what saves on SIGTERM and then exits with 0 has not done its work
    return all(r is not None and r.ended_at is not None and (r.succeeded or r.stop_reason is not None) for r in others)


def _canceled(last_words: Interruption | None) -> Cause:
    """A scheduler that was asked to cancel the run did so: nothing was lost then."""
    done = last_words is not None and last_words.kind is CauseKind.CANCELED
    return Cause(CauseKind.CANCELED, "canceled by the user" + ("" if done else f"; {_LOST}"))


def _between_attempts(
    attempts: tuple[Attempt, ...], *, canceled: bool, last_words: Interruption | None
) -> tuple[State, Cause]:
    last = attempts[-1] if attempts else None
    if last is not None and last.state is State.SUCCESS and last.cause is not None:
        return State.SUCCESS, last.cause
    if canceled:
        return State.CANCELED, _canceled(last_words)
    if last is not None and last.state is not None and last.cause is not None:
        return last.state, replace(last.cause, summary=f"{last.cause.summary}; {_LOST}")
    if last_words is not None:
        canceled_there = last_words.kind is CauseKind.CANCELED
        return State.CANCELED if canceled_there else State.FAILED, interrupted_cause(last_words)
    return State.FAILED, Cause(CauseKind.SUPERVISOR_LOST, f"the run never started: {_LOST}")


def _ended_by_itself(report: NodeReport) -> bool:
    record = report.record
    return record is not None and record.ended_at is not None and record.stop_reason is None


def _host(attempt: Attempt, node: int) -> str:
    return attempt.hosts[node] if node < len(attempt.hosts) else "unknown host"

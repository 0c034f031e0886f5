"""The words in which the end of an attempt is told, compared whole with tests/golden/causes.txt."""

from __future__ import annotations

import pytest

from airlane.backends.base import Interruption, NodeReport
from airlane.errors import BackendError, CapacityError, EnvironmentBuildError, NodeFailedError, SnapshotError
from airlane.store.records import Cause, CauseKind, NodeRecord
from airlane.store.states import State
from airlane.supervise.causes import attempt_cause, duration_words, refused_cause
from airlane.supervise.rules import Ended, Reason
from golden_text import check_golden

from .made_nodes import START, exited, lost, made_limits, node_record, places, quiet, runs, stopped

LIMITS = made_limits(timeout_s=5400.0)


def nothing(_node: int, _record: NodeRecord) -> None:
    return None


def torch(_node: int, _record: NodeRecord) -> tuple[str, tuple[str, ...], str]:
    return "CUDA out of memory", ("torch.OutOfMemoryError: CUDA out of memory.",), "a smaller batch size"


def cause(
    end: Ended, *reports: NodeReport, evidence: object = nothing, interruption: Interruption | None = None
) -> Cause:
    return attempt_cause(
        end,
        reports,
        places(len(reports)),
        limits=LIMITS,
        started_at=START,
        evidence=evidence,  # type: ignore[arg-type]
        interruption=interruption,
    )


def failure(*reports: NodeReport, first: int = 0, evidence: object = nothing) -> Cause:
    return cause(Ended(State.FAILED, Reason.FAILURE, first), *reports, evidence=evidence)


def signalled(name: str) -> NodeReport:
    return NodeReport(0, False, node_record(0, at=2, signal=name))


SUCCESS, CANCELED = Ended(State.SUCCESS, None, None), Ended(State.CANCELED, Reason.CANCEL, None)
TIMEDOUT, LATE = Ended(State.TIMEDOUT, Reason.TIMEOUT, None), Ended(State.SUCCESS, Reason.STRAGGLERS, None)
PREEMPTED = Ended(State.FAILED, Reason.INTERRUPTED, None)
UNSAID = NodeReport(0, False, node_record(0, at=1))

CAUSES = {
    "success": cause(SUCCESS, exited(0, 0, 3)),
    "exit code": failure(exited(0, 3, 41.23456)),
    "exit code of the second of three nodes": failure(stopped(0, 9), exited(1, 1, 8), runs(2), first=1),
    "exit code, with what the log says": failure(exited(0, 1, 8), evidence=torch),
    "exit code of a shell whose program was killed": failure(exited(0, 137, 8)),
    "exit code beyond the signals": failure(exited(0, 255, 8)),
    "an end without a code": failure(UNSAID),
    "signal": failure(signalled("SIGSEGV")),
    "out of memory": failure(exited(0, 137, 8, oom_kill=True)),
    "no bash": failure(exited(0, 0, 0, error="the command could not be started: bash is not there")),
    "a killed command, and an engine that does not answer": failure(
        NodeReport(0, False, node_record(0, at=2, signal="SIGKILL", error="the container may be left: no answer"))
    ),
    "lost": failure(lost(0)),
    "lost before a word": failure(lost(0, spoke=False)),
    "a machine that failed": failure(NodeReport(0, False, None, "no sign of life for 60 s", host_failed=True)),
    "a machine that is not fit": refused_cause(NodeFailedError("gpu-b1 shows 7 of 8 GPUs", host="gpu-b1")),
    "preempted": cause(PREEMPTED, stopped(0, 4), interruption=Interruption(CauseKind.PREEMPTED, "preempted by Slurm")),
    "timeout": cause(TIMEDOUT, stopped(0, 5401)),
    "timeout, with what the log says": cause(TIMEDOUT, exited(0, 0, 9), stopped(1, 5401), evidence=torch),
    "canceled": cause(CANCELED, stopped(0, 4)),
    "one straggler": cause(LATE, exited(0, 0, 1), stopped(1, 302)),
    "stragglers, one of them killed": cause(LATE, exited(0, 0, 1), stopped(1, 302), runs(2), exited(3, 0, 2), quiet(4)),
    "no room": refused_cause(CapacityError("This machine has no GPU (asked for: 8 × H100).", hint="add --simulate")),
    "no environment": refused_cause(EnvironmentBuildError("torch==99 is not there")),
    "no code": refused_cause(SnapshotError("the code of this run is gone: /x", hint="air run -f w.yaml")),
    "no scheduler": refused_cause(BackendError("gpu-b1 does not answer")),
    "no space": refused_cause(OSError(28, "No space left on device", "/fsx/x")),
    "an error without words": refused_cause(OSError()),
}  # fmt: skip


def test_every_end_is_told_as_agreed() -> None:
    check_golden("causes.txt", "\n\n".join(f"# {name}\n{in_full(each)}" for name, each in CAUSES.items()))


def in_full(each: Cause) -> str:
    numbers = {
        "node": each.node,
        "host": each.host,
        "exit_code": each.exit_code,
        "signal": each.signal,
        "after_s": each.after_s,
        "collateral_nodes": each.collateral_nodes or None,
        "finding": each.finding,
        "log_lines": each.log_lines or None,
        "hint": each.hint,
    }
    lines = [f"{each.kind}: {each.summary}", *(f"  {k} {v}" for k, v in numbers.items() if v is not None)]
    return "\n".join(lines)


def test_every_kind_of_cause_that_a_supervisor_finds_is_in_the_table() -> None:
    elsewhere = {CauseKind.SUPERVISOR_LOST}  # settle.py
    assert {each.kind for each in CAUSES.values()} == set(CauseKind) - elsewhere


def test_the_log_is_not_searched_when_there_is_no_failure_in_it() -> None:
    def never(_node: int, _record: NodeRecord) -> None:
        pytest.fail("the log was searched")

    cause(SUCCESS, exited(0, 0, 3), evidence=never)
    cause(CANCELED, stopped(0, 3), evidence=never)
    failure(lost(0), evidence=never)


def test_a_clock_that_ran_backwards_gives_no_negative_time() -> None:
    assert failure(exited(0, 1, -5)).after_s == 0.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.5, "0.5 s"), (30.0, "30 s"), (60.0, "1 min"), (90.0, "1 min 30 s"), (300.0, "5 min"), (5400.0, "90 min")],
)
def test_durations_are_told_in_minutes_and_seconds(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words

"""What is made of a run whose supervisor died while, or because of which, its command was being stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airlane.store import codec
from airlane.store.paths import Home
from airlane.store.records import Attempt, Cause, CauseKind, EnvironmentRecord, Limits, NodeRecord, RunRecord, Status
from airlane.store.runs import RunContent, RunStore, RunView
from airlane.store.states import Phase, State
from airlane.supervise.settle import judge


def _run(home: Path, *nodes: tuple[int | None, str | None]) -> RunView:
    """A run in its first attempt, whose nodes ended with these exit codes and stop reasons."""
    store = RunStore(Home(home))
    limits = Limits(0, None, 30.0, 300.0)
    record = RunRecord(
        "", "test", "me", 1.0, "w.yaml", "local", None, len(nodes), len(nodes), 1, "CPU_1xCORE", simulate=False,
        limits=limits, environment=EnvironmentRecord("host", (), "3.11", None),
    )  # fmt: skip
    paths = store.create(record, RunContent("", "true")).paths
    attempt = Attempt(0, 2.0, hosts=("here",) * len(nodes))
    status = Status(State.RUNNING, Phase.RUNNING, None, 2.0, 1, "here", (attempt,))
    store.disk.replace(paths.status, codec.encode(status))
    paths.nodes(0).mkdir(parents=True)
    for node, (exit_code, stop_reason) in enumerate(nodes):
        end = NodeRecord(node, "here", 2, "subreaper", 2.0, 3, 4.0, exit_code, stop_reason=stop_reason)
        store.disk.replace(paths.node_record(attempt=0, node=node), codec.encode(end))
    return store.view(paths)


@pytest.mark.parametrize("reason", ["orphaned", "stop"])
def test_a_command_that_saves_and_exits_0_when_it_is_stopped_has_not_succeeded(tmp_path: Path, reason: str) -> None:
    view = _run(tmp_path, (0, reason))
    state, cause = judge(view, evidence=lambda *_: None)
    assert state is State.FAILED
    assert "the run was lost" in cause.summary


def test_a_command_that_had_succeeded_before_its_supervisor_died_has_succeeded(tmp_path: Path) -> None:
    view = _run(tmp_path, (0, None), (143, "orphaned"), (0, "orphaned"))
    assert judge(view, evidence=lambda *_: None)[0] is State.SUCCESS


def test_a_canceled_command_that_exits_0_is_canceled_after_its_supervisor_died_too(tmp_path: Path) -> None:
    view = _run(tmp_path, (0, "stop"))
    view.paths.cancel.write_bytes(b"{}")
    assert judge(view, evidence=lambda *_: None)[0] is State.CANCELED


@pytest.mark.parametrize(("kind", "state"), [(CauseKind.PREEMPTED, State.FAILED), (CauseKind.TIMEOUT, State.TIMEDOUT)])
def test_a_supervisor_that_wrote_why_it_is_ended_is_believed(tmp_path: Path, kind: CauseKind, state: State) -> None:
    view = _run(tmp_path, (1, None), (143, "stop"))
    assert view.status is not None
    why = Cause(kind, "Slurm takes the nodes back")
    attempt = replace(view.attempts[0], cause=why)
    view = replace(view, status=replace(view.status, attempts=(attempt,)))
    assert judge(view, evidence=lambda *_: None) == (state, why)

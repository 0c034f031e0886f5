"""Many submissions at once on few slots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airlane.launch.cores import usable_cores
from airlane.store.runs import RunView
from airlane.store.states import State

from .conftest import Lane, ended, wait_until

RUNS = 100


def started_at(view: RunView) -> float:
    assert view.started_at is not None
    return view.started_at


def most_at_once(views: list[RunView]) -> int:
    moments: list[tuple[float, int]] = []
    for view in views:
        attempt = view.attempts[0]
        assert attempt.ended_at is not None
        moments += [(attempt.started_at, 1), (attempt.ended_at, -1)]
    running = most = 0
    for _, change in sorted(moments):
        running += change
        most = max(most, running)
    return most


@pytest.mark.slow
def test_a_hundred_submissions_at_once_run_in_order_and_never_too_many(lane: Lane) -> None:
    slots = min(2, usable_cores())
    workload = lane.workload("sleep 0.05", cores=usable_cores() // slots)
    submitting = [lane.start("run", "-f", workload, "--json") for _ in range(RUNS)]
    ids = []
    for each in submitting:
        out, err = each.communicate(timeout=240)
        assert each.returncode == 0, err
        assert b"database is locked" not in err
        ids.append(json.loads(out)["data"]["run_id"])
    runs = [lane.client.get(run_id) for run_id in ids]
    views = [ended(run, within_s=240) for run in runs]
    assert {view.state for view in views} == {State.SUCCESS}
    assert most_at_once(views) <= slots
    in_order = sorted(views, key=queue_place)
    starts = [started_at(view) for view in in_order]
    late = sum(1 for before, after in zip(starts, starts[slots:], strict=False) if after < before)
    assert late == 0, "a run overtook one that was submitted before it"
    listed = lane.air("list", "--limit", "200", "--all-status", "-q").stdout.split()
    assert set(ids) <= set(listed)
    assert "database is locked" not in lane.air("list").stderr


def queue_place(view: RunView) -> tuple[float, str]:
    return view.record.submitted_at, view.record.id


def test_the_position_in_the_queue_is_told(lane: Lane) -> None:
    cores = usable_cores()
    first = lane.submit(lane.workload("sleep 600", cores=cores))
    wait_until(lambda: first.view().state is State.RUNNING, within_s=20, what="the first run runs")
    second, third = (lane.submit(lane.workload("true", cores=cores)) for _ in range(2))
    wait_until(lambda: "2nd in line" in lane.air("get", third.id).stdout, within_s=20, what="a queue position")
    assert f"1st in line, {cores} of {cores} cores busy" in lane.air("get", second.id).stdout
    lane.air("cancel", first.id)
    assert [ended(run).state for run in (second, third)] == [State.SUCCESS] * 2


def test_a_critical_run_goes_before_a_normal_one(lane: Lane) -> None:
    cores = usable_cores()
    compute = {"num_accelerators": cores, "accelerator_type": f"CPU_{cores}xCORE"}
    first = lane.submit(lane.workload("sleep 600", cores=cores))
    wait_until(lambda: first.view().state is State.RUNNING, within_s=20, what="the first run runs")
    normal = lane.submit(lane.workload("true", cores=cores))
    critical = lane.submit(lane.workload("true", compute={**compute, "priority_class": "CRITICAL"}))
    wait_until(lambda: "2nd in line" in lane.air("get", normal.id).stdout, within_s=20, what="the normal run waits")
    lane.air("cancel", first.id)
    assert started_at(ended(critical)) < started_at(ended(normal))


def test_a_waiting_run_can_be_canceled_and_leaves_the_queue(lane: Lane) -> None:
    cores = usable_cores()
    first = lane.submit(lane.workload("sleep 600", cores=cores))
    second, third = (lane.submit(lane.workload("true", cores=cores)) for _ in range(2))
    lane.air("cancel", second.id)
    view = ended(second)
    assert (view.state, view.started_at is None or view.cause is not None) == (State.CANCELED, True)
    lane.air("cancel", first.id)
    assert ended(third).state is State.SUCCESS
    assert not list(Path(lane.home / "slots" / "cpu" / "queue").glob(f"*{second.id}*"))

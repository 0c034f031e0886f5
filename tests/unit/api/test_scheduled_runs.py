"""A client whose runs go to a scheduler, which is made up here: what waits is told, and all is asked at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airlane import environment
from airlane.api import listing
from airlane.backends.base import Interruption, Liveness, Waiting
from airlane.environment import EnvironmentPlan
from airlane.errors import CapacityError, ConfigError, EnvironmentBuildError, SlurmUnavailableError
from airlane.store import codec
from airlane.store.paths import RunPaths
from airlane.store.records import CauseKind, RunRecord, Status
from airlane.store.runs import NewRun
from airlane.store.states import Phase, State

from .conftest import Bench, MadeBackend

DETAIL = "other runs go first; expected to start in about 2 hours"


class Scheduler(MadeBackend):
    """Says of each run what it is told to, and keeps what it was asked."""

    elsewhere = True

    def __init__(self) -> None:
        super().__init__()
        self.states: dict[str, Liveness] = {}
        self.polled: list[int] = []
        self.asked_for_queue: list[list[str]] = []
        self.canceled: list[tuple[str, bool]] = []
        self.cancel_refusal: Exception | None = None
        self.words: Interruption | None = None
        self.check_refusal: Exception | None = None
        self.scripts: list[Path] = []

    def check(self, compute: Any) -> tuple[str, ...]:
        if self.check_refusal is not None:
            raise self.check_refusal
        return super().check(compute)

    def poll(self, runs: Sequence[RunPaths]) -> Mapping[str, Liveness]:
        self.polled.append(len(runs))
        return {run.id: self.states.get(run.id, Liveness.ALIVE) for run in runs}

    def queued(self, runs: Sequence[RunPaths]) -> Mapping[str, Waiting]:
        self.asked_for_queue.append([run.id for run in runs])
        return {run.id: Waiting(DETAIL) for run in runs if not (run.root / "unknown").exists()}

    def where(self, run: RunPaths) -> str | None:
        return f"Slurm job of {run.id}"

    def cancel(self, run: RunPaths) -> None:
        self.canceled.append((run.id, run.cancel.exists()))
        if self.cancel_refusal is not None:
            raise self.cancel_refusal

    def last_words(self, run: RunPaths) -> Interruption | None:
        assert run.root.exists()
        return self.words

    def submission_script(self, run: RunRecord, paths: RunPaths) -> str | None:
        assert run.id == paths.id
        self.scripts.append(paths.root)
        return f"#!/bin/bash\n# {run.experiment_name}\n"


@pytest.fixture
def scheduler(bench: Bench) -> Scheduler:
    made = Scheduler()
    bench.backend = made
    bench.client = bench.new_client()
    return made


# Before it is submitted.


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, bench: Bench, scheduler: Scheduler) -> list[str]:
    """What happens, in order, when an environment that is not there yet is built."""
    happened: list[str] = []
    plan = environment.plan

    def uncached(*arguments: Any, **more: Any) -> EnvironmentPlan:
        return replace(plan(*arguments, **more), cached=False)

    def build(planned: EnvironmentPlan, *, progress: Any) -> None:
        assert planned.base == "host"
        progress("resolving")
        happened.append("built")

    monkeypatch.setattr(environment, "plan", uncached)
    monkeypatch.setattr(environment, "build", build)

    def submitting(new: NewRun) -> None:
        bench.locks.append(new.lock)
        happened.append("submitted")

    scheduler.meanwhile = submitting
    return happened


def test_the_environment_is_built_before_the_run_is_submitted(bench: Bench, built: list[str]) -> None:
    said: list[tuple[str, str]] = []
    bench.client.submit(bench.client.plan(bench.workload()), progress=lambda what, words: said.append((what, words)))
    assert built == ["built", "submitted"]
    assert ("environment", "resolving") in said


def test_an_environment_that_is_there_is_not_built_again(
    bench: Bench, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "build", lambda *_, **__: pytest.fail("built"))
    scheduler.meanwhile = lambda new: bench.locks.append(new.lock)
    assert bench.client.submit(bench.client.plan(bench.workload())).created


def test_an_environment_that_cannot_be_built_leaves_no_run(
    bench: Bench, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise EnvironmentBuildError("no version of torch fits")

    monkeypatch.setattr(environment, "build", refuse)
    with pytest.raises(EnvironmentBuildError):
        bench.client.submit(bench.client.plan(bench.workload()))
    assert list(bench.home.glob("runs/*/*")) == []
    assert built == []


def test_a_plan_shows_what_the_scheduler_would_get(bench: Bench, scheduler: Scheduler) -> None:
    plan = bench.client.plan(bench.workload(), touch=False)
    assert plan.script == "#!/bin/bash\n# test\n"
    assert scheduler.scripts == [bench.home / "runs" / "<month>" / "<run id>"]
    assert not bench.home.exists()


@pytest.mark.parametrize(
    "refusal",
    [
        CapacityError("no node has 8 GPUs"),
        ConfigError("there is no partition gpu"),
        SlurmUnavailableError("sbatch gave no answer"),
    ],
)
def test_a_plan_that_is_refused_says_why_and_has_no_script(
    bench: Bench, scheduler: Scheduler, refusal: CapacityError | ConfigError
) -> None:
    scheduler.check_refusal = refusal
    plan = bench.client.plan(bench.workload())
    assert (plan.refusal, plan.backend_lines, plan.script) == (refusal, (refusal.message,), None)
    with pytest.raises(type(refusal)):
        bench.client.submit(plan)
    assert list(bench.home.glob("runs/*/*")) == []


# While it waits.


def test_a_run_that_waits_says_for_what_and_where(bench: Bench, scheduler: Scheduler) -> None:
    run = bench.run()
    scheduler.states[run.id] = Liveness.WAITING
    status = bench.client.get(run.id).view().status
    assert status is not None
    assert (status.state, status.phase, status.detail) == (State.PENDING, Phase.QUEUED, DETAIL)
    assert status.place == f"Slurm job of {run.id}"
    assert not run.status.exists(), "nothing is written for a run that has no supervisor"


def test_a_run_that_is_to_be_started_again_waits_whatever_its_last_supervisor_wrote(
    bench: Bench, scheduler: Scheduler
) -> None:
    run = bench.run(State.RUNNING)
    scheduler.states[run.id] = Liveness.WAITING
    view = bench.client.get(run.id).view()
    assert view.status is not None
    assert (view.state, view.status.phase, view.status.detail) == (State.RUNNING, Phase.QUEUED, DETAIL)
    assert len(view.attempts) == 1


def test_a_run_of_which_the_queue_says_nothing_is_shown_as_its_files_tell(bench: Bench, scheduler: Scheduler) -> None:
    run = bench.run(State.RUNNING)
    (run.root / "unknown").touch()
    scheduler.states[run.id] = Liveness.WAITING
    status = bench.client.get(run.id).view().status
    assert status is not None
    assert status.phase is Phase.RUNNING


@pytest.mark.parametrize("state", [Liveness.ALIVE, Liveness.UNKNOWN])
def test_a_run_that_does_not_wait_is_not_looked_for_in_the_queue(
    bench: Bench, scheduler: Scheduler, state: Liveness
) -> None:
    run = bench.run(State.RUNNING)
    scheduler.states[run.id] = state
    assert bench.client.get(run.id).view().state is State.RUNNING
    assert scheduler.asked_for_queue == []


# Many at once.


def test_many_runs_cost_one_question_of_each_kind(bench: Bench, scheduler: Scheduler) -> None:
    waiting = [bench.run().id for _ in range(3)]
    dead = [bench.run(State.RUNNING).id for _ in range(4)]
    living = [bench.run(State.RUNNING).id for _ in range(5)]
    ended = [bench.run(State.SUCCESS).id for _ in range(2)]
    scheduler.states = {**dict.fromkeys(waiting, Liveness.WAITING), **dict.fromkeys(dead, Liveness.DEAD)}
    views = {view.record.id: view for view in bench.client.list(limit=100)}
    assert scheduler.polled == [12]
    assert [sorted(asked) for asked in scheduler.asked_for_queue] == [sorted(waiting)]
    assert sorted(scheduler.swept) == sorted(dead)
    assert {views[each].state for each in dead} == {State.FAILED}
    assert {views[each].state for each in living} == {State.RUNNING}
    assert {views[each].state for each in ended} == {State.SUCCESS}


def test_a_list_asks_about_as_many_runs_as_it_has_read_and_no_more_than_it_needs(
    bench: Bench, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_CHUNK", 4)
    made = [bench.run(State.RUNNING).id for _ in range(10)]
    assert [view.record.id for view in bench.client.list(limit=6)] == made[:3:-1]
    assert scheduler.polled == [4, 4]
    scheduler.polled.clear()
    assert len(bench.client.list(limit=100)) == 10
    assert scheduler.polled == [4, 4, 2]


def test_runs_that_have_ended_cost_no_question(bench: Bench, scheduler: Scheduler) -> None:
    for _ in range(3):
        bench.run(State.SUCCESS)
    assert len(bench.client.list()) == 3
    assert scheduler.polled == []


def test_a_damaged_run_among_the_dead_keeps_no_other_from_its_end(bench: Bench, scheduler: Scheduler) -> None:
    good, bad = bench.run(State.RUNNING), bench.run(State.RUNNING)
    scheduler.states = dict.fromkeys((good.id, bad.id), Liveness.DEAD)
    seen = scheduler.poll

    def poll(runs: Sequence[RunPaths]) -> Mapping[str, Liveness]:
        bad.status.write_bytes(b"{")  # between the reading and the judgement
        return seen(runs)

    scheduler.poll = poll  # type: ignore[method-assign]
    told: list[str] = []
    (view,) = bench.client.list(on_damage=lambda error: told.append(error.message))
    assert (view.record.id, view.state) == (good.id, State.FAILED)
    assert [str(bad.status) in message for message in told] == [True]


def test_what_the_scheduler_says_of_a_dead_run_is_its_cause(bench: Bench, scheduler: Scheduler) -> None:
    run = bench.run()
    scheduler.states[run.id] = Liveness.DEAD
    scheduler.words = Interruption(CauseKind.CANCELED, "Slurm job 17 was canceled")
    view = bench.client.get(run.id).view()
    assert (view.state, view.cause and view.cause.summary) == (State.CANCELED, "Slurm job 17 was canceled")


def test_a_run_that_ended_while_it_was_asked_about_is_not_judged(bench: Bench, scheduler: Scheduler) -> None:
    run = bench.run(State.RUNNING)
    scheduler.states[run.id] = Liveness.DEAD
    seen = scheduler.poll

    def poll(runs: Sequence[RunPaths]) -> Mapping[str, Liveness]:
        bench.tell(run, State.SUCCESS)
        return seen(runs)

    scheduler.poll = poll  # type: ignore[method-assign]
    assert bench.client.get(run.id).view().state is State.SUCCESS
    assert scheduler.swept == []
    assert not run.verdict.exists()


# Canceling.


def test_the_scheduler_hears_of_a_cancel_once_it_is_on_the_disk(bench: Bench, scheduler: Scheduler) -> None:
    runs = [bench.run(State.RUNNING).id for _ in range(2)]
    ended = bench.run(State.SUCCESS).id
    assert set(bench.client.cancel([*runs, ended])) == set(runs)
    assert sorted(scheduler.canceled) == sorted((run, True) for run in runs)


def test_a_second_cancel_is_told_to_the_scheduler_too(bench: Bench, scheduler: Scheduler) -> None:
    run = bench.run(State.RUNNING)
    bench.client.cancel([run.id])
    request = run.cancel.read_bytes()
    bench.client.cancel([run.id])
    assert scheduler.canceled == [(run.id, True)] * 2
    assert run.cancel.read_bytes() == request


def test_a_scheduler_that_does_not_answer_leaves_the_request_on_the_disk(bench: Bench, scheduler: Scheduler) -> None:
    run = bench.run(State.RUNNING)
    scheduler.cancel_refusal = SlurmUnavailableError("scancel gave no answer in 10 s")
    with pytest.raises(SlurmUnavailableError):
        bench.client.cancel([run.id])
    assert run.cancel.exists()


def test_a_run_that_was_canceled_in_the_queue_is_canceled(bench: Bench, scheduler: Scheduler) -> None:
    run = bench.run()
    bench.client.cancel([run.id])
    scheduler.states[run.id] = Liveness.DEAD
    assert bench.client.get(run.id).view().state is State.CANCELED


def test_a_place_that_the_supervisor_wrote_stays_in_the_status(bench: Bench, scheduler: Scheduler) -> None:
    del scheduler
    run = bench.run(State.RUNNING)
    status = codec.read(Status, run.status)
    assert status is not None
    run.status.write_bytes(codec.encode(replace(status, place="Slurm job 17")))
    view = bench.client.get(run.id).view()
    assert view.status is not None
    assert view.status.place == "Slurm job 17"

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airlane.errors import EnvironmentBuildError
from airlane.store.paths import Home
from airlane.store.records import Cause, CauseKind
from airlane.store.states import State
from airlane.tracking import tracker as tracker_module
from airlane.tracking.targets import Embedded, Remote
from airlane.tracking.tracker import AttemptInfo, AttemptOutcome, NoTracker, Tracker, make_tracker

if TYPE_CHECKING:
    from unit.tracking.conftest import StandIn

ENV = {"HOME": "/nonexistent"}
Make = Callable[[str], Tracker]


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_module, "RETRY_AFTER_S", (0.01,))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Tracker] = []

    def tracker(uri: str) -> Tracker:
        made.append(Tracker(lambda: Remote(uri, ENV), Home(tmp_path / "ho me"), flush_every_s=0.01))
        made[-1].open()
        return made[-1]

    yield tracker
    for each in made:
        each.close(5)


def info(attempt: int = 0, **changes: Any) -> AttemptInfo:
    fields: dict[str, Any] = {
        "run_id": "7k2m9q4d",
        "attempt": attempt,
        "experiment_name": "train",
        "run_name": "train",
        "started_at": 1000.5,
        "tags": {"mlflow.user": "ann"},
    }
    return AttemptInfo(**fields | changes)


def outcome(state: State = State.SUCCESS, artifacts: tuple[tuple[Path, str], ...] = ()) -> AttemptOutcome:
    kind = CauseKind.COMPLETED if state is State.SUCCESS else CauseKind.EXIT_CODE
    return AttemptOutcome(state, Cause(kind, "because"), 1010.0, artifacts)


def tags(run: dict[str, Any]) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in run["data"]["tags"]}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 10 s"
        threading.Event().wait(0.005)


def test_an_attempt_is_created_watched_and_closed(make: Make, stand_in: StandIn, tmp_path: Path) -> None:
    workload, log, metrics = tmp_path / "work load.yaml", tmp_path / "0.log", tmp_path / "0.metrics.jsonl"
    workload.write_text("command: x")
    log.write_text("hello\n")
    tracker = make(stand_in.uri)
    tracked = tracker.begin_attempt(info(artifacts=((workload, ""),), params={"optim": {"lr": 0.1}}), 10)
    assert tracked is not None
    assert tracked.url == f"{stand_in.uri}/#/experiments/1/runs/run0"
    assert stand_in.only_run()["info"]["status"] == "RUNNING"
    assert tags(stand_in.only_run()) == {
        "mlflow.user": "ann",
        "airlane.run_id": "7k2m9q4d",
        "airlane.attempt": "0",
    }
    tracker.watch_metrics({0: metrics})
    metrics.write_text('{"t": 1, "m": {"cpu_utilization_percentage": 5}}\n')
    until(lambda: bool(stand_in.only_run()["data"]["metrics"]))
    with metrics.open("a") as file:
        file.write('{"t": 2, "m": {"cpu_utilization_percentage": 6}}')
    tracker.end_attempt(outcome(State.SUCCESS, ((log, "logs/node_0"), (tmp_path / "missing", "logs/node_1"))))
    tracker.close(10)
    run = stand_in.only_run()
    assert tracker.error is None
    assert (run["info"]["status"], run["info"]["end_time"]) == ("FINISHED", 1010_000)
    assert [(m["key"], m["value"], m["step"]) for m in run["data"]["metrics"]] == [
        ("system/cpu_utilization_percentage", 5, 0),
        ("system/cpu_utilization_percentage", 6, 1),
    ]
    assert run["data"]["params"] == [{"key": "optim.lr", "value": "0.1"}]
    assert stand_in.artifacts == {
        "1/run0/artifacts/work load.yaml": b"command: x",
        "1/run0/artifacts/logs/node_0/0.log": b"hello\n",
    }


def test_each_attempt_is_a_run_of_its_own(make: Make, stand_in: StandIn) -> None:
    tracker = make(stand_in.uri)
    for attempt, state in enumerate((State.TIMEDOUT, State.FAILED, State.CANCELED)):
        assert tracker.begin_attempt(info(attempt), 10) is not None
        tracker.end_attempt(outcome(state))
    tracker.close(10)
    runs = list(stand_in.runs.values())
    assert [run["info"]["status"] for run in runs] == ["FAILED", "FAILED", "KILLED"]
    assert [tags(run)["airlane.attempt"] for run in runs] == ["0", "1", "2"]
    assert tags(runs[0])["mlflow.note.content"] == "TIMEDOUT: because"


def test_what_the_users_code_logged_is_left_alone(make: Make, stand_in: StandIn) -> None:
    tracker = make(stand_in.uri)
    tracker.begin_attempt(info(params={"lr": "1e-05", "epochs": "3"}), 10)
    run = stand_in.only_run()
    run["info"]["status"] = "FINISHED"
    run["data"]["params"].append({"key": "lr", "value": "0.00001"})
    run["data"]["tags"].append({"key": "mlflow.note.content", "value": "my note"})
    tracker.end_attempt(outcome(State.FAILED))
    tracker.close(10)
    run = stand_in.only_run()
    assert run["info"]["status"] == "FAILED", "our verdict wins"
    assert run["data"]["params"] == [{"key": "lr", "value": "0.00001"}, {"key": "epochs", "value": "3"}]
    assert tags(run)["mlflow.note.content"] == "my note"


def test_an_attempt_that_never_began_is_not_tracked(make: Make, stand_in: StandIn) -> None:
    tracker = make(stand_in.uri)
    tracker.watch_metrics({})
    tracker.end_attempt(outcome(State.FAILED))
    tracker.close(10)
    assert stand_in.runs == {}
    assert tracker.error is None


def test_a_server_that_is_down_is_told_soon_and_caught_up_with_when_it_is_back(
    make: Make, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in.down = True
    tracker = make(stand_in.uri)
    assert tracker.begin_attempt(info(), 10) is None
    assert "dropped the connection" in (tracker.error or "")
    metrics = tmp_path / "m"
    metrics.write_text("".join(f'{{"t": {i}, "m": {{"a": {i}}}}}\n' for i in range(5)))
    tracker.watch_metrics({0: metrics})
    stand_in.down = False
    until(lambda: bool(stand_in.runs) and len(stand_in.only_run()["data"]["metrics"]) == 5)
    until(lambda: tracker.error is None)
    assert tracker.tracked is not None
    tracker.end_attempt(outcome())
    tracker.close(10)
    assert stand_in.only_run()["info"]["status"] == "FINISHED"


def test_metrics_of_an_outage_are_neither_lost_nor_doubled(make: Make, stand_in: StandIn, tmp_path: Path) -> None:
    tracker = make(stand_in.uri)
    tracker.begin_attempt(info(), 10)
    metrics = tmp_path / "m"
    tracker.watch_metrics({3: metrics, 4: tmp_path / "n"})
    stand_in.faults.extend(["drop", "drop", "500", "503", "drop"])
    metrics.write_text("".join(f'{{"t": {i}, "m": {{"a": {i}}}}}\n' for i in range(5)))
    until(lambda: len(stand_in.only_run()["data"]["metrics"]) >= 5)
    tracker.end_attempt(outcome())
    tracker.close(10)
    assert [m["value"] for m in stand_in.only_run()["data"]["metrics"]] == [0, 1, 2, 3, 4]
    assert stand_in.only_run()["info"]["status"] == "FINISHED"
    assert stand_in.only_run()["data"]["metrics"][0]["key"] == "system/node_3/a"


def test_a_run_whose_creation_was_not_confirmed_is_found_again(make: Make, stand_in: StandIn) -> None:
    tracker = make(stand_in.uri)
    until(lambda: len(stand_in.requests) >= 1)
    stand_in.experiments["train"] = {"experiment_id": "1", "name": "train", "artifact_location": "mlflow-artifacts:/1"}
    stand_in.faults.extend(["", "drop after work"])
    tracked = tracker.begin_attempt(info(), 10)
    assert tracked is not None
    assert list(stand_in.runs) == [tracked.run_id]


def test_a_server_that_hangs_stalls_the_supervisor_no_longer_than_it_allows(make: Make, stand_in: StandIn) -> None:
    stand_in.faults.extend(["hang"] * 5)
    tracker = make(stand_in.uri)
    started = time.monotonic()
    assert tracker.begin_attempt(info(), 0.1) is None
    assert tracker.error == "the tracking server was not ready within 0.1 s"
    tracker.watch_metrics({})
    tracker.end_attempt(outcome())
    tracker.close(0.1)
    assert time.monotonic() - started < 2
    stand_in.release.set()


def test_closing_gives_up_on_a_server_that_stays_away(make: Make, stand_in: StandIn) -> None:
    tracker = make(stand_in.uri)
    assert tracker.begin_attempt(info(), 10) is not None
    stand_in.down = True
    tracker.end_attempt(outcome())
    started = time.monotonic()
    tracker.close(60)
    assert time.monotonic() - started < 10
    assert "dropped the connection" in (tracker.error or "")


@pytest.mark.parametrize("uri", ["databricks", "sqlite:///x.db", "http://"])
def test_a_uri_that_is_not_supported_is_told_at_once_and_no_more_is_tried(uri: str, make: Make) -> None:
    tracker = make(uri)
    started = time.monotonic()
    assert tracker.begin_attempt(info(), 30) is None
    assert (tracker.error or "").startswith("tracking URI")
    tracker.end_attempt(outcome())
    tracker.close(30)
    assert time.monotonic() - started < 10


def test_a_server_whose_environment_cannot_be_built_is_told_and_built_no_second_time(tmp_path: Path) -> None:
    calls: list[None] = []

    def python() -> Path:
        calls.append(None)
        raise EnvironmentBuildError("no solution found")

    home = Home(tmp_path)
    tracker = Tracker(lambda: Embedded(home, python), home, flush_every_s=0.01)
    tracker.open()
    assert tracker.begin_attempt(info(), 10) is None
    assert tracker.error == "no solution found"
    tracker.close(10)
    assert len(calls) == 1


def test_a_server_past_its_start_is_not_waited_for_before_the_queue(tmp_path: Path) -> None:
    answered = False

    def target() -> Embedded:
        raise AssertionError("the thread was never started")

    tracker = Tracker(target, Home(tmp_path), started=lambda: answered)
    assert not tracker.settled(0.0)
    answered = True
    assert tracker.settled(3600.0)


def test_a_defect_in_the_thread_is_told_and_touches_nothing_else(tmp_path: Path) -> None:
    def target() -> Embedded:
        raise ZeroDivisionError("oops")

    tracker = Tracker(target, Home(tmp_path), flush_every_s=0.01)
    tracker.open()
    assert tracker.begin_attempt(info(), 10) is None
    assert tracker.begin_attempt(info(1), 10) is None
    assert tracker.error == "tracking stopped: ZeroDivisionError: oops"
    tracker.close(10)


def test_artifacts_that_cannot_be_stored_are_told_and_the_run_is_closed_all_the_same(
    make: Make, stand_in: StandIn, tmp_path: Path
) -> None:
    log = tmp_path / "0.log"
    log.write_text("x")
    stand_in.artifact_root = "s3://bucket/"
    tracker = make(stand_in.uri)
    tracker.begin_attempt(info(), 10)
    tracker.end_attempt(outcome(artifacts=((log, "logs/node_0"), (log, "logs/node_1"))))
    tracker.close(10)
    assert "s3://bucket" in (tracker.error or "")
    assert stand_in.only_run()["info"]["status"] == "FINISHED"


def test_artifacts_of_a_server_on_this_machine_are_copied_into_its_folder(
    make: Make, stand_in: StandIn, tmp_path: Path
) -> None:
    log = tmp_path / "0.log"
    log.write_text("x")
    stand_in.artifact_root = f"{tmp_path}/m l/"
    tracker = make(stand_in.uri)
    tracker.begin_attempt(info(), 10)
    tracker.end_attempt(outcome(artifacts=((log, "logs/node_0"),)))
    tracker.close(10)
    assert (tmp_path / "m l/1/run0/artifacts/logs/node_0/0.log").read_text() == "x"


def test_another_artifact_location_than_the_experiments_is_told(make: Make, stand_in: StandIn) -> None:
    first, second = make(stand_in.uri), make(stand_in.uri)
    assert first.begin_attempt(info(artifact_location="mlflow-artifacts:/mine"), 10) is not None
    assert second.begin_attempt(info(artifact_location="s3://other"), 10) is not None
    until(lambda: second.error is not None)
    assert "keeps its artifacts at mlflow-artifacts:/mine, not at s3://other" in (second.error or "")


def test_a_run_that_the_user_deleted_is_told_and_ends_nothing_else(make: Make, stand_in: StandIn) -> None:
    tracker = make(stand_in.uri)
    tracker.begin_attempt(info(), 10)
    stand_in.runs.clear()
    tracker.end_attempt(outcome())
    tracker.close(10)
    assert "run0 not found" in (tracker.error or "")


def test_tracking_that_is_off_does_nothing(tmp_path: Path) -> None:
    tracker = make_tracker("none", home=Home(tmp_path), python=Path, env=os.environ)
    assert isinstance(tracker, NoTracker)
    tracker.open()
    assert tracker.begin_attempt(info(), 10) is None
    tracker.watch_metrics({})
    tracker.end_attempt(outcome())
    tracker.close(10)
    assert tracker.error is None
    assert list(tmp_path.iterdir()) == []


def test_a_tracker_that_was_never_opened_closes_at_once(tmp_path: Path) -> None:
    make_tracker(None, home=Home(tmp_path), python=Path, env={}).close(10)


def test_metrics_are_read_from_any_path(make: Make, stand_in: StandIn, tmp_path: Path) -> None:
    folder = tmp_path / "a 'b' \"c\"\nd é"
    folder.mkdir()
    (folder / "0.metrics.jsonl").write_text(json.dumps({"t": 1, "m": {"a": 1}}) + "\n")
    tracker = make(stand_in.uri)
    tracker.begin_attempt(info(), 10)
    tracker.watch_metrics({0: folder / "0.metrics.jsonl"})
    tracker.end_attempt(outcome(artifacts=((folder / "0.metrics.jsonl", "x"),)))
    tracker.close(10)
    assert len(stand_in.only_run()["data"]["metrics"]) == 1
    assert list(stand_in.artifacts) == ["1/run0/artifacts/x/0.metrics.jsonl"]

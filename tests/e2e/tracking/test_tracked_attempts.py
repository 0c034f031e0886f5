from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest

from airlane.store.paths import Home
from airlane.store.records import Cause, CauseKind, LastMetric
from airlane.store.states import State
from airlane.tracking import orphans, server
from airlane.tracking.connection import Connection, Request
from airlane.tracking.rest import Metric, Mlflow
from airlane.tracking.tracker import AttemptInfo, AttemptOutcome, Tracker, make_tracker

pytestmark = pytest.mark.slow

Python = Callable[[], Path]
CAUSE = Cause(CauseKind.EXIT_CODE, "node 0 exited with code 3", node=0, exit_code=3)


def tracker_for(home: Home, python: Python) -> Tracker:
    tracker = make_tracker(None, home=home, python=python, env=os.environ)
    assert isinstance(tracker, Tracker)
    tracker.open()
    return tracker


def info(run_id: str, attempt: int = 0, artifacts: tuple[tuple[Path, str], ...] = ()) -> AttemptInfo:
    return AttemptInfo(
        run_id,
        attempt,
        "ünï-cödé",
        "a run",
        time.time(),
        tags={"mlflow.user": "ann"},
        params={"optim.lr": "0.1", "epochs": "3"},
        artifacts=artifacts,
    )


def download(mlflow: Mlflow, run_id: str, path: str) -> bytes:
    connection = Connection(mlflow.address, {})
    answer = connection.exchange(Request("GET", "/get-artifact?" + urlencode({"run_id": run_id, "path": path})))
    connection.close()
    assert answer.status == 200
    return answer.body


def history(mlflow: Mlflow, run_id: str, key: str) -> list[tuple[float, int]]:
    answer = mlflow._get("/metrics/get-history", {"run_id": run_id, "metric_key": key})
    return [(row["value"], row["step"]) for row in answer.get("metrics", [])]


def sample(number: int) -> str:
    return json.dumps({"t": time.time(), "m": {"cpu_utilization_percentage": number, "gpu_0_power_usage_watts": 1}})


def test_the_life_of_an_attempt_is_seen_through_mlflow(home: Home, python: Python, tmp_path: Path) -> None:
    workload, log, metrics = tmp_path / "work load é.yaml", tmp_path / "0.log", tmp_path / "0.metrics.jsonl"
    workload.write_text("command: exit 3\n")
    log.write_bytes(b"".join(b"line %d\n" % i for i in range(1_500_000)))
    tracker = tracker_for(home, python)
    tracked = tracker.begin_attempt(info("life", artifacts=((workload, ""),)), 60)
    assert tracked is not None
    with closing(Mlflow(tracked.uri, {})) as mlflow:
        assert mlflow.get_run(tracked.run_id).status == "RUNNING"
        tracker.watch_metrics({0: metrics})
        metrics.write_text("\n".join(sample(i) for i in range(3)))
        tracker.end_attempt(
            AttemptOutcome(State.FAILED, CAUSE, time.time(), ((log, "logs/node_0"), (tmp_path / "none", "x")))
        )
        tracker.close(60)
        assert tracker.error is None
        run = mlflow.get_run(tracked.run_id)
        assert run.status == "FAILED"
        assert run.params == {"optim.lr": "0.1", "epochs": "3"}
        assert run.tags["airlane.cause"] == "node 0 exited with code 3"
        assert run.tags["mlflow.runName"] == "a run"
        assert history(mlflow, run.id, "system/cpu_utilization_percentage") == [(0, 0), (1, 1), (2, 2)]
        parts = [artifact.path for artifact in mlflow.list_artifacts(run.id, "logs/node_0")]
        assert len(parts) == 3
        assert b"".join(download(mlflow, run.id, part) for part in parts) == log.read_bytes()
        assert download(mlflow, run.id, "work load é.yaml") == b"command: exit 3\n"


def test_the_users_code_resumes_the_run_and_our_verdict_wins(home: Home, python: Python) -> None:
    tracker = tracker_for(home, python)
    tracked = tracker.begin_attempt(info("resumed"), 60)
    assert tracked is not None
    code = "import mlflow\nwith mlflow.start_run(): mlflow.log_params({'epochs': 3.0}); mlflow.log_metric('loss', 1.5)"
    env = {"PATH": os.environ["PATH"], "HOME": str(home.root)}
    env |= {"MLFLOW_TRACKING_URI": tracked.uri, "MLFLOW_RUN_ID": tracked.run_id}
    subprocess.run([python(), "-c", code], check=True, env=env, cwd=home.root)
    with closing(Mlflow(tracked.uri, {})) as mlflow:
        assert mlflow.get_run(tracked.run_id).status == "FINISHED"
        tracker.end_attempt(AttemptOutcome(State.CANCELED, Cause(CauseKind.CANCELED, "canceled"), time.time()))
        tracker.close(60)
        run = mlflow.get_run(tracked.run_id)
        assert run.status == "KILLED"
        assert run.params == {"epochs": "3.0", "optim.lr": "0.1"}
        assert history(mlflow, run.id, "loss") == [(1.5, 0)]
    assert tracker.last_metric == LastMetric("loss", 1.5, 0)


def test_a_server_killed_in_mid_run_is_started_again_and_nothing_is_missing(
    home: Home, python: Python, tmp_path: Path
) -> None:
    metrics = tmp_path / "0.metrics.jsonl"
    metrics.write_text("".join(f"{sample(i)}\n" for i in range(3)))
    tracker = tracker_for(home, python)
    tracked = tracker.begin_attempt(info("restarted"), 60)
    assert tracked is not None
    tracker.watch_metrics({0: metrics, 1: tmp_path / "none"})
    status = server.status(home)
    assert status is not None
    assert status.pid is not None
    os.kill(status.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while (again := server.status(home)) is None or again.pid in (None, status.pid):
        assert time.monotonic() < deadline, tracker.error
        threading.Event().wait(0.1)
    with metrics.open("a") as file:
        file.write(f"{sample(3)}\n")
    tracker.end_attempt(AttemptOutcome(State.SUCCESS, Cause(CauseKind.COMPLETED, "done"), time.time()))
    tracker.close(60)
    assert tracker.error is None
    with closing(Mlflow(tracked.uri, {})) as mlflow:
        assert mlflow.get_run(tracked.run_id).status == "FINISHED"
        key = "system/node_0/cpu_utilization_percentage"
        assert history(mlflow, tracked.run_id, key) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_the_run_of_a_killed_supervisor_is_closed_even_when_the_server_was_away(home: Home, python: Python) -> None:
    uri = server.ensure(home, python)
    with closing(Mlflow(uri, {})) as mlflow:
        experiment = mlflow.experiment("e")
        runs = [mlflow.create_run(experiment.id, "n", start_time_ms=1, tags={}) for _ in range(2)]
    cause = Cause(CauseKind.SUPERVISOR_LOST, "its supervisor was killed")
    now, later = (orphans.Orphan(run.id, None, State.FAILED, cause, time.time()) for run in runs)
    assert orphans.close_orphan(home, now, os.environ)
    with closing(Mlflow(uri, {})) as mlflow:
        tags = {"airlane.run_id": "7k2m9q4d", "airlane.attempt": "1"}
        runs.append(mlflow.create_run(experiment.id, "n", start_time_ms=1, tags=tags))
    unnamed = replace(now, mlflow_run_id=None, experiment_name="e", run_id="7k2m9q4d", attempt=1)
    assert orphans.close_orphan(home, unnamed, os.environ)
    server.stop(home)
    assert not orphans.close_orphan(home, later, os.environ)
    tracker = tracker_for(home, python)
    assert tracker.begin_attempt(info("next"), 60) is not None
    tracker.end_attempt(AttemptOutcome(State.SUCCESS, Cause(CauseKind.COMPLETED, "done"), time.time()))
    tracker.close(60)
    with closing(Mlflow(uri, {})) as mlflow:
        assert [mlflow.get_run(run.id).status for run in runs] == ["FAILED"] * 3


def test_a_deleted_experiment_is_restored(home: Home, python: Python) -> None:
    with closing(Mlflow(server.ensure(home, python), {})) as mlflow:
        experiment = mlflow.experiment("deleted")
        mlflow._post("/experiments/delete", {"experiment_id": experiment.id})
        restored = mlflow.experiment("deleted")
        assert restored.id == experiment.id
        assert mlflow.create_run(restored.id, "n", start_time_ms=1, tags={}).status == "RUNNING"


def test_many_runs_at_once_do_not_lock_the_database(home: Home, python: Python) -> None:
    uri = server.ensure(home, python)

    def one(number: int) -> float:
        with closing(Mlflow(uri, {}, timeout_s=60)) as mlflow:
            experiment = mlflow.experiment("crowd")
            started = time.monotonic()
            run = mlflow.create_run(experiment.id, f"run {number}", start_time_ms=1, tags={"n": str(number)})
            took_s = time.monotonic() - started
            for step in range(2):
                mlflow.log_metrics(run.id, [Metric(f"m{i}", float(i), 1, step) for i in range(20)])
            mlflow.update_run(run.id, "FINISHED", end_time_ms=2)
            return took_s

    print(f"create_run alone: {one(-1) * 1000:.0f} ms")
    with ThreadPoolExecutor(32) as pool:
        times = list(pool.map(one, range(32)))
    print(f"create_run, 32 at once: median {statistics.median(times) * 1000:.0f} ms, most {max(times) * 1000:.0f} ms")
    log = (home.mlflow / "server.log").read_text()
    assert "locked" not in log

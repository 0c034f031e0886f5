"""The home's MLflow server, and runs on a Ray cluster whose nodes do not reach it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from airlane.store.paths import Home
from airlane.tracking import server
from airlane.tracking.login import variables
from airlane.tracking.rest import Mlflow
from e2e.ray_failures.remains import assert_nothing_is_left
from ray_fixtures import share_environment
from ray_runs_home import RayRunsHome, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LOGS = 'python -c "import mlflow; mlflow.log_metric(\'loss\', 0.25)"; echo "to $MLFLOW_TRACKING_URI"'


@pytest.fixture
def tracked(runs: RayRunsHome, ray_environment: Path) -> Iterator[RayRunsHome]:
    """The profile leaves tracking to Airlane."""
    share_environment(ray_environment, runs.home)
    runs.configure(tracking_uri=None, stop_grace_s=5)
    yield runs
    server.stop(Home(runs.home))


def test_the_homes_server_is_reached_from_a_node_and_gets_no_secret(tracked: RayRunsHome) -> None:
    value = f"sesame-{os.urandom(8).hex()}"
    assert tracked.air("secrets", "set", "hub/token", input=value).returncode == 0
    run_id = tracked.submit(f'{LOGS}; echo "it is $TOKEN"', nodes=1, secrets={"TOKEN": "hub/token"})
    view = tracked.ended(run_id)
    assert view["status"] == "SUCCESS", (view, tracked.log(run_id))
    found = server.status(Home(tracked.home))
    assert found is not None
    assert found.public_uri is not None
    assert f"to {found.public_uri}" in tracked.log(run_id)
    assert _losses(tracked, run_id) == [0.25]
    assert "it is ***" in tracked.log(run_id)
    home = Home(tracked.home)
    kept = [path for path in home.root.rglob("*") if path.is_file() and home.secrets not in path.parents]
    assert [path for path in kept if path.is_relative_to(home.mlflow)], "MLflow's own files are among them"
    assert [path for path in kept if value.encode() in path.read_bytes()] == []
    assert_nothing_is_left(tracked, run_id)


@pytest.mark.long
def test_what_a_node_could_not_tell_the_server_is_there_when_it_answers_again(tracked: RayRunsHome) -> None:
    home = Home(tracked.home)
    file = tracked.workload(LOGS, nodes=1)
    with tracked.start("run", str(file)) as submitting:
        wait_until(lambda: bool(list(tracked.home.glob("runs/*/*/ray/job.json"))), within_s=240, what="it is submitted")
        assert server.stop(home), "a server was started for the run"
        assert submitting.wait(60) == 0
    (folder,) = tracked.home.glob("runs/*/*")
    cut_off = folder.name
    view = tracked.ended(cut_off)
    assert view["status"] == "SUCCESS", (view, tracked.log(cut_off))
    assert view["mlflow_url"] is None
    assert list(folder.glob("tracking/*/*")), "what it recorded has come home"
    assert tracked.ended(tracked.submit("true", nodes=1))["status"] == "SUCCESS"  # it starts the server again
    wait_until(lambda: tracked.view(cut_off)["mlflow_url"] is not None, within_s=60, what="it is uploaded")
    assert _losses(tracked, cut_off) == [0.25]
    assert not (folder / "tracking").exists()
    assert_nothing_is_left(tracked, cut_off)


def _losses(runs: RayRunsHome, run_id: str) -> list[float]:
    """What the home's server has."""
    home = Home(runs.home)
    found = server.status(home)
    assert found is not None
    asked = {"run_id": runs.view(run_id)["mlflow_url"].rstrip("/").rpartition("/")[2], "metric_key": "loss"}
    with closing(Mlflow(found.uri, variables(home))) as mlflow:
        return [float(row["value"]) for row in mlflow._get("/metrics/get-history", asked)["metrics"]]

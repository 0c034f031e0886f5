"""The home's MLflow server, and runs on a Ray cluster whose nodes do not reach it."""

from __future__ import annotations

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
    assert view["status"] == "SUCCESS", tracked.log(cut_off)
    assert view["mlflow_url"] is None
    assert list(folder.glob("tracking/*/*")), "what it recorded has come home"

    reached = tracked.submit(LOGS, nodes=1)
    view = tracked.ended(reached)
    assert view["status"] == "SUCCESS", tracked.log(reached)
    found = server.status(home)
    assert found is not None
    assert found.public_uri is not None
    assert f"to {found.public_uri}" in tracked.log(reached)
    wait_until(lambda: tracked.view(cut_off)["mlflow_url"] is not None, within_s=60, what="it is uploaded")
    with closing(Mlflow(found.uri, variables(home))) as mlflow:
        for run_id in (cut_off, reached):
            assert _losses(mlflow, tracked.view(run_id)["mlflow_url"]) == [0.25]
    assert not (folder / "tracking").exists()
    for run_id in (cut_off, reached):
        assert_nothing_is_left(tracked, run_id)


def _losses(mlflow: Mlflow, url: str) -> list[float]:
    asked = {"run_id": url.rstrip("/").rpartition("/")[2], "metric_key": "loss"}
    return [float(row["value"]) for row in mlflow._get("/metrics/get-history", asked)["metrics"]]

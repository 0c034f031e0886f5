from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airlane.errors import TrackingError
from airlane.store.paths import Home
from airlane.store.records import Cause, CauseKind
from airlane.store.states import State
from airlane.tracking.orphans import Orphan, close_orphan, settle
from airlane.tracking.rest import Mlflow

if TYPE_CHECKING:
    from unit.tracking.conftest import StandIn

ENV = {"HOME": "/nonexistent"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "ho\nme é")


@pytest.fixture
def orphan(stand_in: StandIn, tmp_path: Path) -> Orphan:
    with closing(Mlflow(stand_in.uri, ENV)) as mlflow:
        run = mlflow.create_run(mlflow.experiment("e").id, "n", start_time_ms=0, tags={})
    log = tmp_path / "0.log"
    log.write_text("last words\n")
    cause = Cause(CauseKind.SUPERVISOR_LOST, "its supervisor was killed")
    return Orphan(run.id, stand_in.uri, State.FAILED, cause, 5.0, {"lr": 1}, {str(log): "logs/node_0"})


def owed(home: Home) -> list[str]:
    return sorted(path.name for path in (home.mlflow / "owed").iterdir())


def test_the_run_of_a_killed_supervisor_is_closed(home: Home, stand_in: StandIn, orphan: Orphan) -> None:
    assert close_orphan(home, orphan, ENV)
    run = stand_in.only_run()
    assert (run["info"]["status"], run["info"]["end_time"]) == ("FAILED", 5000)
    assert {"key": "airlane.cause", "value": "its supervisor was killed"} in run["data"]["tags"]
    assert run["data"]["params"] == [{"key": "lr", "value": "1"}]
    assert list(stand_in.artifacts.values()) == [b"last words\n"]
    assert owed(home) == []


def test_a_run_whose_server_is_away_is_owed_and_closed_later(home: Home, stand_in: StandIn, orphan: Orphan) -> None:
    stand_in.down = True
    assert not close_orphan(home, orphan, ENV)
    assert owed(home) == ["run0.json"]
    stand_in.down = False
    with closing(Mlflow(stand_in.uri, ENV)) as mlflow:
        assert settle(home, mlflow, "http://another.server") == 0
        assert settle(home, mlflow, stand_in.uri) == 1
        assert settle(home, mlflow, stand_in.uri) == 0
    assert stand_in.only_run()["info"]["status"] == "FAILED"


def test_a_run_whose_id_the_supervisor_did_not_write_down_is_found_by_its_tags(home: Home, stand_in: StandIn) -> None:
    with closing(Mlflow(stand_in.uri, ENV)) as mlflow:
        experiment = mlflow.experiment("e")
        for attempt in "01":
            tags = {"airlane.run_id": "7k2m9q4d", "airlane.attempt": attempt}
            mlflow.create_run(experiment.id, "n", start_time_ms=0, tags=tags)
    cause = Cause(CauseKind.SUPERVISOR_LOST, "its supervisor was killed")
    for name, run_id in (("e", "7k2m9q4d"), ("e", "never tracked"), ("no such", "7k2m9q4d")):
        orphan = Orphan(None, stand_in.uri, State.FAILED, cause, 5.0, experiment_name=name, run_id=run_id, attempt=0)
        assert close_orphan(home, orphan, ENV)
    assert [run["info"]["status"] for run in stand_in.runs.values()] == ["FAILED", "RUNNING"]
    assert owed(home) == []


def test_a_run_of_the_embedded_server_is_owed_while_that_is_not_running(home: Home, orphan: Orphan) -> None:
    embedded = Orphan(orphan.mlflow_run_id, None, orphan.state, orphan.cause, orphan.ended_at)
    assert not close_orphan(home, embedded, ENV)
    assert owed(home) == ["run0.json"]


def test_a_run_that_the_user_deleted_is_not_owed_for_ever(home: Home, stand_in: StandIn, orphan: Orphan) -> None:
    stand_in.runs.clear()
    assert close_orphan(home, orphan, ENV)
    assert owed(home) == []


def test_an_outage_while_settling_leaves_the_rest_owed(home: Home, stand_in: StandIn, orphan: Orphan) -> None:
    stand_in.down = True
    close_orphan(home, orphan, ENV)
    with closing(Mlflow(stand_in.uri, ENV)) as mlflow, pytest.raises(TrackingError):
        settle(home, mlflow, stand_in.uri)
    assert owed(home) == ["run0.json"]


def test_a_damaged_note_harms_nothing(home: Home, stand_in: StandIn) -> None:
    (home.mlflow / "owed").mkdir(parents=True)
    (home.mlflow / "owed" / "x.json").write_text("{")
    with closing(Mlflow(stand_in.uri, ENV)) as mlflow:
        assert settle(home, mlflow, stand_in.uri) == 0

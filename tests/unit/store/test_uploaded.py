from __future__ import annotations

from pathlib import Path

import pytest

from airlane.store import codec
from airlane.store.disk import make_private_folder
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Attempt
from airlane.store.states import State
from airlane.store.uploaded import Uploaded, UploadedAttempt, upload_waits, with_uploaded
from unit.store.made_records import made_status

KEPT = Attempt(0, 1.0, mlflow_run_id="here")
SEEN = Attempt(1, 2.0, mlflow_run_id="there", mlflow_url="http://mlflow.example/#/there")
PAGE = "http://mlflow.example/#/arrived"


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path)


def test_an_attempt_that_was_kept_has_a_page_once_it_is_uploaded(run: RunPaths) -> None:
    status = made_status(State.FAILED, attempts=(KEPT, SEEN), tracking_error="kept in the run folder")
    assert with_uploaded(status, run) == status
    run.uploaded.write_bytes(codec.encode(Uploaded((UploadedAttempt(0, "arrived", PAGE),), 3.0)))
    told = with_uploaded(status, run)
    assert told is not None
    assert [(a.mlflow_run_id, a.mlflow_url) for a in told.attempts] == [
        ("arrived", PAGE),
        ("there", "http://mlflow.example/#/there"),
    ]
    assert told.tracking_error is None


def test_what_could_not_be_uploaded_is_told(run: RunPaths) -> None:
    run.uploaded.write_bytes(codec.encode(Uploaded((), 3.0, "not uploaded: traces (2)", ("0",))))
    told = with_uploaded(made_status(State.FAILED, attempts=(KEPT,), tracking_error="kept"), run)
    assert told is not None
    assert told.tracking_error == "not uploaded: traces (2)"


@pytest.mark.parametrize("attempts", [(), (SEEN,), (Attempt(0, 1.0),)])
def test_a_run_that_kept_nothing_costs_no_reading(attempts: tuple[Attempt, ...], run: RunPaths) -> None:
    run.uploaded.write_bytes(b"never read")
    status = made_status(State.FAILED, attempts=attempts)
    assert with_uploaded(status, run) is status
    assert with_uploaded(None, run) is None


def test_only_the_names_of_runs_wait(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert not upload_waits(home)
    make_private_folder(home.kept)
    (home.kept / ".uploading.lock").touch()
    assert not upload_waits(home)
    (home.kept / "7k2m9q4d").touch()
    assert upload_waits(home)

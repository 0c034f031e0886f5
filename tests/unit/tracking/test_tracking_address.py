from __future__ import annotations

import base64
from pathlib import Path

import pytest

from airlane.errors import TrackingRejectedError
from airlane.tracking.address import parse


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("uri", "base"),
    [
        ("http://mlflow.lab:5000", "http://mlflow.lab:5000"),
        ("https://mlflow.lab/", "https://mlflow.lab"),
        ("https://lab.example/team/mlflow/", "https://lab.example/team/mlflow"),
        ("http://[::1]:5000", "http://[::1]:5000"),
        ("https://ann:p%40ss@lab.example:8443/x", "https://lab.example:8443/x"),
    ],
)
def test_the_address_for_people_has_no_credentials_and_no_default_port(uri: str, base: str) -> None:
    assert parse(uri, {"HOME": "/nonexistent"}).base == base


def test_a_page_is_below_the_prefix() -> None:
    address = parse("https://lab.example/mlflow", {"HOME": "/nonexistent"})
    assert address.page("3", "9f2") == "https://lab.example/mlflow/#/experiments/3/runs/9f2"


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("databricks", "Databricks"),
        ("databricks://profile", "Databricks"),
        ("file:///tmp/mlruns", "got a file: store"),
        ("sqlite:///mlflow.db", "got a sqlite: store"),
        ("./mlruns", "got a folder"),
        ("http://", "names no host"),
        ("http://host:port", "not a valid URI"),
    ],
)
def test_other_uris_are_refused_with_what_is_supported(uri: str, said: str) -> None:
    with pytest.raises(TrackingRejectedError) as refused:
        parse(uri, {})
    assert said in refused.value.message
    assert refused.value.hint


def test_credentials_are_taken_from_the_uri_then_the_environment_then_the_file(tmp_path: Path) -> None:
    folder = tmp_path / ".mlflow"
    folder.mkdir()
    (folder / "credentials").write_text("[mlflow]\nmlflow_tracking_username = file\nmlflow_tracking_password = 100%\n")
    env = {"HOME": str(tmp_path)}
    assert parse("http://host", env).authorization == basic("file:100%")
    env |= {"MLFLOW_TRACKING_TOKEN": "t0k"}
    assert parse("http://host", env).authorization == "Bearer t0k"
    env |= {"MLFLOW_TRACKING_USERNAME": "ann", "MLFLOW_TRACKING_PASSWORD": "é"}
    assert parse("http://host", env).authorization == basic("ann:é")
    assert parse("http://bob:p%40ss@host", env).authorization == basic("bob:p@ss")
    assert parse("http://host", {"HOME": "/nonexistent"}).authorization is None


def test_a_credentials_file_that_is_no_ini_file_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / ".mlflow"
    folder.mkdir()
    (folder / "credentials").write_text("token: x\n")
    with pytest.raises(TrackingRejectedError, match="credentials: not readable"):
        parse("http://host", {"HOME": str(tmp_path)})

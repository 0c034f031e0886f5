from __future__ import annotations

import io
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from airlane.errors import TrackingError, TrackingRejectedError
from airlane.tracking.address import parse
from airlane.tracking.connection import _proxy
from airlane.tracking.rest import Metric, Mlflow

if TYPE_CHECKING:
    from unit.tracking.conftest import StandIn

ENV = {"HOME": "/nonexistent"}


@pytest.fixture
def mlflow(stand_in: StandIn) -> Iterator[Mlflow]:
    with closing(Mlflow(stand_in.uri, ENV, timeout_s=5.0)) as client:
        yield client


def calls(stand_in: StandIn) -> list[str]:
    return [line.partition("?")[0].rpartition("/")[2] for line, _ in stand_in.requests]


def test_an_experiment_is_created_once(mlflow: Mlflow) -> None:
    first = mlflow.experiment("ünï cödé")
    assert mlflow.experiment("ünï cödé") == first


def test_an_experiment_that_another_run_creates_meanwhile_is_used(mlflow: Mlflow, stand_in: StandIn) -> None:
    stand_in._create_experiment({"name": "e"})
    created = mlflow._create_experiment("e", None)
    assert created.id == stand_in.experiments["e"]["experiment_id"]


def test_a_deleted_experiment_is_restored(mlflow: Mlflow, stand_in: StandIn) -> None:
    mlflow.experiment("e")
    stand_in.experiments["e"]["lifecycle_stage"] = "deleted"
    mlflow.experiment("e")
    assert stand_in.experiments["e"]["lifecycle_stage"] == "active"


def test_a_dropped_connection_is_tried_once_more(mlflow: Mlflow, stand_in: StandIn) -> None:
    stand_in.faults.append("drop")
    mlflow.check()
    assert calls(stand_in) == ["search", "search"]


def test_two_dropped_connections_are_an_error_that_names_the_server(mlflow: Mlflow, stand_in: StandIn) -> None:
    stand_in.faults.extend(["drop", "drop"])
    with pytest.raises(TrackingError, match=rf"{stand_in.uri} dropped the connection"):
        mlflow.check()
    mlflow.check()


def test_creating_a_run_is_never_repeated(mlflow: Mlflow, stand_in: StandIn) -> None:
    experiment = mlflow.experiment("e")
    stand_in.faults.append("drop after work")
    with pytest.raises(TrackingError):
        mlflow.create_run(experiment.id, "n", start_time_ms=0, tags={"airlane.run_id": "a"})
    assert len(stand_in.runs) == 1
    found = mlflow.find_run(experiment.id, {"airlane.run_id": "a"})
    assert found is not None
    assert found.id == "run0"


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_a_server_that_hangs_or_drips_is_given_up_at_the_deadline(fault: str, stand_in: StandIn) -> None:
    stand_in.faults.append(fault)
    started = time.monotonic()
    with pytest.raises(TrackingError, match=r"did not answer within 0\.3 s"):
        Mlflow(stand_in.uri, ENV, timeout_s=0.3).check()
    assert time.monotonic() - started < 3


def test_a_refused_connection_is_an_error_at_once() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(TrackingError, match="refused the connection") as refused:
            Mlflow(f"http://127.0.0.1:{port}", ENV).check()
    assert refused.value.retryable


@pytest.mark.parametrize(("status", "retryable"), [("500", True), ("503", True), ("429", True), ("400", False)])
def test_trouble_on_the_server_may_be_retried_and_a_refusal_may_not(
    status: str, retryable: bool, mlflow: Mlflow, stand_in: StandIn
) -> None:
    stand_in.faults.append(status)
    with pytest.raises(TrackingError, match=f"HTTP {status} as ordered$") as error:
        mlflow.check()
    assert error.value.retryable is retryable


def test_a_server_that_wants_a_sign_in_gets_a_hint(mlflow: Mlflow, stand_in: StandIn) -> None:
    stand_in.faults.append("401")
    with pytest.raises(TrackingRejectedError) as refused:
        mlflow.check()
    assert "MLFLOW_TRACKING_TOKEN" in (refused.value.hint or "")


def test_a_redirect_names_the_address_to_use(mlflow: Mlflow, stand_in: StandIn) -> None:
    stand_in.faults.append("redirect")
    with pytest.raises(TrackingRejectedError, match=r"-> https://elsewhere\.example/"):
        mlflow.check()


def test_a_page_instead_of_json_is_said_to_be_no_mlflow_server(mlflow: Mlflow, stand_in: StandIn) -> None:
    stand_in.faults.append("page")
    with pytest.raises(TrackingRejectedError, match="needed JSON"):
        mlflow.check()


def test_credentials_are_sent_and_never_shown(stand_in: StandIn) -> None:
    stand_in.faults.append("403")
    uri = stand_in.uri.replace("http://", "http://ann:sesame@")
    with closing(Mlflow(uri, ENV)) as mlflow, pytest.raises(TrackingRejectedError) as refused:
        mlflow.check()
    assert "sesame" not in f"{refused.value.message}{refused.value.hint}"
    assert stand_in.requests[0][1]["Authorization"].startswith("Basic ")


def test_requests_go_below_the_prefix(stand_in: StandIn) -> None:
    with closing(Mlflow(f"{stand_in.uri}/team/mlflow/", ENV)) as mlflow:
        mlflow.check()
    assert stand_in.requests[0][0].startswith("GET /team/mlflow/api/2.0/mlflow/experiments/search")


def test_batches_stay_within_the_limits_of_mlflow(mlflow: Mlflow, stand_in: StandIn) -> None:
    run = mlflow.create_run(mlflow.experiment("e").id, "n", start_time_ms=0, tags={})
    stand_in.requests.clear()
    mlflow.log_metrics(run.id, [Metric("m", float(i), 0, i) for i in range(2001)])
    mlflow.log_params(run.id, {f"p{i}": "v" for i in range(101)})
    mlflow.log_tags(run.id, {f"t{i}": "v" for i in range(100)})
    assert len(stand_in.requests) == 3 + 2 + 1
    assert len(stand_in.only_run()["data"]["metrics"]) == 2001


def test_an_artifact_is_stored_under_its_name(mlflow: Mlflow, stand_in: StandIn) -> None:
    stand_in.faults.append("drop")
    mlflow.upload("1/run0/artifacts", "logs/node_0/a b é.log", io.BytesIO(b"hello"), 5)
    assert stand_in.artifacts == {"1/run0/artifacts/logs/node_0/a b é.log": b"hello"}


@pytest.mark.parametrize(
    ("uri", "env", "expected"),
    [
        ("http://mlflow.lab", {"http_proxy": "http://proxy:3128"}, ("proxy", 3128)),
        ("https://mlflow.lab", {"HTTPS_PROXY": "proxy:8080"}, ("proxy", 8080)),
        ("https://mlflow.lab", {"https_proxy": "http://proxy", "no_proxy": "other, .lab"}, None),
        ("http://127.0.0.1:5000", {"http_proxy": "http://proxy:3128"}, None),
        ("http://mlflow.lab", {}, None),
    ],
)
def test_a_proxy_of_the_environment_is_used_for_other_machines(
    uri: str, env: dict[str, str], expected: tuple[str, int] | None
) -> None:
    assert _proxy(parse(uri, ENV), env) == expected


def test_a_plain_proxy_gets_the_whole_uri(stand_in: StandIn) -> None:
    with closing(Mlflow("http://mlflow.example/team", {**ENV, "http_proxy": stand_in.uri})) as mlflow:
        mlflow.check()
    assert stand_in.requests[0][0].startswith("GET http://mlflow.example/team/api/2.0/")

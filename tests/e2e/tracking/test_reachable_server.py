from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from airlane.errors import TrackingError, TrackingRejectedError
from airlane.store.paths import Home
from airlane.tracking import server
from airlane.tracking.login import Login, find_login
from airlane.tracking.rest import Mlflow
from airlane.tracking.server_record import Reach

pytestmark = pytest.mark.slow

Python = Callable[[], Path]
# On Linux all of 127.0.0.0/8 is this machine; programs that come by this address are not taken for its own.
OTHER = "127.0.0.2"
NOBODY = 65534
ASK = "/api/2.0/mlflow/experiments/get?experiment_id=0"

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs 127.0.0.2 and /proc")


@pytest.fixture
def reached(home: Home, python: Python) -> str:
    return server.ensure(home, python, reach=Reach(OTHER))


@pytest.fixture(scope="module", autouse=True)
def loopback_again(home: Home) -> Iterator[None]:
    yield
    server.stop(home)
    (home.mlflow / "server.json").unlink(missing_ok=True)


def login_of(home: Home) -> Login:
    login = find_login(home)
    assert login is not None
    return login


def status_code(uri: str, path: str = ASK, *, user: int | None = None, login: str | None = None) -> str:
    """What curl gets there, run as another user where one is named."""
    command = ["curl", "-s", "-o", os.devnull, "-w", "%{http_code}", *(["-u", login] if login else []), f"{uri}{path}"]
    return subprocess.run(command, check=True, user=user, capture_output=True, text=True).stdout


@only_linux
def test_a_server_on_loopback_becomes_reachable_at_the_same_port_with_its_data(home: Home, python: Python) -> None:
    server.stop(home)
    (home.mlflow / "server.json").unlink(missing_ok=True)
    local = server.ensure(home, python)
    with closing(Mlflow(local, {})) as mlflow:
        experiment = mlflow.experiment("kept")
        running = mlflow.create_run(experiment.id, "a local run in progress", start_time_ms=1, tags={})
    reached = server.ensure(home, python, reach=Reach(OTHER))
    assert reached == local.replace("127.0.0.1", OTHER)
    assert server.ensure(home, python) == local
    with closing(Mlflow(local, {})) as mlflow:
        assert mlflow.get_run(running.id).status == "RUNNING"
        mlflow.set_tag(running.id, "still", "here")
    with closing(Mlflow(reached, login_of(home).variables)) as mlflow:
        assert mlflow.experiment("kept") == experiment
        assert mlflow.get_run(running.id).tags["still"] == "here"


@only_linux
def test_whoever_comes_from_elsewhere_signs_in(home: Home, reached: str) -> None:
    login = login_of(home)
    wrong = {**login.variables, "MLFLOW_TRACKING_PASSWORD": "guessed"}
    for variables in ({}, wrong, {"MLFLOW_TRACKING_USERNAME": "admin", "MLFLOW_TRACKING_PASSWORD": "password1234"}):
        with closing(Mlflow(reached, variables)) as mlflow, pytest.raises(TrackingRejectedError, match="HTTP 401"):
            mlflow.check()
    with closing(Mlflow(reached, login.variables)) as mlflow:
        mlflow.check()
        assert mlflow.create_run(mlflow.experiment("signed").id, "n", start_time_ms=1, tags={}).status == "RUNNING"
    for path in ("/", "/version", "/graphql", "/get-artifact", "/api/2.0/mlflow-artifacts/artifacts/0/x", "/v1/traces"):
        assert (path, status_code(reached, path)) == (path, "401")


@only_linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_of_this_machine_neither_gets_in_nor_reads_the_login(home: Home, reached: str) -> None:
    del reached
    local = server.status(home)
    assert local is not None
    login = login_of(home)
    assert status_code(local.uri) == "200"
    assert status_code(local.uri, user=NOBODY) == "401"
    assert status_code(local.uri, user=NOBODY, login=f"{login.username}:{login.password}") == "200"
    assert status_code(local.uri, login=f"{login.username}:guessed") == "401"
    assert login.file.stat().st_mode & 0o777 == 0o600
    refused = subprocess.run(["cat", str(login.file)], user=NOBODY, capture_output=True, text=True, check=False)
    assert "Permission denied" in refused.stderr


@only_linux
def test_the_login_is_neither_in_argv_nor_in_the_environment_nor_in_the_log(home: Home, reached: str) -> None:
    del reached
    status = server.status(home)
    assert status is not None
    password = login_of(home).password.encode()
    for name in ("cmdline", "environ"):
        assert password not in Path(f"/proc/{status.pid}/{name}").read_bytes()
    for name in ("server.json", "server.log", "basic_auth.ini", "basic_auth.db"):
        assert password not in (home.mlflow / name).read_bytes()
        assert (home.mlflow / name).stat().st_mode & 0o077 == 0


@only_linux
def test_a_reachable_server_that_died_is_reachable_again_with_whatever_run_starts_it(
    home: Home, python: Python, reached: str
) -> None:
    login = login_of(home)
    server.stop(home)
    local = server.ensure(home, python)
    assert local == reached.replace(OTHER, "127.0.0.1")
    with closing(Mlflow(reached, login.variables)) as mlflow:
        mlflow.check()


@only_linux
def test_a_new_login_takes_the_place_of_one_that_was_removed(home: Home, python: Python, reached: str) -> None:
    old = login_of(home)
    server.stop(home)
    old.file.unlink()
    assert server.ensure(home, python, reach=Reach(OTHER)) == reached
    new = login_of(home)
    assert new != old
    with closing(Mlflow(reached, new.variables)) as mlflow:
        mlflow.check()
    with closing(Mlflow(reached, old.variables)) as mlflow, pytest.raises(TrackingRejectedError, match="HTTP 401"):
        mlflow.check()


@only_linux
def test_a_server_on_a_leash_ends_with_its_holder(tmp_path: Path, python: Python) -> None:
    home = Home(tmp_path)
    reading, writing = os.pipe()
    server.ensure(home, python, reach=Reach(OTHER), leash=reading)
    os.close(reading)
    assert server.alive(home)
    os.close(writing)
    for _ in range(100):
        if not server.alive(home):
            break
        threading.Event().wait(0.1)
    assert server.status(home) is None


def test_an_address_of_another_machine_leaves_the_running_server_alone(home: Home, python: Python) -> None:
    local = server.ensure(home, python)
    with pytest.raises(TrackingError, match="no address for"):
        server.ensure(home, python, reach=Reach("no-such-host.invalid"))
    assert server.ensure(home, python) == local

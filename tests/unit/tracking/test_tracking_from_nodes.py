from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airlane.errors import EnvironmentBuildError
from airlane.store import codec
from airlane.store.disk import make_private_folder
from airlane.store.paths import Home, RunPaths
from airlane.tracking import kept, targets
from airlane.tracking.server_record import ServerRecord
from airlane.tracking.targets import FromNode

if TYPE_CHECKING:
    from unit.tracking.conftest import StandIn


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "ho me")
    make_private_folder(home.mlflow)
    return home


@pytest.fixture
def run(home: Home) -> RunPaths:
    run = RunPaths(home.runs / "2026-11" / "7k2m9q4d")
    make_private_folder(run.root)
    return run


def announce(home: Home, port: int, *, address: str | None = "127.0.0.1") -> None:
    """What the machine beside the server leaves in the home: the record and the login."""
    record = ServerRecord("x", "login1", port, 0.0, "python", pid=1, address=address)
    (home.mlflow / "server.json").write_bytes(codec.encode(record))
    login = home.mlflow / "login.json"
    login.write_text(json.dumps({"MLFLOW_TRACKING_USERNAME": "ann", "MLFLOW_TRACKING_PASSWORD": "sesame"}))
    login.chmod(0o600)


def no_python() -> Path:
    raise EnvironmentBuildError("no server is started here")


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of something that takes connections and says nothing, as behind some firewalls."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_node_signs_in_to_the_homes_server(home: Home, run: RunPaths, stand_in: StandIn) -> None:
    announce(home, stand_in.port)
    target = FromNode(home, no_python, run)
    link = target.connect()
    with closing(link.mlflow) as mlflow:
        mlflow.check()
    assert link.mlflow.uri == stand_in.uri
    assert (link.login_file, link.kept_because) == (home.mlflow / "login.json", None)
    assert stand_in.requests[-1][1]["Authorization"] == "Basic YW5uOnNlc2FtZQ=="
    assert not target.lost()
    target.close()
    assert not run.tracking.exists()
    assert not home.kept.exists()


@pytest.mark.parametrize("left", ["nothing", "loopback only", "no login", "refused"])
def test_a_node_without_the_homes_server_never_starts_that_one(
    home: Home, run: RunPaths, stand_in: StandIn, left: str
) -> None:
    if left != "nothing":
        announce(home, stand_in.port, address=None if left == "loopback only" else "127.0.0.1")
    if left == "no login":
        (home.mlflow / "login.json").unlink()
    if left == "refused":
        stand_in.faults.append("401")
    before = sorted(path.name for path in home.mlflow.iterdir())
    with pytest.raises(EnvironmentBuildError, match="no server is started here"):
        FromNode(home, no_python, run).connect()
    assert sorted({path.name for path in home.mlflow.iterdir()} - {"kept"}) == before
    assert [noted.root for _, noted in kept.notes(home)] == [run.root]
    assert [store.root for store in kept.stores(run)] == [run.tracking / "0"]


def test_a_server_that_says_nothing_is_given_up_soon(
    home: Home, run: RunPaths, silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert targets.REACH_S == 3.0
    monkeypatch.setattr(targets, "REACH_S", 0.1)
    announce(home, silent)
    started = time.monotonic()
    with pytest.raises(EnvironmentBuildError):
        FromNode(home, no_python, run).connect()
    assert time.monotonic() - started < 2


def test_a_server_that_comes_back_later_does_not_part_what_is_kept(
    home: Home, run: RunPaths, stand_in: StandIn
) -> None:
    target = FromNode(home, no_python, run)
    for _ in range(2):
        with pytest.raises(EnvironmentBuildError):
            target.connect()
        announce(home, stand_in.port)
    assert len(kept.stores(run)) == 1
    assert stand_in.requests == []


def test_supervisors_of_one_run_keep_their_metrics_apart(home: Home, run: RunPaths) -> None:
    first, second = kept.open_store(home, run), kept.open_store(home, run)
    assert kept.stores(run) == (first, second)
    assert len(list(kept.notes(home))) == 1
    kept.close_store(first)
    assert kept.is_closed(first, long_ago=False)
    assert not kept.is_closed(second, long_ago=False)
    assert kept.is_closed(second, long_ago=True)


def test_a_damaged_note_is_passed_over(home: Home, run: RunPaths) -> None:
    kept.open_store(home, run)
    (home.kept / "7k2m9q4e").write_bytes(b"{")
    (home.kept / ".uploading.lock").touch()
    assert [noted.id for _, noted in kept.notes(home)] == [run.id]


def test_descriptors_do_not_leak_where_no_server_starts(home: Home, run: RunPaths) -> None:
    target = FromNode(home, no_python, run)

    def count() -> int:
        with pytest.raises(EnvironmentBuildError):
            target.connect()
        return len(list(Path("/dev/fd").iterdir()))

    assert count() == count()

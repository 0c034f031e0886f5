from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from airlane.errors import EnvironmentBuildError, TrackingError
from airlane.store import codec
from airlane.store.paths import Home
from airlane.tracking import server, server_launch
from airlane.tracking.server_record import Reach, ServerRecord


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "ho me")
    home.mlflow.mkdir(parents=True)
    return home


@pytest.fixture
def held(home: Home) -> Iterator[int]:
    """A lock on server.json, as a living server holds it."""
    descriptor = os.open(home.mlflow / "server.json", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield descriptor
    os.close(descriptor)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def never() -> Path:
    raise AssertionError("no interpreter is needed")


def test_a_server_lives_for_as_long_as_it_holds_its_lock(home: Home) -> None:
    assert not server.alive(home)
    descriptor = os.open(home.mlflow / "server.json", os.O_RDWR | os.O_CREAT, 0o600)
    assert not server.alive(home)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert server.alive(home)
    os.close(descriptor)
    assert not server.alive(home)


def test_a_server_on_another_machine_is_named_and_left_alone(home: Home, held: int) -> None:
    record = ServerRecord("x", "another-host", free_port(), 0.0, "python", pid=os.getpid())
    os.write(held, codec.encode(record))
    with pytest.raises(TrackingError, match="runs on another-host") as refused:
        server.ensure(home, never, deadline_s=1)
    assert "tracking_uri" in (refused.value.hint or "")
    with pytest.raises(TrackingError, match="runs on another-host"):
        server.stop(home, deadline_s=1)


@pytest.mark.parametrize("content", [b"", b"{", b'{"id": 3}'])
def test_a_lock_that_does_not_say_who_holds_it_ends_at_the_deadline(content: bytes, home: Home, held: int) -> None:
    os.write(held, content)
    with pytest.raises(TrackingError, match="does not say by whom"):
        server.ensure(home, never, deadline_s=0.1)
    assert server.status(home) is None


def test_two_starters_wait_for_each_other_until_the_deadline(home: Home, held: int) -> None:
    del held
    descriptor = os.open(home.mlflow / "starting.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(TrackingError, match="held by another process"):
        server.ensure(home, never, deadline_s=0.1)
    os.close(descriptor)


def test_an_environment_that_cannot_be_built_is_no_tracking_problem_of_its_own(home: Home) -> None:
    def python() -> Path:
        raise EnvironmentBuildError("no solution found")

    with pytest.raises(EnvironmentBuildError, match="no solution found"):
        server.ensure(home, python)


def test_the_server_gets_neither_secrets_nor_a_runs_id(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AIR_RUN_ID", "HF_TOKEN", "MLFLOW_TRACKING_TOKEN", "AWS_SECRET_ACCESS_KEY", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "sesame")
    environment = server_launch.environment(home, ServerRecord("x", "here", 5000, 0.0, "python"))
    assert "sesame" not in environment.values()
    assert environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"


def test_the_port_is_taken_again_unless_another_program_has_it() -> None:
    port = free_port()
    (listener,) = server_launch.listen(port, ("127.0.0.1",))
    (other,) = server_launch.listen(port, ("127.0.0.1",))
    with listener, other:
        assert listener.getsockname() == ("127.0.0.1", port)
        assert other.getsockname()[1] != port


def test_two_addresses_share_a_port_that_is_free_at_both() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.2", 0))
        other.listen()
        taken = other.getsockname()[1]
        first, second = server_launch.listen(taken, ("127.0.0.1", "127.0.0.2"))
    with first, second:
        assert first.getsockname()[1] == second.getsockname()[1] != taken


def test_an_address_of_another_machine_cannot_be_listened_at() -> None:
    with pytest.raises(TrackingError, match=r"no port on 127\.0\.0\.1 and 203\.0\.113\.9") as refused:
        server_launch.listen(0, ("127.0.0.1", "203.0.113.9"))
    assert "name an address of this machine" in (refused.value.hint or "")


def test_a_server_for_other_machines_answers_by_its_names_alone(home: Home) -> None:
    record = ServerRecord("x", "login1", 5000, 0.0, "python", address="10.0.0.1")
    allowed = server_launch.environment(home, record)["MLFLOW_SERVER_ALLOWED_HOSTS"]
    assert allowed == "127.0.0.1:*,localhost:*,10.0.0.1:*,login1:*,login1.*:*"
    assert record.uri == record.public_uri == "http://10.0.0.1:5000"


def test_this_machine_reaches_its_server_on_loopback() -> None:
    record = ServerRecord("x", socket.gethostname(), 5000, 0.0, "python", address="10.0.0.1")
    assert (record.uri, record.public_uri) == ("http://127.0.0.1:5000", "http://10.0.0.1:5000")


def test_a_server_fits_a_reach_at_an_address_that_this_machine_still_has() -> None:
    here = socket.gethostname()
    loopback, own, gone = (ServerRecord("x", here, 1, 0.0, "p", address=a) for a in (None, "127.0.0.2", "203.0.113.9"))
    elsewhere = ServerRecord("x", "another-host", 1, 0.0, "p", address="203.0.113.9")
    assert [server._within(r, None) for r in (loopback, own, gone, elsewhere)] == [True] * 4
    assert [server._within(r, Reach()) for r in (loopback, own, gone, elsewhere)] == [False, True, False, True]
    assert server._within(own, Reach("127.0.0.2"))
    assert not server._within(own, Reach("127.0.0.3"))


def test_a_server_that_other_machines_reached_stays_so() -> None:
    before = ServerRecord("x", "h", 1, 0.0, "p", address="127.0.0.2")
    assert server._public_address(None, before) == "127.0.0.2"
    assert server._public_address(Reach("127.0.0.3"), before) == "127.0.0.3"
    assert server._public_address(None, ServerRecord("x", "h", 1, 0.0, "p")) is None
    assert server._public_address(None, None) is None


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(TrackingError, match=r"no address for no-such-host\.invalid"):
        server._public_address(Reach("no-such-host.invalid"), None)


def test_a_log_that_grew_large_is_set_aside(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_launch, "LOG_BYTES", 3)
    for text in (b"first", b"second"):
        with server_launch._log(home) as log:
            os.write(log, text)
    assert (home.mlflow / "server.log.1").read_bytes() == b"first"
    assert (home.mlflow / "server.log").read_bytes() == b"second"


def test_a_failed_start_shows_the_last_line_of_the_log(home: Home) -> None:
    assert "it said nothing" in server_launch.start_failure(home).message
    (home.mlflow / "server.log").write_bytes(b"x" * 10_000 + b"\nModuleNotFoundError: No module named 'mlflow'\n\n")
    assert server_launch.start_failure(home).message.endswith("ModuleNotFoundError: No module named 'mlflow'")


def test_a_home_that_cannot_be_written_is_a_tracking_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrackingError, match="cannot start the MLflow server"):
        server.ensure(Home(tmp_path / "file" / "home"), never)

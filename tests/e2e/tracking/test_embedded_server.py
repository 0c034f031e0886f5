from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from airlane.errors import TrackingError
from airlane.store.paths import Home
from airlane.tracking import server
from airlane.tracking.connection import Connection, Request
from airlane.tracking.rest import Mlflow
from open_files import open_files_of

pytestmark = pytest.mark.slow

Python = Callable[[], Path]
ENSURE = """
import sys
from pathlib import Path
from airlane.store.paths import Home
from airlane.tracking import server
print(server.ensure(Home(Path(sys.argv[1])), lambda: Path(sys.argv[2])))
"""


def never() -> Path:
    raise AssertionError("a server is running: no interpreter is needed")


def running(home: Home) -> server.ServerStatus:
    status = server.status(home)
    assert status is not None
    return status


def pid(home: Home) -> int:
    number = running(home).pid
    assert number is not None
    return number


def processes_in(folder: Path) -> list[int]:
    """The processes that work in this folder (Linux)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink() == folder:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_many_runs_that_need_a_server_at_once_start_one(home: Home, python: Python) -> None:
    server.stop(home)
    assert not server.has_answered(home)
    command = [sys.executable, "-c", ENSURE, str(home.root), str(python())]
    env = os.environ | {"AIR_RUN_ID": "7k2m9q4d", "HF_TOKEN": "sesame"}
    with open(os.devnull, "rb") as inherited:  # noqa: PTH123 - any open descriptor will do
        os.set_inheritable(inherited.fileno(), True)
        started = time.monotonic()
        starters = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, pass_fds=(inherited.fileno(),))
            for _ in range(8)
        ]
        uris = {starter.communicate()[0].strip() for starter in starters}
        print(f"8 concurrent runs had a server after {time.monotonic() - started:.1f} s")
    assert server.has_answered(home)
    status = running(home)
    assert uris == {status.uri}
    assert processes_in(home.mlflow) == [status.pid]
    print(f"the server uses {(status.rss_bytes or 0) / 1e6:.0f} MB in one process, MLflow {status.mlflow_version}")
    proc = Path(f"/proc/{status.pid}")
    environ = (proc / "environ").read_bytes()
    assert b"AIR_RUN_ID" not in environ
    assert b"sesame" not in environ
    assert status.pid is not None
    open_files = open_files_of(status.pid)
    assert open_files.pop(0) == Path(os.devnull)
    assert Path(os.devnull) not in open_files.values()
    parent, session = (int((proc / "stat").read_text().rpartition(")")[2].split()[i]) for i in (1, 3))
    assert parent != os.getpid()
    assert session not in (os.getsid(0), os.getpid())


def children() -> set[str]:
    """The pids of this process's children, dead ones that nobody waited for too."""
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "stat").read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(entry.name)
    return found


def test_a_killed_server_comes_back_at_the_same_address_with_its_data(home: Home, python: Python) -> None:
    before = children()
    uri = server.ensure(home, python)
    with closing(Mlflow(uri, {})) as mlflow:
        experiment = mlflow.experiment("kept")
    os.kill(pid(home), signal.SIGKILL)
    deadline = time.monotonic() + 10
    while server.alive(home):
        assert time.monotonic() < deadline
    assert server.status(home) is None
    assert server.ensure(home, python) == uri
    assert children() == before, "the starter has a child left, perhaps a dead one"
    with closing(Mlflow(uri, {})) as mlflow:
        assert mlflow.experiment("kept") == experiment


def test_a_running_server_is_found_again_without_an_interpreter(home: Home, python: Python) -> None:
    uri = server.ensure(home, python)
    assert server.ensure(home, never) == uri


def test_a_server_that_hangs_is_replaced_at_the_same_address(
    home: Home, python: Python, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = server.ensure(home, python)
    hung = pid(home)
    os.kill(hung, signal.SIGSTOP)
    monkeypatch.setattr(server, "QUICK_S", 0.2)
    assert not running(home).answering
    monkeypatch.setattr(server, "STARTING_S", 1.0)
    monkeypatch.setattr(server, "HUNG_AFTER_S", 1.0)
    monkeypatch.setattr(server, "STOP_S", 1.0)
    assert server.ensure(home, python, deadline_s=60) == uri
    assert pid(home) != hung
    assert not Path(f"/proc/{hung}").exists()


def test_another_program_on_the_port_is_not_taken_for_the_server(home: Home, python: Python) -> None:
    uri = server.ensure(home, python)
    port = int(uri.rpartition(":")[2])
    assert server.stop(home)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        moved = server.ensure(home, python)
        assert moved != uri
    assert running(home).answering


def test_stopping_leaves_no_process_and_is_harmless_when_repeated(home: Home, python: Python) -> None:
    server.ensure(home, python)
    assert server.stop(home)
    assert processes_in(home.mlflow) == []
    assert server.status(home) is None
    assert not server.stop(home)


def test_a_server_that_cannot_start_says_what_its_log_says(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with pytest.raises(TrackingError, match=r"did not start: .*mlflow") as failed:
        server.ensure(home, lambda: Path(sys.executable))
    assert "server.log" in (failed.value.hint or "")
    assert server.status(home) is None
    with pytest.raises(TrackingError, match="cannot start"):
        server.ensure(home, lambda: home.root / "no such python")


def test_a_store_of_another_version_is_copied_and_upgraded(home: Home, python: Python) -> None:
    uri = server.ensure(home, python)
    with closing(Mlflow(uri, {})) as mlflow:
        experiment = mlflow.experiment("kept")
    server.stop(home)
    record = home.mlflow / "server.json"
    record.write_text(record.read_text().replace(f'"{version(python)}"', '"3.0.0"'))
    assert server.ensure(home, python) == uri
    assert (home.mlflow / "mlflow.db.3.0.0").stat().st_size > 0
    assert running(home).mlflow_version == version(python)
    with closing(Mlflow(uri, {})) as mlflow:
        assert mlflow.experiment("kept") == experiment


def version(python: Python) -> str:
    code = "from importlib.metadata import version; print(version('mlflow'))"
    return subprocess.run([python(), "-I", "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_files_are_private(home: Home, python: Python) -> None:
    server.ensure(home, python)
    for path in (home.mlflow, home.mlflow / "mlflow.db", home.mlflow / "server.json"):
        assert path.stat().st_mode & 0o077 == 0


def test_mlflows_assistant_is_out_of_reach(home: Home, python: Python) -> None:
    with closing(Mlflow(server.ensure(home, python), {})) as mlflow:
        connection = Connection(mlflow.address, {})
        answer = connection.exchange(Request("GET", "/ajax-api/3.0/mlflow/assistant/config"))
        connection.close()
        assert answer.status == 403


def test_the_page_is_served(home: Home, python: Python) -> None:
    with closing(Mlflow(server.ensure(home, python), {})) as mlflow:
        connection = Connection(mlflow.address, {})
        answer = connection.exchange(Request("GET", "/"))
        connection.close()
        assert b"MLflow" in answer.body


def test_a_server_whose_home_is_removed_ends(home: Home, python: Python) -> None:
    server.ensure(home, python)
    process = Path(f"/proc/{pid(home)}")
    home.root.rename(home.root.with_name("still here"))
    home.root.with_name("still here").rename(home.root)
    assert running(home).answering
    (home.mlflow / "server.json").unlink()
    deadline = time.monotonic() + 60
    while process.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)

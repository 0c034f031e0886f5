"""A run's node, in a network and with a host name of its own, on the file system of the home."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from airlane.api import Client
from airlane.store import codec
from airlane.store.disk import SystemDisk, make_private_folder
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Attempt, Cause, CauseKind, Status, Verdict
from airlane.store.runs import RunContent, RunStore, RunView
from airlane.store.states import Phase, State
from airlane.store.uploaded import upload_waits
from airlane.tracking import server
from airlane.tracking.login import variables
from airlane.tracking.rest import Mlflow
from airlane.tracking.server_record import Reach
from airlane.tracking.upload import upload_kept
from unit.store.made_records import made_record

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="network namespaces need root on Linux"),
]

Python = Callable[[], Path]
OTHER = "127.0.0.2"
PROGRAM = Path(__file__).with_name("node_program.py")
CUT_OFF = (
    "ip link set lo up; ip link add v0 type veth peer name v1; ip addr add 10.9.8.7/24 dev v0;"
    ' ip link set v0 up; ip link set v1 up; hostname gpu-b16; exec "$@"'
)
CAUSE = Cause(CauseKind.EXIT_CODE, "node 0 exited with code 3")


class LostError(Exception):
    """The end of a process, as far as files and servers notice."""


class NodeProcess:
    """node_program.py, running; `cut_off` from every other machine or not."""

    def __init__(self, run: RunPaths, home: Home, python: Python, steps: str, *, cut_off: bool) -> None:
        command = [sys.executable, str(PROGRAM), str(home.root), str(run.root), str(python()), steps]
        if cut_off:
            command = ["unshare", "--net", "--uts", "sh", "-ec", CUT_OFF, "sh", *command]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the program ended"
        facts: dict[str, Any] = json.loads(line)
        return facts

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> int:
        self._process.communicate(timeout=120)
        return self._process.returncode

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class StartNode(Protocol):
    def __call__(self, steps: str, *, cut_off: bool) -> NodeProcess: ...


@pytest.fixture
def start(run: RunPaths, home: Home, python: Python) -> Iterator[StartNode]:
    started: list[NodeProcess] = []

    def start(steps: str, *, cut_off: bool) -> NodeProcess:
        started.append(NodeProcess(run, home, python, steps, cut_off=cut_off))
        return started[-1]

    yield start
    for node in started:
        node.close()


@pytest.fixture(scope="module", autouse=True)
def loopback_again(home: Home) -> Iterator[None]:
    yield
    server.stop(home)
    (home.mlflow / "server.json").unlink(missing_ok=True)


@pytest.fixture
def reached(home: Home, python: Python) -> str:
    return server.ensure(home, python, reach=Reach(OTHER))


@pytest.fixture
def run(home: Home) -> RunPaths:
    make_private_folder(home.root)
    new = RunStore(home).create(made_record(submitted_at=time.time()), RunContent("command: x\n", "x\n"))
    os.close(new.lock)
    return new.paths


def write_status(run: RunPaths, *attempts: Attempt, state: State = State.FAILED, ended_at: float | None = None) -> None:
    status = Status(state, None, None, time.time(), 1, "gpu-b16", attempts=attempts, tracking_error="metrics are kept")
    if state.terminal:
        status = replace(status, cause=CAUSE, ended_at=ended_at or time.time())
    else:
        status = replace(status, phase=Phase.RUNNING)
    SystemDisk().replace(run.status, codec.encode(status))


def attempt(number: int, *, ended: bool = True) -> Attempt:
    made = Attempt(number, time.time(), mlflow_run_id="of the run's own server")
    return replace(made, ended_at=time.time(), state=State.FAILED, cause=CAUSE) if ended else made


def upload(home: Home) -> tuple[str, ...]:
    return upload_kept(home, lambda view, each: ((view.paths.log(attempt=each.number, node=0), "logs/node_0"),))


def view(home: Home, run: RunPaths) -> RunView:
    return RunStore(home).view(run)


def tracking_error(home: Home, run: RunPaths) -> str | None:
    status = view(home, run).status
    assert status is not None
    return status.tracking_error


def history(mlflow: Mlflow, run_id: str, key: str) -> list[tuple[float, int]]:
    answer = mlflow._get("/metrics/get-history", {"run_id": run_id, "metric_key": key})
    return [(float(row["value"]), row["step"]) for row in answer["metrics"]]


def all_runs(mlflow: Mlflow, run: RunPaths) -> list[dict[str, Any]]:
    """Everything at the home's server that this run's attempts made."""
    experiment = mlflow.find_experiment("on a node")
    assert experiment is not None
    found = mlflow._post("/runs/search", {"experiment_ids": [experiment.id], "max_results": 1000})["runs"]
    by_id = {each["info"]["run_id"]: each for each in found}
    ours = []
    for each in by_id.values():
        top = each
        tags = {tag["key"]: tag["value"] for tag in top["data"]["tags"]}
        while "mlflow.parentRunId" in tags:
            tags = {tag["key"]: tag["value"] for tag in by_id[tags["mlflow.parentRunId"]]["data"]["tags"]}
        if tags["airlane.run_id"] == run.id:
            ours.append(each)
    return ours


def check_arrived(home: Home, mlflow: Mlflow, run: RunPaths) -> None:
    """All that node_program.py's command and its supervisor recorded of attempt 0 is there, once."""
    last = view(home, run).attempts[0]
    assert last.mlflow_url is not None
    assert last.mlflow_run_id is not None
    arrived = mlflow.get_run(last.mlflow_run_id)
    assert arrived.status == "FAILED"
    assert arrived.params["lr"] == "0.1"
    assert arrived.tags["mlflow.runName"] == "a run"
    assert arrived.tags["airlane.cause"] == "node 0 exited with code 3"
    assert history(mlflow, arrived.id, "loss") == [(1 / (step + 1), step) for step in range(5)]
    assert str(history(mlflow, arrived.id, "bad")) == "[(nan, 0)]"
    assert [a.path for a in mlflow.list_artifacts(arrived.id, "model é")] == ["model é/weights.txt"]
    assert [a.path for a in mlflow.list_artifacts(arrived.id, "logs/node_0")] == ["logs/node_0/0.log"]
    datasets = mlflow._get("/runs/get", {"run_id": arrived.id})["run"]["inputs"]["dataset_inputs"]
    assert [each["dataset"]["name"] for each in datasets] == ["numbers"]
    names = sorted(each["info"]["run_name"] for each in all_runs(mlflow, run))
    assert names == ["a run", "child"]


def test_a_node_that_reaches_the_homes_server_records_there(
    home: Home, run: RunPaths, start: StartNode, reached: str
) -> None:
    node = start("ae", cut_off=False)
    opened, begun, ended, closed = (node.next() for _ in range(4))
    assert node.end() == 0
    assert opened["settled_after_s"] < 2
    assert (begun["uri"], begun["login"]) == (reached, True)
    assert begun["url"].startswith(f"{reached}/#/experiments/")
    assert (ended["error"], closed["error"]) == (None, None)
    assert closed["last_metric"] == 0.2
    assert not run.tracking.exists()
    assert not upload_waits(home)


def test_what_a_node_without_the_server_recorded_is_uploaded_once_when_the_run_has_ended(
    home: Home, run: RunPaths, start: StartNode, reached: str
) -> None:
    node = start("awe", cut_off=True)
    opened, begun, _ = (node.next() for _ in range(3))
    print(f"a node without the server had its own after {opened['settled_after_s']:.1f} s")
    assert (begun["url"], begun["login"]) == (None, True)
    assert begun["uri"].startswith("http://10.9.8.7:")
    assert f"on gpu-b16, tracking server {reached}" in begun["error"]
    assert "metrics are kept in the run folder" in begun["error"]
    write_status(run, attempt(0, ended=False), state=State.RUNNING)
    assert upload_waits(home)
    assert upload(home) == ()
    node.go_on()
    node.end()
    assert not server.alive(Home(run.tracking / "0"))
    assert upload(home) == ()
    write_status(run, attempt(0))
    assert tracking_error(home, run) == "metrics are kept"
    started = time.monotonic()
    assert upload(home) == (run.id,)
    print(f"uploading took {time.monotonic() - started:.1f} s")
    assert upload(home) == ()
    assert not run.tracking.exists()
    assert not upload_waits(home)
    with closing(Mlflow(reached, variables(home))) as mlflow:
        check_arrived(home, mlflow, run)
        arrived = view(home, run).attempts[0].mlflow_run_id or ""
        assert history(mlflow, arrived, "system/cpu_utilization_percentage") == [(5, 0)]
        assert mlflow.get_run(arrived).params["epochs"] == "3"
    assert tracking_error(home, run) is None


@pytest.mark.long
def test_the_next_look_at_a_run_uploads_what_it_kept_beside(
    home: Home, run: RunPaths, start: StartNode, reached: str
) -> None:
    assert start("ae", cut_off=True).end() == 0
    write_status(run, attempt(0))
    client = Client(home=home.root, env={"AIR_CONFIG": os.devnull, "USER": "me"})
    started = time.monotonic()
    looked = client.get(run.id)
    assert time.monotonic() - started < 2
    client.get(run.id)
    deadline = time.monotonic() + 60
    while upload_waits(home):
        assert time.monotonic() < deadline, (home.kept / ".log").read_text()
    assert not run.tracking.exists()
    url = looked.view().attempts[0].mlflow_url
    assert url is not None
    assert [seen.attempts[0].mlflow_url for seen in client.list(all_status=True) if seen.record.id == run.id] == [url]
    with closing(Mlflow(reached, variables(home))) as mlflow:
        check_arrived(home, mlflow, run)


def test_an_upload_that_was_interrupted_goes_on_where_it_was(
    home: Home, run: RunPaths, start: StartNode, reached: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start("ae", cut_off=True)
    assert node.end() == 0
    write_status(run, attempt(0))
    whole = Mlflow._post
    left = 0

    def failing(self: Mlflow, path: str, body: dict[str, Any], *, repeat: bool = True) -> dict[str, Any]:
        """The answer to the last request that is left gets lost."""
        nonlocal left
        left -= 1
        answer = whole(self, path, body, repeat=repeat)
        if left == 0:
            raise LostError
        return answer

    monkeypatch.setattr(Mlflow, "_post", failing)
    for requests in range(1, 30, 3):
        left = requests
        try:
            upload(home)
        except LostError:
            assert run.tracking.exists()
    monkeypatch.setattr(Mlflow, "_post", whole)
    assert upload(home) in ((), (run.id,))
    assert not run.tracking.exists()
    with closing(Mlflow(reached, variables(home))) as mlflow:
        check_arrived(home, mlflow, run)


@pytest.mark.long
def test_what_only_mlflows_own_tools_can_move_stays_and_is_told(
    home: Home, run: RunPaths, start: StartNode, reached: str
) -> None:
    assert start("ame", cut_off=True).end() == 0
    write_status(run, attempt(0))
    assert upload(home) == (run.id,)
    assert not upload_waits(home)
    error = tracking_error(home, run)
    assert error is not None
    assert "logged models (1), registered models (1), traces (1)" in error
    assert f"sqlite:///{run.tracking / '0' / 'mlflow' / 'mlflow.db'}" in error
    assert (run.tracking / "0" / "mlflow" / "mlflow.db").exists()
    with closing(Mlflow(reached, variables(home))) as mlflow:
        check_arrived(home, mlflow, run)


def test_what_a_killed_supervisor_had_kept_is_uploaded_with_the_verdict(
    home: Home, run: RunPaths, start: StartNode, reached: str
) -> None:
    node = start("awk", cut_off=True)
    for _ in range(3):
        node.next()
    write_status(run, attempt(0, ended=False), state=State.RUNNING)
    node.go_on()
    assert node.end() != 0
    assert upload(home) == ()
    verdict = Verdict(State.FAILED, CAUSE, time.time(), "a reader")
    SystemDisk().replace(run.verdict, codec.encode(verdict))
    deadline = time.monotonic() + 30
    while not (done := upload(home)):
        assert time.monotonic() < deadline, "its server lives on"
    assert done == (run.id,)
    with closing(Mlflow(reached, variables(home))) as mlflow:
        check_arrived(home, mlflow, run)


def test_a_node_that_loses_the_server_in_mid_run_keeps_the_rest(
    home: Home, python: Python, run: RunPaths, start: StartNode, reached: str
) -> None:
    node = start("awe", cut_off=False)
    _, begun, _ = (node.next() for _ in range(3))
    assert begun["uri"] == reached
    server.stop(home)
    node.go_on()
    node.next()
    closed = node.next()
    assert node.end() == 0
    assert "metrics are kept in the run folder" in closed["error"]
    write_status(run, replace(attempt(0), mlflow_run_id=None), replace(attempt(1), mlflow_run_id="kept"))
    assert upload(home) == (), "the home's server is down"
    assert upload_waits(home)
    assert server.ensure(home, python) != reached
    assert upload(home) == (run.id,)
    with closing(Mlflow(reached, variables(home))) as mlflow:
        (one,) = [each for each in all_runs(mlflow, run) if each["info"]["run_name"] == "a run"]
        assert one["info"]["status"] == "FAILED"
        assert [a.path for a in mlflow.list_artifacts(one["info"]["run_id"], "logs/node_0")] == ["logs/node_0/0.log"]
        assert history(mlflow, one["info"]["run_id"], "loss")[-1] == (0.2, 4)

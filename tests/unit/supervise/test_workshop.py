"""The workshop: the environment beside the queue, the code on each node, and what the nodes are told."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airlane import environment, snapshot
from airlane.backends.base import NodeHome, NodePlace
from airlane.environment import BuiltEnvironment, EnvironmentPlan
from airlane.errors import AirError, EnvironmentBuildError, SnapshotError
from airlane.launch.order_file import read_order
from airlane.snapshot.model import CodeRequest
from airlane.store.paths import Home, RunPaths
from airlane.store.records import EnvironmentRecord, RayRecord, RunRecord, SnapshotRecord
from airlane.supervise.workshop import RunWorkshop
from airlane.tracking.tracker import TrackedRun

from .made_nodes import LIMITS

PLACES = (NodePlace(0, "gpu-b0", "10.0.0.7", ("GPU-aa",)), NodePlace(1, "gpu-b1", "10.0.0.8", ("GPU-bb",)))
TRACKED = TrackedRun(run_id="f00d", experiment_id="3", uri="http://mlflow", url="http://mlflow/#/f00d")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "a 'home' ü\n")


@pytest.fixture
def paths(home: Home) -> RunPaths:
    made = RunPaths(home.runs / "2026-11" / "7k2m9q4d")
    made.attempts.mkdir(parents=True)
    made.secrets.touch(mode=0o600)
    return made


def record(**changes: Any) -> RunRecord:
    made = RunRecord(
        "7k2m9q4d", "sft", "me", 1.0, "conf/train.yaml", "local", None, 2, 2, 1, "GPU_1xH100", simulate=False,
        limits=replace(LIMITS, stop_grace_s=7.0), environment=EnvironmentRecord("host", (), "3.11", None),
    )  # fmt: skip
    return replace(made, **changes)


def plan(home: Home, *, cached: bool = True) -> EnvironmentPlan:
    made = environment.plan("host", (), base_dir=home.root, home=home)
    return replace(made, cached=cached)


def ready_workshop(made: RunRecord, paths: RunPaths, home: Home) -> RunWorkshop:
    workshop = RunWorkshop(made, paths, home, plan(home))
    workshop.begin()
    assert workshop.ready()
    return workshop


def test_each_node_is_told_what_is_its_own(home: Home, paths: RunPaths) -> None:
    made = record(env_variables={"LR": "0.1"}, secrets={"HF_TOKEN": "hf/token"}, has_parameters=True)
    orders = ready_workshop(made, paths, home).orders(2, PLACES, 20_123, TRACKED)
    assert [order.node_rank for order in orders] == [0, 1]
    for node, order in enumerate(orders):
        assert order.run_id == "7k2m9q4d"
        assert order.attempt == 2
        assert order.command_file == str(paths.command)
        assert order.log_file == str(paths.log(attempt=2, node=node))
        assert order.record_file == str(paths.node_record(attempt=2, node=node))
        assert order.metrics_file == str(paths.node_metrics(attempt=2, node=node))
        assert order.secrets_files == (str(paths.secrets),)
        assert order.stop_grace_s == 7.0
        assert order.gpus == PLACES[node].devices
        assert order.working_folder == order.env["CODE_SOURCE_PATH"]
        assert Path(order.working_folder).is_dir()
        assert order.scratch_folders == (order.env["RAY_TMPDIR"],)
    assert len({order.working_folder for order in orders}) == 2


def test_the_variables_are_those_that_were_promised(home: Home, paths: RunPaths) -> None:
    made = record(env_variables={"LR": "0.1", "OMP_NUM_THREADS": "4"}, has_parameters=True)
    _, order = ready_workshop(made, paths, home).orders(1, PLACES, 20_123, TRACKED)
    promised = {
        "AIR_RUN_ID": "7k2m9q4d",
        "AIR_ATTEMPT": "1",
        "AIR_CHECKPOINT_DIR": str(paths.checkpoints),
        "MASTER_ADDR": "10.0.0.7",
        "MASTER_PORT": "20123",
        "NUM_NODES": "2",
        "NODE_RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "1",
        "CUDA_VISIBLE_DEVICES": "GPU-bb",
        "HYPERPARAMETERS_PATH": str(paths.parameters),
        "MLFLOW_TRACKING_URI": "http://mlflow",
        "MLFLOW_EXPERIMENT_NAME": "sft",
        "MLFLOW_RUN_ID": "f00d",
        "PYTHONUNBUFFERED": "1",
        "LR": "0.1",
        "OMP_NUM_THREADS": "4",
    }
    assert promised.items() <= order.env.items()
    assert order.env["PATH"].split(os.pathsep)[0]
    assert not {"RANK", "LOCAL_RANK"} & set(order.env)


def test_without_parameters_and_tracking_their_variables_are_not_there(home: Home, paths: RunPaths) -> None:
    order, _ = ready_workshop(record(), paths, home).orders(0, PLACES, 20_123, None)
    absent = {"HYPERPARAMETERS_PATH", "MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_NAME"}
    assert not absent & set(order.env)
    assert order.secrets_files == ()


def test_the_login_of_the_tracking_server_reaches_the_command_as_a_secret(home: Home, paths: RunPaths) -> None:
    tracked = TrackedRun("1", "f00d", "http://10.0.0.1:5000", None, login_file="/home/mlflow/login.json")
    order, _ = ready_workshop(record(), paths, home).orders(0, PLACES, 20_123, tracked)
    assert order.secrets_files == ("/home/mlflow/login.json",)
    order, _ = ready_workshop(record(secrets={"TOKEN": "a/b"}), paths, home).orders(0, PLACES, 20_123, tracked)
    assert order.secrets_files == (str(paths.secrets), "/home/mlflow/login.json")
    assert not {"MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"} & set(order.env)


def test_a_proxy_is_not_asked_for_our_own_server(home: Home, paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    tracked = TrackedRun("1", "f00d", "http://10.0.0.1:5000", None)
    user = record(env_variables={"NO_PROXY": "data.example"})
    order, _ = ready_workshop(user, paths, home).orders(0, PLACES, 20_123, tracked)
    assert order.env["NO_PROXY"] == order.env["no_proxy"] == "data.example,10.0.0.1"
    theirs = record(tracking_uri="http://mlflow.example")
    order, _ = ready_workshop(theirs, paths, home).orders(0, PLACES, 20_123, tracked)
    assert "no_proxy" not in order.env
    monkeypatch.delenv("http_proxy")
    order, _ = ready_workshop(record(), paths, home).orders(0, PLACES, 20_123, tracked)
    assert "no_proxy" not in order.env


def test_an_order_survives_its_file(home: Home, paths: RunPaths, tmp_path: Path) -> None:
    order, _ = ready_workshop(record(env_variables={"Q": "a 'b' \"c\"\nü"}), paths, home).orders(0, PLACES, 1, None)
    file = tmp_path / "order.json"
    file.write_text(order.to_json())
    assert read_order(str(file)).env == order.env


def frozen(home: Home, folder: Path) -> SnapshotRecord:
    folder.mkdir()
    (folder / "train.py").write_text("print('hi')\n")
    code = snapshot.plan(CodeRequest(root=folder), cache_dir=None)
    home.snapshots.mkdir(parents=True)
    snapshot.pack(code, home.snapshot_archive(code.digest))
    return SnapshotRecord(code.digest, code.root_name, code.files, code.size_bytes)


def test_each_node_has_its_own_copy_of_the_code_and_it_is_removed_after(
    home: Home, paths: RunPaths, tmp_path: Path
) -> None:
    workshop = ready_workshop(record(snapshot=frozen(home, tmp_path / "my 'code' ü")), paths, home)
    orders = workshop.orders(0, PLACES, 1, None)
    for order in orders:
        folder = Path(order.working_folder)
        assert folder.name == "my 'code' ü"
        assert (folder / "train.py").read_text() == "print('hi')\n"
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    workshop.clean(0)
    workshop.clean(0)
    assert not any(Path(order.working_folder).exists() for order in orders)


def test_code_that_is_gone_says_how_to_freeze_it_again(home: Home, paths: RunPaths) -> None:
    workshop = ready_workshop(record(snapshot=SnapshotRecord("a1f3", "code", 1, 1)), paths, home)
    with pytest.raises(SnapshotError, match="the code of this run is gone") as caught:
        workshop.orders(0, PLACES, 1, None)
    assert caught.value.hint == "air run -f conf/train.yaml"


@pytest.mark.parametrize("damage", ["cut", "junk"])
def test_code_that_is_damaged_is_an_error_that_a_run_can_end_with(
    home: Home, paths: RunPaths, tmp_path: Path, damage: str
) -> None:
    kept = frozen(home, tmp_path / "code")
    archive = home.snapshot_archive(kept.digest)
    content = archive.read_bytes()
    archive.chmod(0o600)
    archive.write_bytes(content[: len(content) // 2] if damage == "cut" else b"junk" * 20)
    workshop = ready_workshop(record(snapshot=kept), paths, home)
    with pytest.raises((AirError, OSError)):
        workshop.orders(0, PLACES, 1, None)


def test_an_environment_that_is_not_there_is_built_beside_the_queue(
    home: Home, paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, finish = threading.Event(), threading.Event()

    def build(asked: EnvironmentPlan, **options: Any) -> BuiltEnvironment:
        options["progress"]("resolving")
        begun.set()
        finish.wait(10)
        return environment.build(replace(asked, cached=True), progress=lambda _words: None)

    monkeypatch.setattr("airlane.supervise.workshop.environment", _Environment(build))
    workshop = RunWorkshop(record(), paths, home, plan(home, cached=False))
    workshop.begin()
    assert begun.wait(10)
    assert not workshop.ready()
    assert workshop.progress == "environment: resolving"
    finish.set()
    workshop.close(run_ends=True)
    assert workshop.ready()


class _Environment:
    """The environment package, with another way to build."""

    def __init__(self, build: Any) -> None:
        self.build = build
        self.hold = environment.hold


@pytest.mark.parametrize("error", [EnvironmentBuildError("no torch"), OSError(errno.ENOSPC, "No space left")])
@pytest.mark.parametrize("cached", [True, False])
def test_a_build_that_fails_is_told_by_ready(
    home: Home, paths: RunPaths, monkeypatch: pytest.MonkeyPatch, error: Exception, *, cached: bool
) -> None:
    def build(*_: Any, **__: Any) -> BuiltEnvironment:
        raise error

    monkeypatch.setattr("airlane.supervise.workshop.environment", _Environment(build))
    workshop = RunWorkshop(record(), paths, home, plan(home, cached=cached))
    workshop.begin()
    workshop.close(run_ends=True)
    with pytest.raises(type(error)):
        workshop.ready()


@pytest.mark.parametrize("cached", [True, False])
def test_a_disk_without_room_for_the_build_log_is_told_and_not_waited_for(
    home: Home, paths: RunPaths, *, cached: bool
) -> None:
    shutil.rmtree(paths.attempts)
    paths.attempts.touch()  # no folder can be made in a file
    workshop = RunWorkshop(record(), paths, home, plan(home, cached=cached))
    workshop.begin()
    workshop.close(run_ends=True)
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        workshop.ready()


def test_closing_removes_the_secrets_and_gives_up_a_build(
    home: Home, paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_: Any, **options: Any) -> BuiltEnvironment:
        while not options["cancelled"]():
            threading.Event().wait(0.005)
        raise EnvironmentBuildError("given up")

    monkeypatch.setattr("airlane.supervise.workshop.environment", _Environment(build))
    workshop = RunWorkshop(record(), paths, home, plan(home, cached=False))
    workshop.begin()
    workshop.close(run_ends=True)
    workshop.close(run_ends=True)
    assert not paths.secrets.exists()
    with pytest.raises(EnvironmentBuildError, match="given up"):
        workshop.ready()


def test_secrets_that_cannot_be_removed_now_do_not_keep_the_run_from_its_end(
    home: Home, paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = ready_workshop(record(), paths, home)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuse)
    workshop.close(run_ends=True)
    assert paths.secrets.exists()


def test_a_command_finds_our_programs_after_those_of_its_environment(home: Home, paths: RunPaths) -> None:
    order = ready_workshop(record(), paths, home).orders(0, PLACES, 1, None)[0]
    last = Path(order.env["PATH"].split(os.pathsep)[-1])
    assert os.access(last / "air-ranks", os.X_OK)


def apart(place: NodePlace) -> NodePlace:
    """The same node with a disk, an environment and our programs of its own."""
    there = Path(f"/{place.host}")
    own = NodeHome(there / "7k2m9q4d", Path("/fsx/checkpoints"), there / "kit/airlane/launch", "/env/bin", "/env")
    return replace(place, home=own)


@pytest.mark.parametrize("ray", [False, True])
def test_a_node_with_a_disk_of_its_own_is_told_of_its_own_paths_and_sent_the_files_there(
    home: Home, paths: RunPaths, *, ray: bool
) -> None:
    paths.command.write_text("python train.py")
    paths.parameters.write_text("a: 1")
    cluster = RayRecord(num_cpus=None, object_store_bytes=None, ready_timeout_s=60.0, public=False)
    made = record(has_parameters=True, ray=cluster if ray else None)
    workshop = RunWorkshop(made, paths, home, None)
    workshop.begin()
    assert workshop.ready()
    orders = workshop.orders(0, [apart(place) for place in PLACES], 20_123, None)
    escaped = json.dumps(str(home.root))[1:-1]
    for place, order in zip(PLACES, orders, strict=True):
        there = f"/{place.host}/7k2m9q4d"
        files = (order.command_file, order.log_file, order.record_file, order.metrics_file, order.working_folder)
        assert all(str(file).startswith(f"{there}/") for file in files)
        assert order.env["HYPERPARAMETERS_PATH"] == f"{there}/parameters.yaml"
        assert order.env["AIR_CHECKPOINT_DIR"] == "/fsx/checkpoints"
        assert order.env["VIRTUAL_ENV"] == "/env"
        assert order.env["PATH"] == f"/env/bin{os.pathsep}/{place.host}/kit/airlane/ranks/bin"
        assert escaped not in order.to_json()
        sent = paths.sent(attempt=0, node=place.node)
        assert (sent / "command.sh").read_text() == "python train.py"
        if ray:
            text = (sent / "attempts/0/ray/settings.json").read_text()
            assert f"{there}/attempts/0/ray" in text
            assert escaped not in text
    if ray:
        tokens = {(paths.sent(attempt=0, node=node) / "attempts/0/ray/token").read_text() for node in (0, 1)}
        assert len(tokens) == 1, "the nodes of one cluster have one token"
    workshop.clean(0)
    assert not paths.sent(attempt=0, node=0).exists()

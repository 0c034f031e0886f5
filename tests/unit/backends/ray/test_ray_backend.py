"""How a run reaches a Ray cluster, and how it is canceled there. The dashboard is made; no mirror is started."""

from __future__ import annotations

import io
import json
import os
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from airlane.backends.ray import mirror
from airlane.backends.ray.backend import RayBackend
from airlane.backends.ray.boot import KEY, RUN, sealed
from airlane.backends.ray.ledger import RayFiles, read_job
from airlane.cluster.find import RayCluster
from airlane.cluster.rest import Dashboard
from airlane.errors import BackendError, RayAnswerError, RayUnreachableError
from airlane.store.paths import Home, RunPaths
from airlane.store.records import EnvironmentRecord, Limits, RunRecord
from airlane.store.runs import NewRun, RunContent, RunStore

SECRET = b'{"TOKEN": "sesame"}'
URL = "http://head.example:8265"


class MadeDashboard:
    """Keeps what it is sent. `at` looks at the world when a path is asked for; `trouble` is raised instead."""

    url = URL

    def __init__(self) -> None:
        self.packages: dict[str, bytes] = {}
        self.jobs: list[Mapping[str, Any]] = []
        self.stopped: list[str] = []
        self.at: Callable[[str], object] = lambda _path: None
        self.trouble: BackendError | None = None

    def put(self, path: str, body: BinaryIO, size_bytes: int, *, timeout_s: float) -> None:
        del timeout_s
        self._look(path)
        content = body.read()
        assert len(content) == size_bytes
        self.packages[path] = content

    def get(self, path: str) -> bytes:
        self._look(path)
        return self.packages[path]

    def get_json(self, path: str) -> Any:
        self._look(path)
        if path.startswith("/api/jobs/"):
            if not self.jobs:
                raise RayAnswerError("404", status=404)
            return {"status": "RUNNING", "submission_id": self.jobs[-1]["submission_id"]}
        row = {"node_id": "a" * 56, "node_ip": "10.0.0.1", "state": "ALIVE", "is_head_node": True}
        return {"data": {"result": {"result": [row]}}}

    def post_json(self, path: str, body: Mapping[str, Any], *, timeout_s: float = 10.0) -> Any:
        del timeout_s
        self._look(path)
        if path.endswith("/stop"):
            self.stopped.append(path)
            return {"stopped": True}
        self.jobs.append(body)
        return {"submission_id": body["submission_id"]}

    def _look(self, path: str) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.at(path)


class Scene(RayBackend):
    def __init__(self, home: Home) -> None:
        super().__init__(home, {})
        self.dashboard = MadeDashboard()

    def _reach(self) -> tuple[RayCluster, Dashboard]:
        return RayCluster(URL, "word", "address"), cast("Dashboard", self.dashboard)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(mirror, "ensure_mirror", lambda _run: None)
    return Scene(Home(tmp_path / "a 'home'"))


@pytest.fixture
def new(scene: Scene) -> NewRun:
    record = RunRecord(
        id="",
        experiment_name="made",
        user="me",
        submitted_at=time.time(),
        workload_file="w.yaml",
        backend="ray",
        profile=None,
        nodes=1,
        accelerators=1,
        accelerators_per_node=1,
        accelerator_type="CPU_1xCORE",
        simulate=False,
        limits=Limits(0, None, 30.0, 300.0),
        environment=EnvironmentRecord("host", (), "3.11", None),
    )
    content = RunContent(workload="", command="true", secrets=SECRET)
    return RunStore(scene._home).create(record, content)


def submit(scene: Scene, new: NewRun) -> None:
    scene.submit(new, lambda: None, ready=True)


def test_the_job_is_written_down_after_the_package_has_arrived_and_before_the_job_is_asked_for(
    scene: Scene, new: NewRun
) -> None:
    known: dict[str, bool] = {}
    scene.dashboard.at = lambda path: known.setdefault(path.split("/")[2], read_job(new.paths) is not None)
    submit(scene, new)
    assert (known["packages"], known["jobs"]) == (False, True)
    record = read_job(new.paths)
    assert record is not None
    assert (record.submission_id, record.url, record.head) == (f"air-{new.record.id}", URL, "10.0.0.1")


def test_secrets_are_in_the_package_alone_and_only_the_job_has_its_key(scene: Scene, new: NewRun) -> None:
    submit(scene, new)
    (package,), (job,) = scene.dashboard.packages.values(), scene.dashboard.jobs
    key = bytes.fromhex(job["runtime_env"]["env_vars"][KEY])
    with zipfile.ZipFile(io.BytesIO(package)) as whole:
        assert SECRET in sealed(whole.read(RUN), key)
    assert b"sesame" not in package
    assert b"sesame" not in json.dumps(scene.dashboard.jobs).encode()
    left = [path for path in new.paths.root.rglob("*") if path.is_file() and b"sesame" in path.read_bytes()]
    assert left == []


def test_a_token_without_a_file_of_its_own_is_kept_for_this_user_alone(scene: Scene, new: NewRun) -> None:
    submit(scene, new)
    token = RayFiles(new.paths).token
    assert token.read_text() == "word"
    assert token.stat().st_mode & 0o777 == 0o600


def test_ray_gives_the_job_as_long_to_stop_as_the_nodes_have_and_more(scene: Scene, new: NewRun) -> None:
    submit(scene, new)
    (job,) = scene.dashboard.jobs
    assert float(job["runtime_env"]["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"]) > new.record.limits.stop_grace_s


def test_a_package_that_did_not_arrive_leaves_no_job_and_no_package_here(scene: Scene, new: NewRun) -> None:
    scene.dashboard.at = _refuse_packages
    with pytest.raises(RayUnreachableError):
        submit(scene, new)
    assert read_job(new.paths) is None
    assert not RayFiles(new.paths).package.exists()
    os.close(new.lock)


def _refuse_packages(path: str) -> None:
    if "packages" in path:
        raise RayUnreachableError("no answer")


def test_a_run_without_a_job_is_canceled_without_asking_anybody(scene: Scene, tmp_path: Path) -> None:
    scene.dashboard.trouble = RayUnreachableError("nobody is to be asked")
    scene.cancel(RunPaths(tmp_path / "7k2m9q4d"))


def test_a_cancel_that_finds_the_cluster_away_says_when_the_run_ends(
    scene: Scene, new: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(scene, new)
    monkeypatch.setattr(scene._watcher, "stop", _away)
    with pytest.raises(RayUnreachableError) as caught:
        scene.cancel(new.paths)
    assert caught.value.hint is not None
    assert f"air get {new.record.id}" in caught.value.hint


def _away(record: object, run: object) -> None:
    del record, run
    raise RayUnreachableError("no answer", refused=True)


def test_nothing_of_a_run_is_supervised_from_here(scene: Scene, new: NewRun) -> None:
    with pytest.raises(BackendError, match="supervised by its Ray job"):
        scene.allocate(new.record, new.paths, 0)
    os.close(new.lock)

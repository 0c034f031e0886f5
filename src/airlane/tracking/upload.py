"""Bringing what runs kept in their folders to the home's MLflow server: each run once, however often it is begun.

Every step may be repeated: MLflow runs are found again by tags, and the rest is the same when it is sent twice. The
local copy goes when everything has arrived.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from airlane.errors import TrackingError, TrackingRejectedError
from airlane.frozen import frozen
from airlane.store import codec
from airlane.store.disk import SystemDisk
from airlane.store.index import RunIndex
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Attempt
from airlane.store.runs import RunStore, RunView
from airlane.store.uploaded import Uploaded, UploadedAttempt
from airlane.tracking import kept, server
from airlane.tracking.artifacts import parts
from airlane.tracking.closing import close_run, upload, upload_file
from airlane.tracking.login import variables
from airlane.tracking.rest import Metric, Mlflow

KILLED_S = 60.0  # a supervisor that closed nothing in this time after the run's end was killed
TIMEOUT_S = 60.0
_PARENT = "mlflow.parentRunId"
_ORIGIN = "airlane.kept_run"

Files = Callable[[RunView, Attempt], tuple[tuple[Path, str], ...]]


def upload_kept(home: Home, files: Files) -> tuple[str, ...]:
    """Upload what waits, where the home's server is reached from here; returns the ids of the runs that are done.

    `files` gives what belongs to an attempt whose supervisor was killed, each with its folder in MLflow.

    Raises:
        AirError: the server stopped answering, or something is damaged; what is left is uploaded next time.
        OSError: something cannot be read or removed; so it is then.
    """
    if not any(kept.notes(home)):
        return ()
    with _alone(home) as alone:
        found = server.find(home) if alone else None
        if found is None:
            return ()
        done = []
        with contextlib.closing(Mlflow(found.uri, variables(home), timeout_s=TIMEOUT_S)) as mlflow:
            for note, run in kept.notes(home):
                if _upload_run(home, run, mlflow, Path(found.python), files):
                    note.unlink(missing_ok=True)
                    done.append(run.id)
        return tuple(done)


def _upload_run(home: Home, run: RunPaths, mlflow: Mlflow, python: Path, files: Files) -> bool:
    """Whether the run needs its note no more."""
    if not run.record.exists():
        return True  # removed meanwhile, with all that it kept
    view = RunStore(home).view(run)
    ended_at = view.ended_at
    if not view.state.terminal or ended_at is None:
        return False
    stores = kept.stores(run)
    long_ago = view.verdict is not None or time.time() > ended_at + KILLED_S
    if not all(kept.is_closed(store, long_ago=long_ago) for store in stores):
        return False
    uploaded = codec.read(Uploaded, run.uploaded)
    if uploaded is None:
        arrivals = _Arrivals(mlflow, view, files)
        for store in stores:
            arrivals.take(store, python)
        uploaded = arrivals.close()
        SystemDisk().replace(run.uploaded, codec.encode(uploaded), last=True)
    RunIndex(home.index).forget(run.id)
    for store in stores:
        if store.root.name not in uploaded.stores_left:
            shutil.rmtree(store.root)
    if not uploaded.stores_left:
        run.tracking.rmdir()
    return True


@frozen
class _Arrived:
    """A run at the home's server."""

    id: str
    experiment_id: str
    artifact_uri: str


class _Arrivals:
    """The MLflow runs of one of our runs, as they arrive."""

    def __init__(self, mlflow: Mlflow, view: RunView, files: Files) -> None:
        self._mlflow = mlflow
        self._view = view
        self._files = files
        self._attempts: dict[int, _Arrived] = {}
        self._by_origin: dict[str, str] = {}
        self._errors: list[str] = []
        self._stores_left: list[str] = []

    def take(self, store: Home, python: Path) -> None:
        """Upload what one store holds."""
        left: Mapping[str, int] = {}
        if (store.mlflow / "mlflow.db").exists():
            current: _Arrived | None = None
            for line in _exported(store, python):
                if "run" in line:
                    current = self._take_run(store, line["run"])
                elif "metrics" in line and current is not None:
                    self._allowing(self._log_metrics, current, line["metrics"])
                elif "left" in line:
                    left = line["left"]
        if left:
            what = ", ".join(f"{what} ({count})" for what, count in left.items())
            database = store.mlflow / "mlflow.db"
            self._errors.append(f"not uploaded: {what}; see mlflow server --backend-store-uri 'sqlite:///{database}'")
            self._stores_left.append(store.root.name)

    def close(self) -> Uploaded:
        """Give the attempts' runs the end that the run's files tell."""
        attempts = []
        for attempt in self._view.attempts:
            arrived = self._attempts.get(attempt.number)
            if arrived is None:
                continue
            self._close_attempt(arrived, attempt)
            page = self._mlflow.address.page(arrived.experiment_id, arrived.id)
            attempts.append(UploadedAttempt(attempt.number, arrived.id, page))
        error = "; ".join(self._errors) or None
        return Uploaded(tuple(attempts), time.time(), error, tuple(self._stores_left))

    def _close_attempt(self, arrived: _Arrived, attempt: Attempt) -> None:
        if attempt.state is None or attempt.cause is None or attempt.ended_at is None:
            return
        close_run(self._mlflow, arrived.id, state=attempt.state, cause=attempt.cause, ended_at=attempt.ended_at)
        if self._view.verdict is None:
            return  # its supervisor lived to record its files
        for path, folder in self._files(self._view, attempt):
            for part in parts(path, folder):
                self._allowing(upload, self._mlflow, arrived.artifact_uri, part)

    def _take_run(self, store: Home, run: Mapping[str, Any]) -> _Arrived:
        tags = dict(run["tags"])
        if _PARENT in tags:
            tags[_PARENT] = self._by_origin.get(tags[_PARENT], tags[_PARENT])
        attempt = tags.get("airlane.attempt") if tags.get("airlane.run_id") == self._view.record.id else None
        identity = {_ORIGIN: run["id"]}
        if attempt is not None:
            identity = {"airlane.run_id": self._view.record.id, "airlane.attempt": attempt}
        arrived = self._arrive(run, tags, identity)
        self._by_origin[run["id"]] = arrived.id
        if attempt is not None and attempt.isdigit():
            self._attempts[int(attempt)] = arrived
        self._allowing(self._log_details, arrived, run, tags)
        for path in _artifacts(store, run["artifact_uri"]):
            name = path.relative_to(_folder(store, run["artifact_uri"])).as_posix()
            self._allowing(upload_file, self._mlflow, arrived.artifact_uri, name, path)
        return arrived

    def _arrive(self, run: Mapping[str, Any], tags: dict[str, str], identity: dict[str, str]) -> _Arrived:
        """The run's place at the home's server; an earlier try may have made it, or the node before it lost touch."""
        location = run["artifact_location"]
        elsewhere = None if location.startswith("mlflow-artifacts:") else location
        experiment = self._mlflow.experiment(run["experiment"], elsewhere)
        found = self._mlflow.find_run(experiment.id, identity) or self._mlflow.create_run(
            experiment.id, run["name"], start_time_ms=run["start_ms"], tags={**tags, **identity}
        )
        return _Arrived(found.id, found.experiment_id, found.artifact_uri)

    def _log_details(self, arrived: _Arrived, run: Mapping[str, Any], tags: dict[str, str]) -> None:
        logged = self._mlflow.get_run(arrived.id).params
        self._mlflow.log_tags(arrived.id, tags)
        self._mlflow.log_params(arrived.id, {key: value for key, value in run["params"].items() if key not in logged})
        self._mlflow.log_inputs(arrived.id, run["datasets"])
        self._mlflow.update_run(arrived.id, run["status"], end_time_ms=run["end_ms"])

    def _log_metrics(self, arrived: _Arrived, rows: list[tuple[str, float, int, int]]) -> None:
        self._mlflow.log_metrics(arrived.id, [Metric(*row) for row in rows])

    def _allowing(self, step: Callable[..., None], *values: Any) -> None:
        """What the server refuses for good must not hold up the rest."""
        try:
            step(*values)
        except TrackingRejectedError as error:
            if error.message not in self._errors:
                self._errors.append(error.message)


def _exported(store: Home, python: Path) -> Iterator[dict[str, Any]]:
    script = Path(__file__).with_name("export.py")
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                [python, "-I", script], cwd=store.mlflow, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said
            )
        except OSError as error:
            raise TrackingError(f"{python} does not run: {error.strerror}") from error
        with process:
            if process.stdout is None:
                raise AssertionError("stdout is a pipe")
            try:
                yield from map(json.loads, process.stdout)
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0:
            said.seek(0)
            lines = said.read().decode("utf-8", "replace").strip().splitlines()
            raise TrackingError(
                f"{store.mlflow / 'mlflow.db'} could not be read: {lines[-1] if lines else 'no reason'}"
            )


def _folder(store: Home, artifact_uri: str) -> Path:
    return store.mlflow / "artifacts" / unquote(urlsplit(artifact_uri).path).strip("/")


def _artifacts(store: Home, artifact_uri: str) -> Iterator[Path]:
    """The files that a run stored with its own server; what went elsewhere is there still."""
    if urlsplit(artifact_uri).scheme == "mlflow-artifacts":
        yield from sorted(path for path in _folder(store, artifact_uri).rglob("*") if path.is_file())


@contextlib.contextmanager
def _alone(home: Home) -> Iterator[bool]:
    """Whether nobody else uploads now."""
    descriptor = os.open(home.kept / ".uploading.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)

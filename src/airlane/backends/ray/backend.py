"""A Ray cluster that is there already: a run is a Ray job, its driver the supervisor, and a node one bundle."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airlane.backends.base import (
    Allocation,
    Backend,
    Compute,
    Finding,
    Interruption,
    Liveness,
    NodeHome,
    Waiting,
)
from airlane.backends.ray.ledger import JobRecord, RayFiles, read_job, write_job
from airlane.backends.ray.liveness import Watcher
from airlane.backends.ray.options import checkpoints_folder, read_options
from airlane.errors import AirError, BackendError, RayUnreachableError, StoreError
from airlane.spec.profiles import NO_TRACKING
from airlane.store.disk import make_private_folder
from airlane.store.paths import Home, RunPaths
from airlane.store.records import RunRecord
from airlane.store.runs import NewRun

if TYPE_CHECKING:  # what submitting needs, reading a run must not pay for
    from airlane.backends.ray.driving import Driving
    from airlane.cluster.find import RayCluster
    from airlane.cluster.rest import Dashboard

# Beyond the grace that nodes get to stop, the supervisor takes this to tell the end.
_FAREWELL_S = 120.0
_KEY_BYTES = 32
_STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
_LOGIN = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")


class RayBackend(Backend):
    """Runs as jobs of a running Ray cluster, of which nothing but the dashboard's port is reached from here."""

    name = "ray"
    elsewhere = True
    has_environment = True

    def __init__(self, home: Home, options: Mapping[str, Any]) -> None:
        self._home = home
        self._options = read_options(options)
        self._watcher = Watcher()
        self._driving: Driving | None = None
        self._reached: tuple[RayCluster, Dashboard] | None = None

    def _reach(self) -> tuple[RayCluster, Dashboard]:
        if self._reached is None:
            from airlane.backends.ray.own_clusters import named_cluster
            from airlane.cluster.find import find_cluster
            from airlane.cluster.rest import Dashboard

            cluster = find_cluster(
                address=self._options.address,
                token_file=self._options.token_file,
                env=os.environ,
                named=lambda name: named_cluster(self._home, name),
            )
            self._reached = cluster, Dashboard(cluster.url, cluster.token)
        return self._reached

    def check(self, compute: Compute) -> tuple[str, ...]:
        from airlane.backends.ray.capacity import check, read_nodes

        cluster, dashboard = self._reach()
        return check(compute, read_nodes(dashboard), self._options, url=cluster.url)

    def check_environment(self, run: RunRecord) -> str | None:
        from airlane.backends.ray.versions import check_environment

        _, dashboard = self._reach()
        return check_environment(run, dashboard)

    def planned_home(self, run: RunRecord) -> NodeHome | None:
        own = Path("<Ray's session>") / f"air-{run.id}" / "<node>"
        root = own / "0" / run.id
        return NodeHome(root, checkpoints_folder(self._options.storage, own, run.id), Path("<node>"), "")

    def submit(self, run: NewRun, supervise: Callable[[], None], *, ready: bool) -> None:
        del supervise, ready  # the supervisor is the job's driver, and its environment is there
        from airlane.backends.ray.mirror import ensure_mirror

        cluster, dashboard = self._reach()
        head = self._head(dashboard)
        key = os.urandom(_KEY_BYTES)
        try:
            make_private_folder(RayFiles(run.paths).root)
            self._bring(run, key, dashboard)
            record = JobRecord(
                url=cluster.url,
                token_file=str(cluster.token_file) if cluster.token_file is not None else None,
                submission_id=f"air-{run.record.id}",
                name=f"air-{run.record.id}",
                submitted_at=time.time(),
                head=head,
            )
            # Not before all that may take long: from here on, whoever looks must assume that there will be a job.
            write_job(run.paths, record, token=cluster.token)
            self._start(run, record, key, dashboard)
        except OSError as error:
            raise StoreError(f"could not write {run.paths.root}: {error.strerror}", hint="free some space") from error
        os.close(run.lock)  # what tells whether this run lives is Ray
        ensure_mirror(run.paths)

    def _bring(self, run: NewRun, key: bytes, dashboard: Dashboard) -> None:
        """Give the cluster the run's package. Raises OSError."""
        from airlane.backends.ray.package import Package
        from airlane.cluster.jobs import Jobs

        file = RayFiles(run.paths).package
        try:
            Package(run.record, run.paths, self._home, _login(run.record), key).write(file)
            Jobs(dashboard).upload(_uri(run.record), file)
            run.paths.secrets.unlink(missing_ok=True)
        finally:
            file.unlink(missing_ok=True)

    def _start(self, run: NewRun, record: JobRecord, key: bytes, dashboard: Dashboard) -> None:
        from airlane.backends.ray.boot import KEY
        from airlane.cluster.jobs import JobRequest, Jobs

        patience_s = run.record.limits.stop_grace_s + _FAREWELL_S
        Jobs(dashboard).submit(
            JobRequest(
                entrypoint=f"exec sh start.sh {run.record.id}",
                submission_id=record.submission_id,
                runtime_env={
                    "working_dir": _uri(run.record),
                    "env_vars": {_STOP_WAIT: f"{patience_s:.0f}", KEY: key.hex()},
                },
                metadata={"name": run.record.experiment_name, "air_run_id": run.record.id},
            )
        )

    def _head(self, dashboard: Dashboard) -> str | None:
        from airlane.backends.ray.capacity import read_nodes

        return next((node.address for node in read_nodes(dashboard) if node.alive and node.head), None)

    def poll(self, runs: Sequence[RunPaths]) -> Mapping[str, Liveness]:
        return self._watcher.liveness(runs)

    def bring(self, runs: Sequence[RunPaths]) -> bool:
        return self._watcher.bring(runs)

    def queued(self, runs: Sequence[RunPaths]) -> Mapping[str, Waiting]:
        return self._watcher.queued(runs)

    def where(self, run: RunPaths) -> str | None:
        record = read_job(run)
        return f"Ray job {record.submission_id} on {record.url}" if record is not None else None

    def sweep(self, run: RunPaths) -> None:
        self._watcher.sweep(run)

    def last_words(self, run: RunPaths) -> Interruption | None:
        return self._watcher.last_words(run)

    def cancel(self, run: RunPaths) -> None:
        record = read_job(run)
        if record is None:
            return
        try:
            self._watcher.stop(record, run)
        except RayUnreachableError as error:
            raise RayUnreachableError(
                error.message,
                refused=error.refused,
                hint=f"the run ends when the cluster answers, and somebody asks for it: air get {run.id}",
            ) from error

    def take_over(self, run: RunRecord, paths: RunPaths) -> bool:
        from airlane.backends.ray.driving import Driving

        self._driving = Driving(run, paths, self._options)
        return True

    def leave(self, run: RunPaths) -> None:
        del run
        if self._driving is not None:
            self._driving.leave()

    def asked_to_stop(self) -> Interruption | None:
        return self._driving.asked_to_stop() if self._driving is not None else super().asked_to_stop()

    def allocate(self, run: RunRecord, paths: RunPaths, attempt: int) -> Allocation:
        del paths
        if self._driving is None:
            raise BackendError(f"run {run.id} is supervised by its Ray job, and not from here")
        return self._driving.allocate(attempt)

    def a_node(self) -> str | None:
        from airlane.backends.ray.capacity import read_nodes

        with contextlib.suppress(AirError):
            _, dashboard = self._reach()
            return next((node.address for node in read_nodes(dashboard) if node.alive), None)
        return None

    def ask_node(self, module: str, *arguments: str) -> tuple[str, str]:
        from airlane.backends.ray.asking import ask_node

        _, dashboard = self._reach()
        return ask_node(dashboard, module, *arguments)

    def on_node(self, run: RunPaths, host: str, *, terminal: bool = False) -> tuple[str, ...]:
        del terminal
        _only_there(run, host)

    def doctor(self) -> Iterator[Finding]:
        from airlane.backends.ray.doctor import doctor

        return doctor(self._options, self._home)


def _only_there(run: RunPaths, host: str) -> NoReturn:
    raise BackendError(
        f"the Ray cluster that run {run.id} has started is reached from its own nodes alone (its head is on {host})",
        hint="the cluster that it runs on: air ray job list, air doctor",
    )


def _uri(run: RunRecord) -> str:
    """The name of the run's package."""
    return f"gcs://_ray_pkg_air_{run.id}.zip"


def _login(run: RunRecord) -> Mapping[str, str]:
    """What signs in to the user's own MLflow server."""
    if run.tracking_uri in (None, NO_TRACKING):
        return {}
    return {name: os.environ[name] for name in _LOGIN if name in os.environ}

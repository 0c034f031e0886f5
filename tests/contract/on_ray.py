"""The contract on Ray: a run's job does a test's steps in place of supervising.

`python -m contract.on_ray RUN_FOLDER STEPS` is the job's driver, with the Python of the cluster.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import airlane
from airlane.backends.base import Allocation
from airlane.backends.ray.backend import RayBackend
from airlane.backends.ray.ledger import JobRecord
from airlane.backends.ray.package import KIT, kit
from airlane.store import codec
from airlane.store.paths import Home, RunPaths
from airlane.store.records import RunRecord
from airlane.store.runs import NewRun
from contract import cases

if TYPE_CHECKING:
    from airlane.cluster.rest import Dashboard

PYTHON = "CONTRACT_RAY_PYTHON"


class StepsOnRay(RayBackend):
    """The backend, but for what the run's job does."""

    _steps = ""

    def submit(self, run: NewRun, supervise: Callable[[], None], *, ready: bool) -> None:
        assert isinstance(supervise, cases.Body)
        self._steps = supervise.steps.__name__
        super().submit(run, supervise, ready=ready)

    def _bring(self, run: NewRun, key: bytes, dashboard: Dashboard) -> None:
        del key, dashboard
        (_own(run.paths) / KIT).write_bytes(kit())

    def _start(self, run: NewRun, record: JobRecord, key: bytes, dashboard: Dashboard) -> None:
        from airlane.cluster.jobs import JobRequest, Jobs

        del key
        folders = (Path(airlane.__file__).parents[1], Path(__file__).parents[1])
        Jobs(dashboard).submit(
            JobRequest(
                entrypoint='exec "$%s" -m contract.on_ray "$RUN_FOLDER" %s' % (PYTHON, self._steps),  # noqa: UP031
                submission_id=record.submission_id,
                runtime_env={
                    "env_vars": {
                        "PYTHONPATH": os.pathsep.join(map(str, folders)),
                        "RUN_FOLDER": str(run.paths.root),
                        PYTHON: os.environ[PYTHON],
                    }
                },
            )
        )

    def allocate(self, run: RunRecord, paths: RunPaths, attempt: int) -> Allocation:
        if self._driving is None:
            self.take_over(run, paths)
        return super().allocate(run, paths, attempt)


def _own(paths: RunPaths) -> Path:
    """Where a supervisor looks for what the run brings (backends/ray/driving.py)."""
    return paths.root.parents[3]


def main(folder: str, name: str) -> None:
    from contract import steps

    paths = RunPaths(Path(folder))
    record = codec.read(RunRecord, paths.record)
    assert record is not None
    backend = StepsOnRay(Home(paths.root.parents[2]), {})
    cases.Body(getattr(steps, name), backend, replace(record, id=paths.id), paths)()


if __name__ == "__main__":
    main(*sys.argv[1:])

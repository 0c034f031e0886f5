"""One attempt on its way into MLflow: what has been stored, and the next step. Each step may be repeated."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from airlane.errors import TrackingRejectedError
from airlane.store.records import LastMetric
from airlane.tracking.artifacts import Part, parts
from airlane.tracking.closing import close_run, last_metric, log_params, upload
from airlane.tracking.metrics import MetricsFile, key_prefix
from airlane.tracking.rest import Metric, Mlflow, Run
from airlane.tracking.values import AttemptInfo, AttemptOutcome, TrackedRun

if TYPE_CHECKING:
    from airlane.tracking.targets import Link


class Entry:
    """Used by the tracker's thread; `answered` tells the supervisor that the first try to create the run is over.

    The steps raise TrackingError where a later repetition may help. What the server refuses for good is in `refusals`.
    """

    def __init__(self, info: AttemptInfo) -> None:
        self.info = info
        self.answered = threading.Event()
        self.tracked: TrackedRun | None = None
        self.refusals: list[str] = []
        self.last_metric: LastMetric | None = None
        self._experiment_id: str | None = None
        self._maybe_created = False
        self._refused = False
        self._metrics: tuple[MetricsFile, ...] = ()
        self._outcome: AttemptOutcome | None = None
        self._closed = False
        self._artifact_uri = ""
        self._files = deque(info.artifacts)
        self._parts: deque[Part] = deque()

    @property
    def settled(self) -> bool:
        """Nothing is left to do."""
        return self._refused or (self._closed and not self._metrics and not self._files and not self._parts)

    @property
    def ended(self) -> bool:
        return self._outcome is not None

    def watch(self, files: Mapping[int, Path]) -> None:
        self._metrics = tuple(MetricsFile(path, key_prefix(node, len(files))) for node, path in files.items())

    def end(self, outcome: AttemptOutcome) -> None:
        self._outcome = outcome
        self._files.extend(outcome.artifacts)

    def start_over(self) -> None:
        """The run goes on at another server, which knows nothing of it; both are one when that one's are uploaded."""
        self._experiment_id = self.tracked = None
        self._maybe_created = self._closed = False

    def advance(self, link: Link) -> None:
        """All that is urgent: create the run, close it, store new metrics (MLflow takes those of a closed run too)."""
        mlflow = link.mlflow
        try:
            self._create(link)
        except TrackingRejectedError as error:
            self._refused = True
            self.refusals.append(error.message)
            return
        self._close(mlflow)
        self._store_metrics(mlflow)

    def upload_next(self, mlflow: Mlflow) -> bool:
        """Store one more part of a file; False where none is left for now."""
        if self.tracked is None or self._refused:
            return False
        while self._files and not self._parts:
            path, folder = self._files.popleft()
            self._parts.extend(parts(path, folder))
        if not self._parts:
            return False
        try:
            upload(mlflow, self._artifact_uri, self._parts[0])
        except TrackingRejectedError as error:
            self._refuse(error)
            self._files.clear()
            self._parts.clear()
            return False
        except OSError as error:
            self.refusals.append(f"{self._parts[0].path} was not stored in MLflow: {error.strerror}")
        self._parts.popleft()
        return True

    def _create(self, link: Link) -> None:
        if self.tracked is not None:
            return
        info, mlflow = self.info, link.mlflow
        if self._experiment_id is None:
            experiment = mlflow.experiment(info.experiment_name, info.artifact_location)
            self._experiment_id = experiment.id
            if info.artifact_location not in (None, experiment.artifact_location):
                self.refusals.append(
                    f"experiment {experiment.name} keeps its artifacts at {experiment.artifact_location}, "
                    f"not at {info.artifact_location}: MLflow fixes this when an experiment is created"
                )
        run = self._found(mlflow) or self._new(mlflow)
        self._artifact_uri = run.artifact_uri
        self.tracked = TrackedRun(
            run.experiment_id,
            run.id,
            mlflow.uri,
            url=None if link.kept_because else mlflow.address.page(run.experiment_id, run.id),
            login_file=str(link.login_file) if link.login_file is not None else None,
        )

    def _found(self, mlflow: Mlflow) -> Run | None:
        """The run that an earlier try made before its answer got lost."""
        if not self._maybe_created or self._experiment_id is None:
            return None
        return mlflow.find_run(self._experiment_id, self._identity())

    def _new(self, mlflow: Mlflow) -> Run:
        self._maybe_created = True
        return mlflow.create_run(
            self._experiment_id or "",
            self.info.run_name,
            start_time_ms=int(self.info.started_at * 1000),
            tags={**self.info.tags, **self._identity()},
        )

    def _identity(self) -> dict[str, str]:
        return {"airlane.run_id": self.info.run_id, "airlane.attempt": str(self.info.attempt)}

    def _store_metrics(self, mlflow: Mlflow) -> None:
        if self.tracked is None:
            return
        for file in self._metrics:
            while (block := file.read(final=self.ended)) is not None:
                samples = [Metric(s.key, s.value, s.timestamp_ms, s.step) for s in block.samples]
                try:
                    mlflow.log_metrics(self.tracked.run_id, samples)
                except TrackingRejectedError as error:
                    self._refuse(error)
                file.advance(block)
        if self.ended:
            self._metrics = ()

    def _close(self, mlflow: Mlflow) -> None:
        if self._outcome is None or self.tracked is None or self._closed:
            return
        outcome, run_id = self._outcome, self.tracked.run_id
        try:
            close_run(mlflow, run_id, state=outcome.state, cause=outcome.cause, ended_at=outcome.ended_at)
            log_params(mlflow, run_id, self.info.params)
            self.last_metric = last_metric(mlflow.get_run(run_id)) or self.last_metric
        except TrackingRejectedError as error:
            self._refuse(error)
        self._closed = True

    def _refuse(self, error: TrackingRejectedError) -> None:
        if error.message not in self.refusals:
            self.refusals.append(error.message)

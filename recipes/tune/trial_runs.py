"""Each trial as an MLflow run, the child of the run that searches; a thread speaks to the server, and nobody waits."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from queue import SimpleQueue
from typing import Any

from recipes.engine.mlflow_log import PATIENCE, Recorder, first_line
from recipes.overrides import assignments
from recipes.tune.trials import Trial

PARENT = "mlflow.parentRunId"
NOTE = "mlflow.note.content"  # the description that MLflow's pages show
FLUSH_S = 10.0
STATUS = {"completed": "FINISHED", "pruned": "FINISHED", "failed": "FAILED", "lost": "FAILED"}  # else KILLED


class TrialRuns:
    """The runs of all trials."""

    def __init__(self, parent: str, say: Callable[[str], None]) -> None:
        self._parent = parent
        self._say = say
        self._refused = False
        self._recorders: dict[int, Recorder] = {}
        self._errands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="trial runs", daemon=True)
        self._thread.start()

    def open(self, trial: Trial) -> None:
        self._errands.put(partial(self._open, trial))

    def hear(self, trial: Trial, kind: str, facts: Mapping[str, Any], at: float) -> None:
        """Something that a trial has told; `at` counts seconds since 1970."""
        self._errands.put(partial(self._hear, trial, kind, facts, at))

    def close(self, trial: Trial) -> None:
        """The trial has ended, with the status that it has now."""
        self._errands.put(partial(self._close, trial, trial.status))

    def finish(self, timeout_s: float) -> None:
        """Until all that was told is recorded, for so long at the most."""
        self._errands.put(None)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._say("MLflow did not take everything of the trials")

    def _work(self) -> None:
        for name, value in PATIENCE.items():
            os.environ.setdefault(name, value)
        while errand := self._errands.get():
            if self._refused:
                continue
            try:
                errand()
            except Exception as error:  # noqa: BLE001 - whatever befalls the records, the search goes on
                self._refused = True
                self._say(f"MLflow records nothing more of the trials: {first_line(error)}")

    def _open(self, trial: Trial) -> None:
        """A run of its own; one that an earlier attempt of the search has begun goes on below the new parent."""
        import mlflow

        client = mlflow.MlflowClient()
        if trial.number in self._recorders:
            return
        if trial.mlflow_run:
            client.set_tag(trial.mlflow_run, PARENT, self._parent)
            client.update_run(trial.mlflow_run, status="RUNNING")
        else:
            experiment = client.get_run(self._parent).info.experiment_id
            made = client.create_run(
                experiment, run_name=f"trial {trial.number}", tags={PARENT: self._parent, NOTE: trial.words}
            )
            trial.mlflow_run = made.info.run_id
        recorder = self._recorders[trial.number] = Recorder(trial.mlflow_run, self._say)
        recorder.params(dict(word.split("=", 1) for word in assignments(trial.settings)))

    def _hear(self, trial: Trial, kind: str, facts: Mapping[str, Any], at: float) -> None:
        if recorder := self._recorders.get(trial.number):
            recorder.hear(kind, facts, at)

    def _close(self, trial: Trial, status: str) -> None:
        import mlflow

        if recorder := self._recorders.pop(trial.number, None):
            recorder.finish([], FLUSH_S)
            mlflow.MlflowClient().set_terminated(trial.mlflow_run, STATUS.get(status, "KILLED"))


def runs_of_trials(say: Callable[[str], None]) -> TrialRuns | None:
    """Below the run in $MLFLOW_RUN_ID; None, and no import of MLflow, where there is none."""
    run_id = os.environ.get("MLFLOW_RUN_ID")
    return TrialRuns(run_id, say) if run_id else None

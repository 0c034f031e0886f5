"""Parameters, metrics and files of a training for MLflow, sent by a thread: no step waits for a server."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

MOST_WAITING = 50_000
SEND_EVERY_S = 1.0
TRY_AGAIN_S = 15.0
PARAMS_PER_BATCH = 100  # of MLflow's REST API, as the next one
METRICS_PER_BATCH = 1000
# MLflow's own patience is minutes, for each call; here the next one comes soon.
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
# What MLflow says when the same may go well later. Without a connection it is the first of these.
PASSING = {"INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED"}


# What is recorded under which name, by the kind of message and the name of the fact.
METRICS = {
    "step": {
        "loss": "train/loss",
        "learning_rate": "train/learning_rate",
        "grad_norm": "train/grad_norm",
        "tokens_per_s": "speed/tokens_per_s",
        "padded_tokens_per_s": "speed/padded_tokens_per_s",
        "seconds_per_step": "speed/seconds_per_step",
        "mfu": "speed/mfu",
        "data_wait_share": "speed/data_wait_share",
        "peak_memory_bytes": "memory/peak_bytes",
        "epoch": "train/epoch",
    },
    "evaluation": {"loss": "eval/loss", "perplexity": "eval/perplexity"},
    "saved": {"seconds": "checkpoint/seconds", "bytes": "checkpoint/bytes", "held_s": "checkpoint/held_seconds"},
}
Value = tuple[str, float, int, int]  # name, value, milliseconds since 1970, step


def values_of(kind: str, facts: Mapping[str, Any], at: float) -> Iterator[Value]:
    """What MLflow keeps of something that was told."""
    for fact, name in METRICS.get(kind, {}).items():
        if facts.get(fact) is not None:
            yield name, float(facts[fact]), int(at * 1000), int(facts["step"])


class Recorder:
    """Records in one MLflow run. While the server does not answer the newest values wait, up to a limit."""

    def __init__(self, run_id: str, say: Callable[[str], None]) -> None:
        self._run_id = run_id
        self._say = say
        self._params: list[tuple[str, str]] = []
        self._values: deque[Value] = deque(maxlen=MOST_WAITING)
        self._under_way: list[Value] = []
        self._files: list[Path] = []
        self._closing = threading.Event()
        self._refused = self._silent = False
        self._thread = threading.Thread(target=self._record, name="mlflow", daemon=True)
        self._thread.start()

    def params(self, params: Mapping[str, str]) -> None:
        self._params += params.items()

    def hear(self, kind: str, facts: Mapping[str, Any], at: float) -> None:
        if not self._refused:
            self._values.extend(values_of(kind, facts, at))

    def finish(self, files: Sequence[Path], timeout_s: float) -> None:
        """Send what is left and these files, for so long at the most."""
        self._files += files
        self._closing.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive() or self._waiting:
            self._say("MLflow did not take everything: its run lacks the last metrics, or the summary")

    @property
    def _waiting(self) -> bool:
        return not self._refused and bool(self._params or self._under_way or self._values or self._files)

    def _record(self) -> None:
        """Until all is sent after `finish`, or refused for good."""
        for name, value in PATIENCE.items():
            os.environ.setdefault(name, value)
        try:
            import mlflow

            client = mlflow.MlflowClient()
        except Exception as error:  # noqa: BLE001 - whatever befalls the records, the training goes on
            self._refuse(error)
            return
        while not self._refused:
            closing = self._closing.wait(TRY_AGAIN_S if self._silent else SEND_EVERY_S)
            try:
                self._send(client, mlflow.entities)
            except Exception as error:  # noqa: BLE001 - as above
                self._fail(error, passing=getattr(error, "error_code", None) in PASSING)
            else:
                if self._silent:
                    self._say("MLflow answers again")
                self._silent = False
            if closing:
                return

    def _fail(self, error: Exception, *, passing: bool) -> None:
        if not passing:
            self._refuse(error)
        elif not self._silent:
            self._silent = True
            self._say(f"MLflow does not answer; metrics wait until it does, training goes on: {first_line(error)}")

    def _refuse(self, error: Exception) -> None:
        self._refused = True
        self._say(f"MLflow records nothing more of this training: {first_line(error)}")

    def _send(self, client: Any, entities: Any) -> None:
        """All that waits; what was sent waits no longer, whatever becomes of the rest."""
        while self._params:
            params = self._params[:PARAMS_PER_BATCH]
            client.log_batch(self._run_id, params=[entities.Param(name, value) for name, value in params])
            del self._params[: len(params)]
        while self._under_way or self._values:
            if not self._under_way:
                self._under_way = [self._values.popleft() for _ in range(min(METRICS_PER_BATCH, len(self._values)))]
            client.log_batch(self._run_id, metrics=[entities.Metric(*value) for value in self._under_way])
            self._under_way = []
        while self._files:
            client.log_artifact(self._run_id, str(self._files[0]))
            del self._files[0]


def first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def recorder_of_run(say: Callable[[str], None]) -> Recorder | None:
    """Of the run in $MLFLOW_RUN_ID; None, and no import of MLflow, where there is none."""
    run_id = os.environ.get("MLFLOW_RUN_ID")
    return Recorder(run_id, say) if run_id else None

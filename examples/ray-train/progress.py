"""What people see of the training while it runs."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import ray.train
from settings import Settings


class Progress(ray.train.UserCallback):
    """Prints and records what the workers report, in Ray Train's controller: no training step waits for MLflow."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # The runtime opens an MLflow run for every attempt, names it here and closes it; elsewhere there is none.
        self.mlflow_run_id = os.environ.get("MLFLOW_RUN_ID")
        self.params_recorded = False

    def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any) -> None:  # noqa: ARG002
        values = dict(metrics[0])
        step = values.pop("step")
        print(
            f"step {step:>{len(str(self.settings.steps))}}/{self.settings.steps}  loss {values['loss']:.3f}"
            f"  lr {values['learning_rate']:.1e}  {values['tokens_per_s']:,.0f} tokens/s",
            flush=True,
        )
        if self.mlflow_run_id:
            self.record(step, values)

    def record(self, step: int, values: dict[str, float]) -> None:
        """Send to MLflow; a server that does not answer ends the recording, never the training."""
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        import mlflow

        try:
            if not self.params_recorded:
                mlflow.log_params(asdict(self.settings), run_id=self.mlflow_run_id)
                self.params_recorded = True
            mlflow.log_metrics(values, step=step, run_id=self.mlflow_run_id)
        except mlflow.MlflowException as error:
            print(f"metrics are no longer recorded: {error}", flush=True)
            self.mlflow_run_id = None

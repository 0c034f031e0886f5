"""What an MLflow store holds, as JSON lines on stdout.

Runs in the `mlflow-server` environment: standard library and MLflow only. Started by upload.py as
`python -I export.py`, in the folder that holds the data, when no server works on them any more. Each line is an object:
{"run": ...}, then the run's {"metrics": [[key, value, timestamp_ms, step], ...]} in any number, and at the end
{"left": {"what": how many}}, which only MLflow's own tools can carry over.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from typing import Any

STORE = "sqlite:///mlflow.db"
METRICS_PER_LINE = 1000
RUNS_PER_PAGE = 1000


def main() -> None:
    os.environ["MLFLOW_TRACKING_URI"] = STORE
    client = importlib.import_module("mlflow").MlflowClient(tracking_uri=STORE)
    experiments = list(client.search_experiments(view_type=3))
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # MLflow may print
    for experiment in experiments:
        for run in _runs(client, experiment.experiment_id):
            _write(out, {"run": _described(run, experiment)})
            for key in run.data.metrics:
                history = client.get_metric_history(run.info.run_id, key)
                rows = [[m.key, m.value, m.timestamp, m.step] for m in history]
                for start in range(0, len(rows), METRICS_PER_LINE):
                    _write(out, {"metrics": rows[start : start + METRICS_PER_LINE]})
    ids = [experiment.experiment_id for experiment in experiments]
    left = {
        "logged models": len(client.search_logged_models(experiment_ids=ids)) if ids else 0,
        "registered models": len(client.search_registered_models()),
        "traces": len(client.search_traces(locations=ids, max_results=100)) if ids else 0,
    }
    _write(out, {"left": {what: count for what, count in left.items() if count}})
    out.close()


def _runs(client: Any, experiment_id: str) -> Iterator[Any]:
    """The runs of an experiment, the oldest first: a parent comes before its children."""
    token = None
    while True:
        page = client.search_runs(
            [experiment_id], max_results=RUNS_PER_PAGE, order_by=["attributes.start_time ASC"], page_token=token
        )
        yield from page
        token = page.token
        if not token:
            return


def _described(run: Any, experiment: Any) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "artifact_location": experiment.artifact_location,
        "id": run.info.run_id,
        "name": run.info.run_name,
        "status": run.info.status,
        "start_ms": run.info.start_time,
        "end_ms": run.info.end_time,
        "artifact_uri": run.info.artifact_uri,
        "params": dict(run.data.params),
        "tags": dict(run.data.tags),
        "datasets": [
            {"dataset": dict(entry.dataset), "tags": [dict(tag) for tag in entry.tags]}
            for entry in run.inputs.dataset_inputs
        ],
    }


def _write(out: Any, line: dict[str, Any]) -> None:
    out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()

"""What a supervisor on a node does with its tracker, as a program of its own: it is run where the network is another.

    python node_program.py HOME RUN_FOLDER MLFLOW_PYTHON STEPS

STEPS are characters: "a" an attempt whose command logs through MLflow's client, "m" its command makes what REST cannot
carry over, "w" wait for a line on stdin, "k" the end of this process by SIGKILL, "e" the end of the attempt. Each
prints a line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from airlane.store.paths import Home, RunPaths
from airlane.store.records import Cause, CauseKind
from airlane.store.states import State
from airlane.tracking.tracker import AttemptInfo, AttemptOutcome, TrackedRun, Tracker, make_tracker

EXPERIMENT = "on a node"
COMMAND = """
import mlflow
with mlflow.start_run():
    mlflow.log_param("lr", 0.1)
    for step in range(5):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)
    mlflow.log_metric("bad", float("nan"), step=0)
    mlflow.log_text("weights", "model é/weights.txt")
    mlflow.log_input(mlflow.data.from_numpy(__import__("numpy").arange(3), source="s3://bucket/x", name="numbers"))
    with mlflow.start_run(run_name="child", nested=True):
        mlflow.log_metric("inner", 2.5)
"""


MODELS = """
import mlflow
with mlflow.start_run(), mlflow.start_span("answer"):
    mlflow.initialize_logged_model(name="m")
mlflow.MlflowClient().create_registered_model("m")
mlflow.flush_trace_async_logging()
"""


class Node:
    """One supervisor's tracking, step by step."""

    def __init__(self, home: Home, run: RunPaths, python: Path) -> None:
        self._run = run
        self._python = python
        made = make_tracker(None, home=home, python=lambda: python, env=os.environ, on_node=run)
        if not isinstance(made, Tracker):
            raise TypeError("tracking is on")
        self._tracker = made
        self._attempt = -1
        self._tracked: TrackedRun | None = None
        started = time.monotonic()
        made.open()
        settled = made.settled(60)
        self.say(settled=settled, settled_after_s=time.monotonic() - started)

    def begin(self) -> None:
        self._attempt += 1
        info = AttemptInfo(self._run.id, self._attempt, EXPERIMENT, "a run", time.time(), params={"epochs": 3})
        tracked = self._tracker.begin_attempt(info, 30)
        self._tracked = tracked
        self._command(COMMAND)
        metrics = self._run.node_metrics(attempt=self._attempt, node=0)
        metrics.parent.mkdir(parents=True, exist_ok=True)
        metrics.write_text(json.dumps({"t": time.time(), "m": {"cpu_utilization_percentage": 5}}) + "\n")
        self._tracker.watch_metrics({0: metrics})
        log = self._run.log(attempt=self._attempt, node=0)
        log.write_text("last words\n")
        facts: dict[str, Any] = {} if tracked is None else {"uri": tracked.uri, "url": tracked.url}
        self.say(**facts, login=tracked is not None and tracked.login_file is not None)

    def log_models(self) -> None:
        self._command(MODELS)
        self.say()

    def _command(self, program: str) -> None:
        if self._tracked is not None:
            command = [str(self._python), "-c", program]
            env = _environment(self._tracked)
            subprocess.run(command, env=env, cwd=self._run.root, stdout=sys.stderr, check=True)

    def end(self) -> None:
        log = self._run.log(attempt=self._attempt, node=0)
        cause = Cause(CauseKind.EXIT_CODE, "node 0 exited with code 3")
        self._tracker.end_attempt(AttemptOutcome(State.FAILED, cause, time.time(), ((log, "logs/node_0"),)))
        self.say()

    def close(self) -> None:
        self._tracker.close(60)
        last = self._tracker.last_metric
        self.say(last_metric=last.value if last is not None else None)

    def say(self, **facts: Any) -> None:
        print(json.dumps({**facts, "error": self._tracker.error}), flush=True)


def _environment(tracked: TrackedRun) -> dict[str, str]:
    login = json.loads(Path(tracked.login_file).read_text()) if tracked.login_file is not None else {}
    own = {"MLFLOW_TRACKING_URI": tracked.uri, "MLFLOW_RUN_ID": tracked.run_id, "MLFLOW_EXPERIMENT_NAME": EXPERIMENT}
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **own, **login}


def main() -> None:
    node = Node(Home(Path(sys.argv[1])), RunPaths(Path(sys.argv[2])), Path(sys.argv[3]))
    for step in sys.argv[4]:
        if step == "a":
            node.begin()
        elif step == "m":
            node.log_models()
        elif step == "e":
            node.end()
        elif step == "w":
            node.say(waiting=True)
            sys.stdin.readline()
        elif step == "k":
            os.kill(os.getpid(), signal.SIGKILL)
    node.close()


if __name__ == "__main__":
    main()

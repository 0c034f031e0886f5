"""The process that starts a training on a Ray cluster: it shows, records and, after a worker is lost, starts again."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from recipes.engine.checkpoints import Checkpoints, placed
from recipes.engine.cluster import Cluster, Share, connect, share
from recipes.engine.console import Console
from recipes.engine.failures import Patience, Verdict, judge, story_of
from recipes.engine.history import History
from recipes.engine.mlflow_log import recorder_of_run
from recipes.engine.plot import plot_losses
from recipes.engine.summary import summarize, write_summary
from recipes.engine.wire import Board, Listener, Message, answer
from recipes.engine.workers import Fit, Work
from recipes.overrides import assignments

__all__ = ["Cluster", "run"]

STOP_S = 25.0  # air kills what has not ended 30 s after it was asked to
LOOK_S = 0.2
FLUSH_S = 20.0
FLUSH_WHEN_STOPPED_S = 2.0
FINISHED = {"completed", "early_stop"}


class TrainingSettings(Protocol):
    """What the driver has to know of a recipe's settings."""

    @property
    def checkpoints(self) -> Checkpoints: ...
    @property
    def cluster(self) -> Cluster: ...


def run(settings: Any, data: Sequence[Any], train: Callable[..., Any], *, recipe: str) -> int:
    """Have workers call `train(settings, *data, line)` until it has gone well once; returns the exit code.

    `data` is put into Ray's shared memory once. It is 0 for a training that completed, 128 and the signal for one that
    was asked to stop, 2 where settings or data are refused, 1 for everything else.

    Raises:
        RecipeError: the cluster has no room for the workers.
    """
    settings = replace(settings, checkpoints=placed(settings.checkpoints))
    connect(settings.cluster)
    import ray

    stop = Stop()  # Ray has its own way to end, until here
    try:
        code = Driver(settings, recipe, stop).run(data, train)
        if stop.number is not None:
            sys.stdout.flush()
            os._exit(code)  # a thread may still wait for workers; Ray cannot be shut down under it, and ends by itself
    finally:
        ray.shutdown()
    return code


class Stop:
    """Whether this process was asked to end, by which signal and when."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._at = 0.0
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.number is not None:
            signal.signal(number, signal.SIG_DFL)  # a third one ends it at once
            return
        self.number, self._at = number, time.monotonic()

    @property
    def overdue(self) -> bool:
        return self.number is not None and time.monotonic() - self._at > STOP_S

    @property
    def exit_code(self) -> int:
        return 128 + (self.number or 0)


class Driver:
    """One training, through all its attempts."""

    def __init__(self, settings: TrainingSettings, recipe: str, stop: Stop) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.settings = settings
        self.recipe = recipe
        self.stop = stop
        self.console = Console(sys.stdout)
        self.folder = settings.checkpoints.path
        self.history = History(self.folder, self.console.say)
        self.words = dict(word.split("=", 1) for word in assignments(settings))
        self.recorder = recorder_of_run(self.console.say)
        if self.recorder:
            self.recorder.params(self.words)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.board = ray.remote(num_cpus=0, scheduling_strategy=here)(Board).remote()
        self.listener = Listener(self.board, self.hear)
        self.begun = False
        self.finished = False

    def hear(self, message: Message) -> None:
        """Pass on what rank 0 has told to all who want to know."""
        kind, facts, at = message
        self.console.hear(kind, facts)
        self.history.hear(kind, facts, at)
        if kind == "end":
            self.finished = facts["reason"] in FINISHED
        if kind == "start" and not self.begun:
            self.begun = True
            self.record_past()
        if self.recorder:
            self.recorder.hear(kind, facts, at)

    def record_past(self) -> None:
        """Have in this attempt's MLflow run what earlier attempts have learned."""
        if self.recorder:
            for entry in self.history.entries[:-1]:
                self.recorder.hear(entry.kind, entry.facts, entry.at)

    def run(self, data: Sequence[Any], train: Callable[..., Any]) -> int:
        """Attempt after attempt, and the summary of them all."""
        import ray

        work = Work(train, self.settings, ray.put(tuple(data)), self.board, str(Path.cwd()))
        try:
            code = self.attempts(work, share(self.settings.cluster, ray.nodes()))
        finally:
            stopped = self.stop.number is not None
            self.listener.finish(FLUSH_WHEN_STOPPED_S if stopped else FLUSH_S)
            if not self.stop.overdue:
                self.finish(FLUSH_WHEN_STOPPED_S if stopped else FLUSH_S)
        return code

    def attempts(self, work: Work, taken: Share) -> int:
        patience = Patience(self.settings.cluster.max_failures, saved_step=self.history.saved_step())
        while True:
            error = self.attempt(work, taken)
            if self.stop.number is not None and not self.finished:
                return self.stop.exit_code
            if error is None:
                return 0
            verdict = self.verdict(error)
            patience = patience.after_failure(self.history.saved_step())
            self.console.say(verdict.text)
            if not verdict.again:
                return verdict.exit_code
            if patience.exhausted:
                self.console.say(f"given up after {patience.failures} failures in a row (cluster.max_failures)")
                return verdict.exit_code
            self.console.say(f"starting again from the last checkpoint ({patience.failures} of {patience.most})")

    def attempt(self, work: Work, taken: Share) -> BaseException | None:
        """One group of workers, from start to end; what it ended with."""
        with tempfile.TemporaryDirectory(prefix="ray-train-", ignore_cleanup_errors=True) as folder:
            fit = Fit(work, taken, folder)
            while not fit.ended.wait(LOOK_S):
                if self.stop.number is not None:
                    self.end(fit, signal.Signals(self.stop.number).name)
                    break
            return fit.error

    def end(self, fit: Fit, name: str) -> None:
        """Have the workers save and end, where there is something to save, for as long as there is time."""
        if not self.begun:
            self.console.say(f"asked to end ({name}) before the first step")
            return
        self.console.say(f"asked to end ({name}): saving after this step")
        self.board.stop.remote()
        while not fit.ended.wait(LOOK_S):
            if self.stop.overdue:
                self.console.say(f"no end after {STOP_S:.0f} s; what came after the last checkpoint is lost")
                return

    def verdict(self, error: BaseException) -> Verdict:
        """What has happened, from what workers said and from what Ray knows of those that could not."""
        import ray

        try:
            told = answer(self.board.take_failures.remote(), timeout_s=STOP_S)
        except ray.exceptions.RayError:  # the board's node is in trouble too
            told = []
        failures = getattr(error, "worker_failures", {})
        ranks = {failure.rank for failure in told}
        dead = {rank: story_of(problem) for rank, problem in failures.items() if rank not in ranks}
        if not told and not dead:
            return Verdict(f"the workers could not be started: {error}", again=True, exit_code=1)
        return judge(told, dead)

    def finish(self, timeout_s: float) -> None:
        """Write the summary and the plot, and have everything with MLflow."""
        files = []
        summary = summarize(self.recipe, self.words, self.history)
        if summary:
            try:
                files = [*write_summary(summary, self.folder), plot_losses(self.history, self.folder / "loss.png")]
            except OSError as error:
                self.console.say(f"the summary is not written: {error}")
            else:
                if self.finished:
                    self.console.say(f"summary and plot of the loss: {files[1]}, {files[2]}")
        if self.recorder:
            self.recorder.finish(files, timeout_s)

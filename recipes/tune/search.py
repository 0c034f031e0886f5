"""The process that searches: it starts trials on a Ray cluster, ends the worse ones early, and keeps the best model."""

from __future__ import annotations

import logging
import math
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from recipes.engine.checkpoints import placed
from recipes.engine.cluster import Share, connect, share
from recipes.engine.console import Console
from recipes.engine.data.loading import load_corpora
from recipes.engine.driver import FLUSH_S, FLUSH_WHEN_STOPPED_S, LOOK_S, Stop
from recipes.engine.failures import story_of
from recipes.engine.mlflow_log import recorder_of_run
from recipes.engine.start import say, tokenizer_of
from recipes.engine.wire import Board, Listener, Message
from recipes.errors import RecipeError
from recipes.overrides import assignments, written
from recipes.tune.report import command_for, ended, evaluated, in_columns, named, rows, write_report
from recipes.tune.settings import Wanted
from recipes.tune.trial_runs import runs_of_trials
from recipes.tune.trials import ENDED, Evaluation, Status, Trial, best_of, trials_of
from recipes.tune.worker import EVALUATION, Entry, Trials, run_trial

# Tune reads it when it is imported: no files of each result, and no table each half minute.
QUIET = {"TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1", "RAY_AIR_NEW_OUTPUT": "0"}
SHOWN = {"resumed", "notice", "not_saved"}
STATE = ("checkpoints",)  # of a trial, for going on; its model is another thing


def start(wanted: Wanted) -> int:
    """Prepare the data here, once, and try every candidate; returns the exit code.

    Raises:
        RecipeError: the model, the data or the cluster is not what the settings say.
    """
    settings = replace(wanted.settings, checkpoints=placed(wanted.settings.checkpoints))
    wanted = replace(wanted, settings=settings)
    tokenizer = tokenizer_of(settings)
    corpora = load_corpora(settings.data, tokenizer, say)
    if corpora.evaluation is None:
        raise RecipeError(
            [f"data.eval_share={settings.data.eval_share} holds out no document of {settings.data.source}"],
            "Trials are compared by what they evaluate to: give a larger share, or data.eval_source",
        )
    trials = trials_of(wanted, corpora, settings.checkpoints.path.parent)
    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    connect(settings.cluster)
    import ray

    stop = Stop()  # Ray has its own way to end, until here
    try:
        return Search(wanted, trials, stop).run((corpora, tokenizer), share(settings.cluster, ray.nodes()))
    finally:
        ray.shutdown()


class Search:
    """All trials, from the first to the best model. What Tune and the workers tell comes in threads of theirs."""

    def __init__(self, wanted: Wanted, trials: list[Trial], stop: Stop) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.wanted = wanted
        self.settings = wanted.settings
        self.folder = self.settings.checkpoints.path.parent
        self.trials = {trial.number: trial for trial in trials}
        self.stop = stop
        self.console = Console(sys.stdout)
        self.lock = threading.RLock()
        self.recorder = recorder_of_run(self.console.say)
        self.runs = runs_of_trials(self.console.say)
        self.error: BaseException | None = None
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.board = ray.remote(num_cpus=0, scheduling_strategy=here)(Board).remote()
        self.listener = Listener(self.board, self.hear)

    @property
    def all(self) -> list[Trial]:
        return list(self.trials.values())

    def run(self, data: tuple[Any, Any], taken: Share) -> int:
        """Every trial that is left, and what came of them all."""
        self.begin(taken)
        with tempfile.TemporaryDirectory(prefix="ray-tune-", ignore_cleanup_errors=True) as storage:
            searched = threading.Event()
            arguments = (data, taken, storage, searched)
            threading.Thread(target=self.search, args=arguments, name="search", daemon=True).start()
            while not searched.wait(LOOK_S):
                if self.stop.number is not None:
                    self.wait_for_saving(searched)
                    break
        self.listener.finish(FLUSH_WHEN_STOPPED_S if self.stop.number else FLUSH_S)
        with self.lock:
            return self.finish()

    def begin(self, taken: Share) -> None:
        """Say what is going to be done."""
        at_a_time = f"{taken.workers} at a time, each with {'a GPU and ' * taken.gpu}{taken.cpus} CPUs"
        self.console.say(f"{len(self.trials)} trials, {at_a_time.replace(' 1 CPUs', ' 1 CPU')}")
        past = sum(trial.status in ENDED for trial in self.all)
        if past:
            self.console.say(f"{past} of them ended in an earlier attempt")
        if self.recorder:
            searched = {f"search.{name}": str(values) for name, values in self.wanted.space.items()}
            same = (word.split("=", 1) for word in assignments(self.settings))
            self.recorder.params({**{name: value for name, value in same if name not in self.wanted.space}, **searched})

    def search(self, data: tuple[Any, Any], taken: Share, storage: str, searched: threading.Event) -> None:
        """Have Tune go through the trials; in a thread, for the main one hears signals."""
        import ray

        entries = {
            trial.number: Entry(trial.settings, tuple(trial.evaluations), trial.status in ENDED) for trial in self.all
        }
        work = Trials(entries, ray.put(data), self.board, str(Path.cwd()), taken.cpus)
        try:
            if not all(entry.ended for entry in entries.values()):
                tuner(self, work, taken, storage).fit()
        except Exception as error:  # noqa: BLE001 - the main thread tells it
            self.error = error
        finally:
            searched.set()

    def wait_for_saving(self, searched: threading.Event) -> None:
        """Until all trials that run have saved what they know; a trial that starts now sees that it is too late."""
        number = self.stop.number or signal.SIGTERM
        self.console.say(f"asked to end ({signal.Signals(number).name}): trials save after this step")
        self.board.stop.remote()
        running = [trial for trial in self.all if trial.status == "running"]
        while any(trial.status == "running" for trial in running) and not self.stop.overdue:
            if searched.wait(LOOK_S):
                return

    def hear(self, message: Message) -> None:
        """Something that a trial has told, but for its evaluations."""
        kind, facts, at = message
        with self.lock:
            trial = self.trials[facts["trial"]]
            if kind in SHOWN:
                self.console.say(f"{self.named(trial)}  {self.in_words(kind, facts)}")
            if self.runs:
                self.runs.hear(trial, kind, facts, at)

    def named(self, trial: Trial) -> str:
        return named(trial, self.all)

    def in_words(self, kind: str, facts: Mapping[str, Any]) -> str:
        if kind == "resumed":
            return f"continuing after step {facts['step']}"
        return str(facts["text"]) if kind == "notice" else f"NOT saved: {facts['reason']}"

    def started(self, number: int) -> None:
        """Tune has found room for a trial, once more where it was lost."""
        with self.lock:
            trial = self.trials[number]
            if trial.status in ENDED or self.stop.number is not None:
                return
            again = trial.status == "running"
            trial.status = "running"
            self.console.say(f"{self.named(trial)}  {'again, its worker was lost' if again else trial.words}")
            if self.runs:
                self.runs.open(trial)
            self.save(trial)

    def reported(self, number: int, result: Mapping[str, Any]) -> None:
        """A trial was evaluated, or has come to an end of its own."""
        with self.lock:
            trial = self.trials[number]
            if trial.status in ENDED:
                return
            if "ended" in result:
                if trial.status == "running":
                    trial.has_model = result["ended"] == "completed"
                    self.end(trial, result["ended"], result["text"])
                return
            numbers = {name: result[name] for name in ("step", "loss", "perplexity")}
            evaluation = Evaluation(result[EVALUATION], **numbers)
            lowest = min((one.loss for other in self.all for one in other.evaluations), default=math.inf)
            if not trial.add(evaluation):
                return
            better = "  best so far" if evaluation.loss < lowest else ""
            self.console.say(f"{self.named(trial)}  {evaluated(evaluation, trial)}{better}")
            if self.runs:
                self.runs.hear(trial, "evaluation", numbers, time.time())
            self.save(trial)

    def completed(self, number: int) -> None:
        """Tune is through with a trial; one that has not said of its end was ended by ASHA."""
        with self.lock:
            trial = self.trials[number]
            if trial.status == "running":
                self.end(trial, "pruned" if self.stop.number is None else "stopped", "")

    def lost(self, number: int, error: BaseException | None) -> None:
        """The process of a trial died too often."""
        with self.lock:
            trial = self.trials[number]
            if trial.status not in ENDED:
                self.end(trial, "lost", f"its worker {story_of(error)}" if error else "")

    def end(self, trial: Trial, status: Status, text: str) -> None:
        before = best_of(self.all)
        trial.status, trial.text = status, text
        self.console.say(f"{self.named(trial)}  {ended(trial)}")
        self.save(trial)
        if self.runs:
            self.runs.close(trial)
        if self.settings.tune.keep == "best" and status in ENDED:
            self.make_room(trial, before)

    def make_room(self, trial: Trial, before: Trial | None) -> None:
        """Delete what a trial that has ended needs no more: all but the model of the best one."""
        trial.remove(*STATE)
        for one in (trial, before):
            if one and one is not best_of(self.all):
                one.has_model = False
                self.save(one)
                one.remove("model")

    def save(self, trial: Trial) -> None:
        try:
            trial.save()
        except OSError as error:
            self.console.say(f"{self.named(trial)}  what is known of it is not written: {error}")

    def finish(self) -> int:
        """Tell what came of the search, and put the best model where a training would leave its own."""
        stopped = self.stop.number is not None
        for trial in self.all:
            if trial.status == "running":
                self.end(trial, "stopped", "")
        if self.error and not stopped:
            self.console.say(f"the search broke off: {self.error}")
        best = best_of(self.all)
        self.console.say(f"\n{in_columns(rows(self.all))}\n")
        if best and not stopped:
            self.console.say(f"the best model, of trial {best.number}, is in {self.take_model(best)}")
        if best:
            self.console.say(f"train with these settings: {command_for(best)}")
        elif not stopped:
            self.console.say("no trial came to its end")
        self.record(best, FLUSH_WHEN_STOPPED_S if stopped else FLUSH_S)
        return self.stop.exit_code if stopped else 0 if best and not self.error else 1

    def take_model(self, best: Trial) -> Path:
        """The best one's model, beside the trials now."""
        place, made = self.folder / "model", best.folder / "model"
        if made.exists():  # else an attempt before this one has moved it
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(made, place) if self.settings.tune.keep == "all" else made.rename(place)
        return place

    def record(self, best: Trial | None, timeout_s: float) -> None:
        """The table, and the best trial's settings and evaluation, into the MLflow run of the search."""
        files: list[Path] = []
        try:
            files = write_report(self.all, self.folder)
        except OSError as error:
            self.console.say(f"the table of trials is not written: {error}")
        if self.recorder:
            if best and best.result:
                chosen = {f"best.{name}": written(value) for name, value in best.candidate.items()}
                self.recorder.params({"best.trial": str(best.number), **chosen})
                facts = {"step": best.result.step, "loss": best.loss, "perplexity": best.result.perplexity}
                self.recorder.hear("evaluation", facts, time.time())
            self.recorder.finish(files, timeout_s)
        if self.runs:
            self.runs.finish(timeout_s)


def tuner(search: Search, work: Trials, taken: Share, storage: str) -> Any:
    """Ray's tuner for the trials, in the order of their numbers."""
    from ray import tune

    class Heard(tune.Callback):  # type: ignore[misc]
        """Passes on what Tune tells."""

        def __reduce__(self) -> tuple[Any, ...]:
            return tune.Callback, ()  # Tune keeps its callbacks in a file, and nobody reads this one

        def on_trial_start(self, trial: Any, **_: Any) -> None:
            search.started(trial.config["number"])

        def on_trial_result(self, trial: Any, result: dict[str, Any], **_: Any) -> None:
            search.reported(trial.config["number"], result)

        def on_trial_complete(self, trial: Any, **_: Any) -> None:
            search.completed(trial.config["number"])

        def on_trial_error(self, trial: Any, **_: Any) -> None:
            search.lost(trial.config["number"], trial.get_pickled_error())

    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # the search tells what becomes of trials
    settings = search.settings.tune
    trainable = tune.with_resources(
        tune.with_parameters(run_trial, trials=work), {"CPU": taken.cpus, **({"GPU": 1} if taken.gpu else {})}
    )
    return tune.Tuner(
        trainable,
        param_space={"number": tune.grid_search(list(search.trials))},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            scheduler=tune.schedulers.ASHAScheduler(
                time_attr=EVALUATION,
                max_t=settings.evaluations - 1,  # the last evaluation ends no trial: its model is as good as saved
                grace_period=settings.grace,
                reduction_factor=settings.reduction,
                stop_last_trials=False,
            ),
            max_concurrent_trials=taken.workers,
            reuse_actors=not taken.gpu,  # a process leaves no memory of a GPU behind
        ),
        run_config=tune.RunConfig(
            name="search",
            storage_path=storage,
            verbose=0,
            callbacks=[Heard()],
            failure_config=tune.FailureConfig(max_failures=search.settings.cluster.max_failures),
        ),
    )

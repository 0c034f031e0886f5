"""A trial in its own process: a training whose evaluations go to Tune, which may end it there."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from recipes.engine.failures import failure_of
from recipes.engine.wire import WireLine
from recipes.tune.settings import Settings
from recipes.tune.trials import Evaluation

EVALUATION = "evaluation"  # the name of a result that ASHA counts by


@dataclass(frozen=True)
class Entry:
    """What a worker has to know of a trial; `past` was evaluated in an earlier attempt, which `ended` it or not."""

    settings: Settings
    past: Sequence[Evaluation]
    ended: bool


@dataclass(frozen=True)
class Trials:
    """What every worker gets: `data` is a reference to corpora and tokenizer, `entries` are by number."""

    entries: Mapping[int, Entry]
    data: Any
    board: Any
    folder: str
    cpus: int


class TuneLine:
    """Where a trial tells things. Evaluations are heard by Tune, and the trial waits for its answer."""

    def __init__(self, board: Any, number: int, eval_every: int) -> None:
        self._wire = WireLine(board)
        self._number = number
        self._eval_every = eval_every
        self.latest: Mapping[str, Any] = {}

    def tell(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Raises SystemExit after an evaluation, when others are better."""
        if kind == "evaluation":
            number = math.ceil(facts["step"] / self._eval_every)
            self.report(Evaluation(number, facts["step"], facts["loss"], facts["perplexity"]))
            return
        self._wire.tell(kind, {**facts, "trial": self._number})

    def report(self, evaluation: Evaluation) -> None:
        from ray import tune

        self.latest = {
            EVALUATION: evaluation.number, "step": evaluation.step,
            "loss": evaluation.loss, "perplexity": evaluation.perplexity,
        }  # fmt: skip
        tune.report(dict(self.latest))

    def ending(self, status: str, text: str = "") -> dict[str, Any]:
        """The last thing that Tune hears of the trial."""
        nothing = {EVALUATION: 0, "step": 0, "loss": math.nan, "perplexity": math.nan}
        return {**nothing, **self.latest, "ended": status, "text": text}

    def stopping(self) -> bool:
        return self._wire.stopping()

    def close(self) -> None:
        self._wire.close()


def run_trial(config: Mapping[str, Any], trials: Trials) -> dict[str, Any]:
    """Go through a trial, or through what an earlier attempt knows of it: ASHA compares with that too."""
    number = config["number"]
    entry = trials.entries[number]
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # the driver tells how a trial ended
    line = TuneLine(trials.board, number, entry.settings.training.eval_every or 1)
    try:
        for evaluation in entry.past:
            line.report(evaluation)
        if entry.ended or line.stopping():
            return line.ending("stopped")
        return train_trial(entry.settings, line, trials)
    finally:
        line.close()


def train_trial(settings: Settings, line: TuneLine, trials: Trials) -> dict[str, Any]:
    """The training; what goes wrong in it is the trial's end, and no other's."""
    import ray
    import torch

    from recipes.engine.loop import train

    torch.set_num_threads(trials.cpus)
    with suppress(OSError):  # on a node where there is no such folder
        os.chdir(trials.folder)
    try:
        corpora, tokenizer = ray.get(trials.data)
        reason = train(settings, corpora, tokenizer, line)
    except Exception as error:  # noqa: BLE001 - the next trial may go well
        return line.ending("failed", failure_of(error, 0, ray.util.get_node_ip_address()).text)
    return line.ending("stopped" if reason == "stopped" else "completed")

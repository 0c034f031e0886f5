"""The trials of a search, and what is known of each, kept beside its checkpoints for the next attempt of the run."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from recipes.engine.data.corpora import Corpora
from recipes.engine.data.plan import Plan
from recipes.engine.data.settings import Data
from recipes.errors import RecipeError
from recipes.overrides import assignments
from recipes.tune.settings import Settings, Wanted, settings_of, words_of
from recipes.tune.space import Candidate

FILE = "trial.json"
# Settings that change nothing of what a trial learns.
APART = ("checkpoints.", "cluster.", "tune.", "data.cache_dir=")

Status = Literal["waiting", "running", "completed", "pruned", "failed", "lost", "stopped"]
ENDED = ("completed", "pruned", "failed")  # for good; the others go on, in this attempt or the next


@dataclass(frozen=True)
class Evaluation:
    """What a trial was worth after a step; `number` counts from 1."""

    number: int
    step: int
    loss: float
    perplexity: float


@dataclass
class Trial:
    """A candidate, and what became of it. `has_model` says that its folder holds one."""

    number: int
    candidate: Candidate
    settings: Settings
    steps: int
    folder: Path
    status: Status = "waiting"
    evaluations: list[Evaluation] = field(default_factory=list)
    text: str = ""
    has_model: bool = False
    mlflow_run: str | None = None

    @property
    def words(self) -> str:
        return words_of(self.candidate)

    @property
    def result(self) -> Evaluation | None:
        """What counts: with early stop, the model is that of the best evaluation, else that of the last."""
        if self.settings.training.patience is None:
            return self.evaluations[-1] if self.evaluations else None
        return min(self.evaluations, key=lambda one: one.loss, default=None)

    @property
    def loss(self) -> float:
        """Of what counts; infinite where there is none, or it is no number."""
        return self.result.loss if self.result and math.isfinite(self.result.loss) else math.inf

    def add(self, evaluation: Evaluation) -> bool:
        """Note an evaluation; False where it was known, as of steps that are taken again after a resume."""
        if any(one.number == evaluation.number for one in self.evaluations):
            return False
        self.evaluations.append(evaluation)
        return True

    def save(self) -> None:
        """Keep what is known, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        known = {
            "status": self.status, "settings": self.words, "text": self.text, "has_model": self.has_model,
            "mlflow_run": self.mlflow_run, "evaluations": [asdict(one) for one in self.evaluations],
        }  # fmt: skip
        unfinished = self.folder / f"{FILE}.unfinished"
        unfinished.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        unfinished.replace(self.folder / FILE)

    def load(self) -> None:
        """Take up what an earlier attempt has kept; one that was cut down while it ran is waiting again."""
        try:
            known = json.loads((self.folder / FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        self.status = known["status"] if known["status"] in ENDED else "waiting"
        self.text, self.has_model, self.mlflow_run = known["text"], known["has_model"], known["mlflow_run"]
        self.evaluations = [Evaluation(**one) for one in known["evaluations"]]

    def remove(self, *names: str) -> None:
        """Delete what it has saved under these names."""
        for name in names:
            shutil.rmtree(self.folder / name, ignore_errors=True)


def trials_of(wanted: Wanted, corpora: Corpora, folder: Path) -> list[Trial]:
    """A trial for each candidate, in a folder whose name depends on what it learns from, and how.

    Raises:
        RecipeError: a trial is too short.
    """

    @lru_cache
    def steps_in(data: Data, epochs: float, seed: int) -> int:
        return Plan(corpora.train.lengths_D, corpora.train.learned_D, data, seed).steps_in(epochs)

    trials = []
    for number, candidate in enumerate(wanted.candidates, 1):
        chosen = settings_of(wanted.settings, candidate)
        training, tune = chosen.training, chosen.tune
        steps = training.steps or steps_in(chosen.data, training.epochs, training.seed)
        if steps < tune.evaluations:
            raise RecipeError(
                [f"with {words_of(candidate)}: {steps} steps are fewer than tune.evaluations={tune.evaluations}"],
                "Ask for fewer evaluations, or for longer trials: training.steps, training.epochs",
            )
        place = folder / "trials" / digest_of(chosen, corpora)
        chosen = replace(
            chosen,
            training=replace(training, eval_every=steps // tune.evaluations),
            checkpoints=replace(chosen.checkpoints, folder=str(place / "checkpoints")),
        )
        trial = Trial(number, candidate, chosen, steps, place)
        trial.load()
        trials.append(trial)
    return trials


def digest_of(chosen: Settings, corpora: Corpora) -> str:
    words = [word for word in assignments(chosen) if not word.startswith(APART)]
    made_of = [*words, corpora.train.digest, str(chosen.tune.evaluations)]
    return hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:8]


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The trial whose model evaluates best, among those that came to their end."""
    ended = (trial for trial in trials if trial.status == "completed" and trial.has_model)
    return min(ended, key=lambda trial: trial.loss, default=None)

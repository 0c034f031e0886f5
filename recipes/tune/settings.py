"""What a search can be told: how to fine-tune, what to try, and how many trials to give it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from recipes import command
from recipes.engine import settings as engine
from recipes.errors import RecipeError
from recipes.overrides import UnfitError, assignments, nearest, override, settings, written
from recipes.sft.settings import DEFAULTS as SFT
from recipes.tune.space import Candidate, Space, candidates, read_dimension, size_of

PROGRAM = "python -m recipes.tune"
PREFIX = "search."
TOLD_AT_ONCE = 5
# Settings that every trial has the same, and why.
ONE_CORPUS = "the documents are prepared once, for all trials"
ONE_WORKER = "a trial is one worker, in a folder of its own"
SAME_SHARES = "all trials are evaluated after the same shares of their training: tune.evaluations"
FIXED = {
    "model.name": ONE_CORPUS,
    "model.revision": ONE_CORPUS,
    "architecture.vocabulary": ONE_CORPUS,
    "data.": ONE_CORPUS,
    "checkpoints.": ONE_WORKER,
    "parallel.": ONE_WORKER,
    "cluster.": ONE_WORKER,
    "training.eval_every": SAME_SHARES,
    "training.log_every": SAME_SHARES,
    "training.sample": SAME_SHARES,
    "tune.": "it is of the search itself",
}
OF_THE_SEARCH = ("tune.", "cluster.", "checkpoints.folder=", "training.eval_every=")
FREE = ("data.packing", "data.pack_tokens", "data.pack_documents", "data.packs")


@dataclass(frozen=True)
class Tune:
    """How many candidates are tried, and when one that is worse than others ends.

    `trials` None tries every combination, which needs choices alone. Each trial is evaluated `evaluations` times, at
    equal distances. After `grace` of them, and then each time that they are `reduction` times as many, a trial goes on
    only if it is in the best one of so many (ASHA). `keep` says whose models stay.
    """

    trials: int | None = None
    evaluations: int = 8
    grace: int = 1
    reduction: float = 3.0
    seed: int = 0
    keep: Literal["best", "all"] = "best"


@dataclass(frozen=True)
class Settings(engine.Settings):
    """The settings of recipes.sft, the same for every trial; what differs has `search.` in front of its name.

      search.optimizer.learning_rate='log 1e-4 1e-2'    a range; also: uniform 0 0.1
      search.data.packs='[4, 8, 16]'                     choices

    `cluster.workers` trials run at a time.
    """

    tune: Tune = field(default_factory=Tune)


DEFAULTS = Settings(training=replace(SFT.training, eval_every=None))


@dataclass(frozen=True)
class Wanted:
    """A search: the settings of all trials, what is searched, and the candidates to try."""

    settings: Settings
    space: Space
    candidates: Sequence[Candidate]


def wanted(words: Sequence[str], env: Mapping[str, str]) -> Wanted:
    """What the workload's parameters and the words ask for.

    Raises:
        RecipeError: all that is wrong with it.
    """
    given = [*command.parameters(Settings, env), *words]
    chosen = command.configured(PROGRAM, DEFAULTS, [word for word in given if not word.startswith(PREFIX)], {})
    space = read_space([word for word in given if word.startswith(PREFIX)])
    if problems := [*contradictions(chosen, space)]:
        raise RecipeError(problems, command.every_setting(PROGRAM))
    found = candidates(space, chosen.tune.trials, chosen.tune.seed)
    if problems := [*contradictions_of_candidates(chosen, found)]:
        raise RecipeError(problems[:TOLD_AT_ONCE], command.every_setting(PROGRAM))
    return Wanted(chosen, space, found)


def read_space(words: Sequence[str]) -> Space:
    """What `search.NAME=VALUES` says, the last of two of the same name.

    Raises:
        RecipeError: there are no such settings, or they take no such values.
    """
    kinds = dict(settings(Settings))
    space, problems = {}, []
    for word in words:
        name, _, text = word.removeprefix(PREFIX).partition("=")
        if name not in kinds:
            problems.append(f"{word}: no such setting{nearest(name, kinds).replace('mean ', f'mean {PREFIX}')}")
        elif reason := why_fixed(name):
            problems.append(f"{word}: cannot be searched; {reason}")
        else:
            try:
                space[name] = read_dimension(text, kinds[name])
            except UnfitError as error:
                problems.append(f"{word}: {error}")
    if problems:
        raise RecipeError(problems, command.every_setting(PROGRAM))
    return space


def why_fixed(name: str) -> str | None:
    if name in FREE:
        return None
    return next((reason for fixed, reason in FIXED.items() if name == fixed or name.startswith(fixed)), None)


def contradictions(chosen: Settings, space: Space) -> Iterator[str]:
    """What no search can be made of."""
    tune = chosen.tune
    if not space:
        yield "nothing is searched: give search.optimizer.learning_rate='log 1e-4 1e-2', or another setting"
    elif tune.trials is None and size_of(space) is None:
        yield "tune.trials is needed: ranges have no end of candidates"
    if tune.trials is not None and tune.trials < 1:
        yield f"tune.trials={tune.trials} has to be 1 or more"
    if not 1 <= tune.grace < tune.evaluations:
        yield f"tune.grace={tune.grace} has to be 1 or more, and less than tune.evaluations={tune.evaluations}"
    if tune.reduction <= 1:
        yield f"tune.reduction={tune.reduction} has to be more than 1"
    if chosen.training.eval_every is not None:
        yield "training.eval_every is not for a search: tune.evaluations says how often a trial is evaluated"
    if chosen.training.sample is not None:
        yield "training.sample is not for a search: train with the best settings to ask a model"
    if not chosen.data.eval_share and not chosen.data.eval_source:
        yield "trials are compared by what they evaluate to: data.eval_share=0 needs data.eval_source"


def contradictions_of_candidates(chosen: Settings, found: Sequence[Candidate]) -> Iterator[str]:
    """What makes a trial impossible, before any is started; each contradiction is told of one candidate."""
    told = set()
    for candidate in found:
        for problem in engine.contradictions(settings_of(chosen, candidate)):
            if problem not in told:
                told.add(problem)
                yield f"with {words_of(candidate)}: {problem}" if candidate else problem


def settings_of(chosen: Settings, candidate: Candidate) -> Settings:
    return override(chosen, [f"{name}={written(value)}" for name, value in candidate.items()])


def words_of(candidate: Candidate) -> str:
    return " ".join(f"{name}={written(value)}" for name, value in candidate.items())


def words_of_sft(chosen: engine.Settings) -> list[str]:
    """What a training with these settings is started with: all that differs from where recipes.sft starts."""
    usual = set(assignments(SFT))
    return [word for word in assignments(chosen) if word not in usual and not word.startswith(OF_THE_SEARCH)]

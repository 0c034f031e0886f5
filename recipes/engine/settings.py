"""Everything that a training can be told, in sections; each stands beside what it is for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from recipes.engine import checkpoints, cluster, model, optimizer
from recipes.engine.checkpoints import Checkpoints
from recipes.engine.cluster import Cluster
from recipes.engine.data import settings as data
from recipes.engine.data.settings import Data
from recipes.engine.model import Architecture, Lora, Model
from recipes.engine.optimizer import Optimizer
from recipes.engine.parallel import Parallel

MOST_SEEDS = 2**32


@dataclass(frozen=True)
class Training:
    """How long to train, and when to look.

    `steps` None trains for `epochs`. `eval_every` counts steps; None evaluates after the last one alone. After
    `patience` evaluations that are no better than the best one the training stops early, and gives the best model.
    `sample` is put to the model at the end.
    """

    steps: int | None = None
    epochs: float = 1.0
    seed: int = 0
    log_every: int = 10
    eval_every: int | None = None
    patience: int | None = None
    sample: str | None = None


@dataclass(frozen=True)
class Settings:
    """Train on every worker of the Ray cluster; each setting is shown with its default, and with what it takes."""

    model: Model = field(default_factory=Model)
    architecture: Architecture = field(default_factory=Architecture)
    lora: Lora = field(default_factory=Lora)
    data: Data = field(default_factory=Data)
    optimizer: Optimizer = field(default_factory=Optimizer)
    training: Training = field(default_factory=Training)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    parallel: Parallel = field(default_factory=Parallel)
    cluster: Cluster = field(default_factory=Cluster)


def contradictions(settings: Settings) -> Iterator[str]:
    """Settings that no training can be made with."""
    yield from model.contradictions(settings.model, settings.architecture, settings.lora)
    yield from data.contradictions(settings.data)
    yield from optimizer.contradictions(settings.optimizer)
    yield from checkpoints.contradictions(settings.checkpoints)
    yield from cluster.contradictions(settings.cluster)
    training = settings.training
    for name in ("steps", "epochs", "log_every", "eval_every", "patience"):
        value = getattr(training, name)
        if value is not None and value <= 0:
            yield f"training.{name}={value} has to be more than 0"
    if not 0 <= training.seed < MOST_SEEDS:
        yield f"training.seed={training.seed} has to be 0 or more, and less than 2^32"
    if training.patience is not None and not settings.checkpoints.keep_best:
        yield "training.patience needs checkpoints.keep_best=true: the best model is what it gives"
    if training.patience is not None and training.eval_every is None:
        yield "training.patience needs training.eval_every"

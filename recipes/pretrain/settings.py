"""What training from scratch starts from; `parameters:` of the workload and words of the command line change it."""

from __future__ import annotations

from recipes.engine.data.settings import Data
from recipes.engine.model import Model
from recipes.engine.optimizer import Optimizer
from recipes.engine.settings import Settings, Training

DEFAULTS = Settings(
    model=Model(weights="random"),
    data=Data(format="text", learn="all"),
    optimizer=Optimizer(learning_rate=6e-4, weight_decay=0.1),
    training=Training(eval_every=50),
)

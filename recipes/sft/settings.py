"""What fine-tuning starts from; `parameters:` of the workload and words of the command line change it."""

from __future__ import annotations

from recipes.engine.settings import Settings, Training

DEFAULTS = Settings(training=Training(eval_every=50))

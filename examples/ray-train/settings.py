"""What can be changed about the training."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

TINY = "tiny"  # the model that is made here rather than downloaded


@dataclass(frozen=True)
class Settings:
    """What to train, on what, for how long; where there are no GPUs. `batch_size` counts examples per worker."""

    model: str = TINY
    dataset: str = "docstrings"
    steps: int = 120
    batch_size: int = 16
    max_tokens: int = 128
    learning_rate: float = 4e-3
    warmup_steps: int = 10
    log_every: int = 10
    checkpoint_every: int = 60
    seed: int = 0


ON_GPUS = Settings(
    model="Qwen/Qwen2.5-3B",
    dataset="tatsu-lab/alpaca",
    steps=200,
    batch_size=4,
    max_tokens=1024,
    learning_rate=1e-5,
    warmup_steps=20,
    checkpoint_every=100,
)


def given_settings() -> dict[str, Any]:
    """The settings that are given: as `parameters` of the workload, or as flags, which win."""
    parser = argparse.ArgumentParser(description="Train a language model with Ray Train.")
    for field in fields(Settings):
        default = f"{field.default} (with GPUs: {getattr(ON_GPUS, field.name)})"
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), help=default)
    if path := os.environ.get("HYPERPARAMETERS_PATH"):
        parameters = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        if unknown := parameters.keys() - {field.name for field in fields(Settings)}:
            parser.error(f"unknown parameters: {', '.join(sorted(unknown))}")
        parser.set_defaults(**parameters)
    return {name: value for name, value in vars(parser.parse_args()).items() if value is not None}

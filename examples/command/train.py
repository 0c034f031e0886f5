"""Fit a line to points by gradient descent; begin again at the last checkpoint, if there is one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import yaml

POINTS = [(x / 10, 3.0 * x / 10 - 1.0) for x in range(-10, 11)]
CHECKPOINT = Path(os.environ["AIR_CHECKPOINT_DIR"], "line.json")  # the same folder in every attempt of a run


def main() -> None:
    parameters = yaml.safe_load(Path(os.environ["HYPERPARAMETERS_PATH"]).read_text(encoding="utf-8"))
    done, slope, offset = load()
    print(f"{parameters['steps']} steps at {parameters['learning_rate']}, of which {done} are done")
    for step in range(done + 1, parameters["steps"] + 1):
        errors = [(x, slope * x + offset - y) for x, y in POINTS]
        slope -= parameters["learning_rate"] * sum(2 * error * x for x, error in errors) / len(errors)
        offset -= parameters["learning_rate"] * sum(2 * error for _, error in errors) / len(errors)
        if step % parameters["save_every"] == 0 or step == parameters["steps"]:
            save(step, slope, offset)
            loss = sum(error**2 for _, error in errors) / len(errors)
            print(f"step {step:>4}  loss {loss:.6f}  y = {slope:.3f} x {offset:+.3f}")


def load() -> tuple[int, float, float]:
    """Steps done, and the line after them."""
    if not CHECKPOINT.exists():
        return 0, 0.0, 0.0
    saved = json.loads(CHECKPOINT.read_text(encoding="utf-8"))
    return saved["step"], saved["slope"], saved["offset"]


def save(step: int, slope: float, offset: float) -> None:
    """Replace the checkpoint in one step: whenever this is killed, the old one or the new one is there, complete."""
    written = CHECKPOINT.with_suffix(".new")
    written.write_text(json.dumps({"step": step, "slope": slope, "offset": offset}), encoding="utf-8")
    written.replace(CHECKPOINT)


if __name__ == "__main__":
    main()

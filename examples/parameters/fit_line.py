"""Fit a line to points by gradient descent, as the parameters of the workload say."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

POINTS = [(x / 10, 3.0 * x / 10 - 1.0) for x in range(-10, 11)]


def main() -> None:
    parameters = yaml.safe_load(Path(os.environ["HYPERPARAMETERS_PATH"]).read_text(encoding="utf-8"))
    optimizer = parameters["optimizer"]
    print(f"steps {parameters['steps']}  {optimizer}")

    weights, velocity = [0.0, 0.0], [0.0, 0.0]
    for step in range(1, parameters["steps"] + 1):
        loss, gradient = loss_and_gradient(weights)
        for i in range(2):
            velocity[i] = optimizer["momentum"] * velocity[i] - optimizer["learning_rate"] * gradient[i]
            weights[i] += velocity[i]
        if step == 1 or step % 10 == 0:
            print(f"step {step:>3}  loss {loss:.6f}  y = {weights[0]:.3f} x {weights[1]:+.3f}")


def loss_and_gradient(weights: list[float]) -> tuple[float, list[float]]:
    """The mean squared error of the line y = w0 x + w1, and its derivative by w0 and w1."""
    errors = [(x, weights[0] * x + weights[1] - y) for x, y in POINTS]
    count = len(errors)
    loss = sum(error**2 for _, error in errors) / count
    return loss, [sum(2 * error * x for x, error in errors) / count, sum(2 * error for _, error in errors) / count]


if __name__ == "__main__":
    main()

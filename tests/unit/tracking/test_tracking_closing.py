"""Which metric is told at the end of a run."""

from __future__ import annotations

import pytest

from airlane.store.records import LastMetric
from airlane.tracking.closing import last_metric
from airlane.tracking.rest import Metric, Run


def ended_with(**metrics: float) -> Run:
    last = tuple(Metric(name.replace("__", "/"), value, 0, 7) for name, value in metrics.items())
    return Run("r", "e", "FINISHED", "", {}, {}, last)


@pytest.mark.parametrize(
    ("metrics", "name"),
    [
        ({"accuracy": 0.5, "train__loss": 1.5, "loss": 2.0}, "loss"),
        ({"train__loss": 1.5, "eval__loss__mean": 2.0}, "train/loss"),
        ({"f1": 0.9, "accuracy": 0.5}, "accuracy"),
        ({"loss": float("nan"), "lr": 0.1}, "lr"),
    ],
)
def test_a_loss_says_most_and_the_shortest_name_is_it(metrics: dict[str, float], name: str) -> None:
    assert last_metric(ended_with(**metrics)) == LastMetric(name, metrics[name.replace("/", "__")], 7)


def test_a_run_without_metrics_of_its_own_has_none() -> None:
    assert last_metric(ended_with(system__cpu_utilization_percentage=12.0)) is None

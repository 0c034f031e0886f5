"""A home of its own for each test, on the cluster that all share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_lab import RayLab
from ray_runs_home import AIR, RayRunsHome, wait_until

__all__ = ["AIR", "RayRunsHome", "runs", "wait_until"]


@pytest.fixture
def runs(ray_lab: RayLab, tmp_path: Path) -> Iterator[RayRunsHome]:
    made = RayRunsHome(tmp_path / "a 'home' ünïcode", ray_lab)
    made.home.mkdir()
    made.configure()
    yield made
    made.air("cancel", "--all", "--yes")

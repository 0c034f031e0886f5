"""A cluster whose nodes are killed: four to begin with, and those that die are replaced. Nobody else uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.ray_failures.remains import SECRET
from ray_lab import RayLab
from ray_runs_home import RayRunsHome

# Ray itself takes 14 s for a node that was killed, and more than a minute for one that hangs.
DEAD_AFTER_S = 10.0


@pytest.fixture(scope="session")
def frail_lab(ray_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayLab]:
    with RayLab(tmp_path_factory.mktemp("frail"), ray_python, nodes=4, gpus=0, dead_after_s=DEAD_AFTER_S) as lab:
        yield lab


@pytest.fixture
def runs(frail_lab: RayLab, tmp_path: Path) -> Iterator[RayRunsHome]:
    made = RayRunsHome(tmp_path / "a 'home' ünïcode", frail_lab)
    made.home.mkdir()
    made.configure(stop_grace_s=5)
    assert made.air("secrets", "set", "hub/token", input=SECRET).returncode == 0
    yield made
    made.air("cancel", "--all", "--yes")

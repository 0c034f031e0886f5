"""A run that goes to Slurm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airlane.store.paths import Home, RunPaths
from airlane.store.records import EnvironmentRecord, Limits, RunRecord
from airlane.store.runs import NewRun, RunContent, RunStore

MADE = RunRecord(
    "", "test", "me", 1.796e9, "w.yaml", "slurm", None, 2, 2, 1, "CPU_1xCORE", simulate=False,
    limits=Limits(1, None, 30.0, 300.0), environment=EnvironmentRecord("host", (), "3.11", None),
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "a 'home' ü")


@pytest.fixture
def new(home: Home) -> NewRun:
    """A run that is in no queue yet; its lock is held, as its submitter does."""
    return RunStore(home).create(MADE, RunContent("", "true"))


@pytest.fixture
def run(new: NewRun) -> RunRecord:
    return new.record


@pytest.fixture
def paths(new: NewRun) -> RunPaths:
    os.close(new.lock)
    return new.paths

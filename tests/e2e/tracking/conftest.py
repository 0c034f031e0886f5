"""A real MLflow, in the environment that Airlane builds for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airlane import environment
from airlane.store.paths import Home
from airlane.tracking import server

Python = Callable[[], Path]


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Python:
    """The interpreter of the `mlflow-server` environment; AIR_TEST_MLFLOW_PYTHON names one that is built already."""
    if ready := os.environ.get("AIR_TEST_MLFLOW_PYTHON"):
        return lambda: Path(ready)
    folder = tmp_path_factory.mktemp("environments")
    plan = environment.plan("mlflow-server", (), base_dir=folder, home=Home(folder))
    built = environment.build(plan, log=folder / "build.log", progress=lambda _: None)
    return lambda: built.python


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One home for all tests, because a start costs seconds; its path has a quote, a space, a newline and more.

    A test that needs a server says so with `server.ensure`; it may leave it running, stopped or dead.
    """
    home = Home(tmp_path_factory.mktemp("tracking") / "ho me 'x' \"y\"\né?#%")
    yield home
    server.stop(home)

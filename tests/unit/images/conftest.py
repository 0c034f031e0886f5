"""The programs beside the Dockerfiles, which are in no package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

IMAGES = Path(__file__).resolve().parents[3] / "images"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(IMAGES))
    monkeypatch.setitem(sys.modules, name, importlib.import_module(name))  # forgotten again after the test
    return sys.modules[name]


@pytest.fixture
def ray_alive(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("ray_alive", monkeypatch)


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    load("engine", monkeypatch)
    return load("build", monkeypatch)

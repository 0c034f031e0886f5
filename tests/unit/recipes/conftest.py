"""The recipes, which are in no installed package, and stand-ins for what needs GPUs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .megatron_stand_in import StandIn

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT))  # the tests import recipes while they are collected


@pytest.fixture
def megatron(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    for name, module in stand_in.modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return stand_in


@pytest.fixture
def no_megatron(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "megatron"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not (Path(entry) / "megatron").exists()])


@pytest.fixture
def broken_megatron(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Megatron Bridge that cannot be imported because something else is not there."""
    (tmp_path / "megatron" / "bridge").mkdir(parents=True)
    (tmp_path / "megatron" / "bridge" / "__init__.py").write_text("import a_missing_kernel\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))

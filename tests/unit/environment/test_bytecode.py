"""Bytecode files that an earlier environment has already."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from airlane.environment import folders, plan
from airlane.environment.bytecode import borrow_bytecode
from airlane.environment.folders import EnvironmentInfo
from airlane.store.paths import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "a home")


def environment(home: Home, key: str, python_version: str) -> Path:
    folder = home.environments / key
    (folder / "lib/site-packages/pack").mkdir(parents=True)
    info = EnvironmentInfo(
        key, "5", (), python_version, "linux", 1, 1, created_at=1, last_used_at=1, build_s=1, moved=(), folder=folder
    )
    folders.write_record(folder, info)
    return folder


def test_bytecode_is_linked_where_the_source_is_the_very_same_file(home: Home, tmp_path: Path) -> None:
    planned = plan("5", [], base_dir=tmp_path, home=home)
    old = environment(home, "old", planned.python_version)
    new = tmp_path / "new"
    (new / "lib/site-packages/pack").mkdir(parents=True)
    cache = old / "lib/site-packages/pack/__pycache__"
    cache.mkdir()
    for name in ("same", "copied", "gone"):
        (cache.parent / f"{name}.py").write_text("x = 1\n", encoding="utf-8")
        (cache / f"{name}.cpython-311.pyc").write_bytes(b"code")
    (cache / "same.cpython-311.opt-1.pyc").write_bytes(b"optimized")
    os.link(cache.parent / "same.py", new / "lib/site-packages/pack/same.py")
    (new / "lib/site-packages/pack/copied.py").write_text("x = 1\n", encoding="utf-8")

    assert borrow_bytecode(new, planned) == 1

    linked = new / "lib/site-packages/pack/__pycache__"
    assert [path.name for path in linked.iterdir()] == ["same.cpython-311.pyc"]
    assert (linked / "same.cpython-311.pyc").samefile(cache / "same.cpython-311.pyc")


def test_the_bytecode_of_another_python_is_not_taken(home: Home, tmp_path: Path) -> None:
    planned = plan("5", [], base_dir=tmp_path, home=home)
    environment(home, "old", "3.8")
    assert borrow_bytecode(tmp_path, planned) == 0
    assert borrow_bytecode(tmp_path, replace(planned, home=Home(tmp_path / "none"))) == 0

"""One class names every path, and all of a run's lie in its folder."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import airlane
from airlane.store.paths import Home, RunPaths, default_home

ROOT = Path("/home/me/a 'home' ü\n/.air")
RUN = RunPaths(ROOT / "runs" / "2026-11" / "7k2m9q4d")


def _properties(of: Any) -> list[str]:
    return [name for name, _ in inspect.getmembers(type(of), lambda member: isinstance(member, property))]


def _methods(of: Any) -> list[str]:
    return [name for name, _ in inspect.getmembers(of, inspect.ismethod) if not name.startswith("_")]


def _of_run() -> dict[str, Path]:
    found = {name: getattr(RUN, name) for name in _properties(RUN) if name != "id"}
    for name in _methods(RUN):
        method = getattr(RUN, name)
        if len(inspect.signature(method).parameters) == 1:
            found[name] = method(0)
        else:
            found[name] = method(attempt=0, node=1)
    return found


def test_every_path_of_a_run_lies_in_its_folder() -> None:
    paths = _of_run()
    assert len(paths) > 20
    assert all(path.is_relative_to(RUN.root) and path != RUN.root for path in paths.values())


def test_no_two_files_of_a_run_are_one() -> None:
    paths = _of_run()
    assert len(set(paths.values())) == len(paths)


def test_attempts_and_nodes_do_not_share_files() -> None:
    named = {RUN.log(attempt=attempt, node=node) for attempt in range(12) for node in range(12)}
    assert len(named) == 144


def test_every_path_of_a_home_lies_in_it() -> None:
    home = Home(ROOT)
    paths = [getattr(home, name) for name in _properties(home) if name != "everything"]
    assert all(path.is_relative_to(ROOT) and path != ROOT for path in paths)
    assert home.snapshot_archive("a1f3").parent == home.snapshots


def test_the_id_of_a_run_is_its_folders_name() -> None:
    assert RUN.id == "7k2m9q4d"


@pytest.mark.parametrize(
    ("value", "home"), [(None, "~/.air"), ("", "~/.air"), ("~/runs", "~/runs"), ("/fsx/me/.air", "/fsx/me/.air")]
)
def test_air_home_names_the_home(monkeypatch: pytest.MonkeyPatch, value: str | None, home: str) -> None:
    monkeypatch.delenv("AIR_HOME", raising=False)
    if value is not None:
        monkeypatch.setenv("AIR_HOME", value)
    assert default_home() == Path(home).expanduser()


def test_a_relative_home_is_taken_from_where_the_user_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIR_HOME", "here")
    assert default_home() == tmp_path / "here"


def test_no_other_module_names_a_file_of_a_run() -> None:
    names = {path.name for name, path in _of_run().items() if path.suffix in (".json", ".jsonl", ".yaml", ".sh")}
    names -= {"0.json", "1.json"}
    package = Path(airlane.__file__).parent
    for source in package.rglob("*.py"):
        if source == package / "store" / "paths.py":
            continue
        named = {name for name in names if re.search(rf"""["'/]{re.escape(name)}["']""", source.read_text())}
        assert not named, f"{source} names {named} itself"

"""Which environment a workload needs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from airlane.environment.bases import BASES, Base
from airlane.environment.dependencies import parse
from airlane.environment.planning import BuiltEnvironment, built, environment_key, plan
from airlane.errors import EnvironmentBuildError
from airlane.store.paths import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "my home é")


def key(
    *dependencies: str,
    folder: Path,
    base: Base = BASES["5"],
    python: str = "cpython-3.11",
    platform: str = "linux-x86_64",
) -> str:
    return environment_key(base, parse(dependencies, base_dir=folder), python, platform)


def test_order_case_and_spaces_do_not_change_the_key(tmp_path: Path) -> None:
    assert key("b>=1,<2", "A", folder=tmp_path) == key("a", "B <2, >=1", "a", folder=tmp_path)


def test_everything_that_decides_the_content_changes_the_key(tmp_path: Path) -> None:
    keys = [
        key(folder=tmp_path),
        key(folder=tmp_path, base=BASES["4"]),
        key(folder=tmp_path, python="cpython-3.12"),
        key(folder=tmp_path, platform="darwin-arm64"),
        key("a", folder=tmp_path),
        key("a==1", folder=tmp_path),
        key("a", "b", folder=tmp_path),
        key("a", "--index-url https://a", folder=tmp_path),
        key("a", "--index-url https://b", folder=tmp_path),
    ]
    assert len(set(keys)) == len(keys)


def test_the_order_of_indexes_changes_the_key(tmp_path: Path) -> None:
    first, second = "--extra-index-url https://a", "--extra-index-url https://b"
    assert key(first, second, folder=tmp_path) != key(second, first, folder=tmp_path)


def test_a_constraint_is_not_a_requirement(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("a==1\n", encoding="utf-8")
    assert key("-c c.txt", folder=tmp_path) != key("-r c.txt", folder=tmp_path)


def test_a_requirements_file_counts_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "r.txt"
    file.write_text("a\nb\n", encoding="utf-8")
    before = key("-r r.txt", folder=tmp_path)
    file.write_text("# a comment\nb\na\n", encoding="utf-8")
    assert key("-r r.txt", folder=tmp_path) == before == key("a", "b", folder=tmp_path)
    file.write_text("a\nb==2\n", encoding="utf-8")
    assert key("-r r.txt", folder=tmp_path) != before


def test_a_variable_counts_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "--index-url https://$TOKEN@host.example/simple"
    monkeypatch.setenv("TOKEN", "one")
    first = key(line, folder=tmp_path)
    monkeypatch.setenv("TOKEN", "two")
    assert key(line, folder=tmp_path) == first


def test_a_home_whose_name_would_break_path_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "a:b")
    with pytest.raises(EnvironmentBuildError, match="separates folders in PATH"):
        plan("5", (), base_dir=tmp_path, home=home)
    assert plan("host", (), base_dir=tmp_path, home=home).cached


def test_a_changed_lock_is_another_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airlane.environment.bases._FOLDER", tmp_path)
    (tmp_path / "5.in").write_text("a\n", encoding="utf-8")
    (tmp_path / "5.lock").write_text("a==1\n", encoding="utf-8")
    before = key(folder=tmp_path)
    (tmp_path / "5.lock").write_text("a==2\n", encoding="utf-8")
    assert key(folder=tmp_path) != before


def test_a_plan_says_what_and_where_and_touches_nothing(tmp_path: Path, home: Home) -> None:
    found = plan("databricks_ai_v5", [" fsspec>=2024.6.1 ", ""], base_dir=tmp_path, home=home)
    assert found.base == "AI5"
    assert found.dependencies == ("fsspec>=2024.6.1",)
    assert found.python_version == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert found.folder == home.environments / str(found.key)
    assert not found.cached
    assert not home.root.exists()


def test_a_plan_shows_no_password(tmp_path: Path, home: Home) -> None:
    found = plan("5", ["--index-url https://me:secret@host/simple"], base_dir=tmp_path, home=home)
    assert "secret" not in str(found.dependencies)


def test_an_environment_is_cached_once_its_interpreter_is_there(tmp_path: Path, home: Home) -> None:
    folder = plan("5", [], base_dir=tmp_path, home=home).folder
    assert folder is not None
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin/python"
    python.symlink_to(tmp_path / "gone")
    assert not plan("5", [], base_dir=tmp_path, home=home).cached
    python.unlink()
    python.symlink_to(sys.executable)
    assert plan("5", [], base_dir=tmp_path, home=home).cached


def test_host_is_the_interpreter_that_runs_air(tmp_path: Path, home: Home) -> None:
    found = plan("host", [], base_dir=tmp_path, home=home)
    assert (found.key, found.folder, found.cached) == (None, None, True)
    environment = built(found)
    assert environment.python == Path(sys.executable)
    assert environment.variables({"PATH": "/bin"})["PATH"] == f"{Path(sys.executable).parent}:/bin"


def test_host_takes_no_dependencies(tmp_path: Path, home: Home) -> None:
    with pytest.raises(EnvironmentBuildError, match=r"host is used as it is and takes no dependencies .*: requests"):
        plan("host", ["requests"], base_dir=tmp_path, home=home)


def test_another_interpreter_is_asked_for_its_version(tmp_path: Path, home: Home) -> None:
    mine = plan("5", [], base_dir=tmp_path, home=home)
    assert plan("5", [], base_dir=tmp_path, home=home, python=Path(sys.executable)).key == mine.key
    with pytest.raises(EnvironmentBuildError, match="is not a Python interpreter"):
        plan("5", [], base_dir=tmp_path, home=home, python=Path("/bin/false"))


def test_a_built_environment_comes_first_on_the_path_and_lets_bytecode_be_written(tmp_path: Path) -> None:
    environment = BuiltEnvironment("k", tmp_path, tmp_path / "bin", tmp_path / "bin/python", tmp_path)
    assert environment.variables({"PATH": "/usr/bin:/bin"}) == {
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
        "VIRTUAL_ENV": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "",
    }

"""include_paths: choosing some of the code, and bringing back what stays out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.errors import SnapshotError
from airlane.snapshot import CodeRequest, SnapshotPlan, plan

Git = Callable[..., str]
Write = Callable[[Path, dict[str, str | bytes]], None]


@pytest.fixture(params=["working tree", "commit"])
def chosen(request: pytest.FixtureRequest, repository: Path, git: Git, write: Write) -> Callable[..., SnapshotPlan]:
    """Plan the repository with these include_paths, from its files or from a commit of the same files."""
    write(
        repository,
        {
            "src/deep/er.py": "",
            "src/deep/__pycache__/er.pyc": "",
            "data/a.csv": "",
            "*.py": "a star is a star",
            ".env": "TOKEN=1",
            ".venv/pyvenv.cfg": "",
            ".venv/lib/__pycache__/x.pyc": "",
            "node_modules/a/node_modules/b/index.js": "",
        },
    )
    git(repository, "add", "-f", ".")
    git(repository, "commit", "-qm", "all")
    commit = "HEAD" if request.param == "commit" else None

    def choose(*include: str, root: str = ".") -> SnapshotPlan:
        return plan(CodeRequest(repository / root, include, commit=commit))

    return choose


def names(frozen: SnapshotPlan) -> set[str]:
    return {os.fsdecode(entry.path) for entry in frozen.entries}


def test_only_the_paths_named_are_packaged_where_they_are(chosen: Callable[..., SnapshotPlan]) -> None:
    assert names(chosen("src/deep", "./train.py")) == {"src", "src/deep", "src/deep/er.py", "train.py"}


def test_star_is_an_ordinary_character(chosen: Callable[..., SnapshotPlan]) -> None:
    assert names(chosen("*.py")) == {"*.py"}


def test_paths_are_relative_to_the_root_not_the_repository(chosen: Callable[..., SnapshotPlan]) -> None:
    assert names(chosen("deep/er.py", root="src")) == {"deep", "deep/er.py"}


def test_missing_paths_are_all_named(chosen: Callable[..., SnapshotPlan]) -> None:
    with pytest.raises(SnapshotError) as caught:
        chosen("src", "nope", "*.txt")
    assert "nope, *.txt do not exist" in caught.value.message


@pytest.mark.parametrize("path", ["", "/etc", "../up", "src/../..", ".git/config", "src/.git"])
def test_path_that_is_not_inside_the_root_is_refused(chosen: Callable[..., SnapshotPlan], path: str) -> None:
    with pytest.raises(SnapshotError, match="include_paths"):
        chosen(path)


def test_secret_file_comes_back_when_it_is_named(chosen: Callable[..., SnapshotPlan]) -> None:
    assert ".env" not in names(chosen("."))
    frozen = chosen(".", ".env")
    assert {".env", "train.py", "src/model.py"} <= names(frozen)
    assert frozen.warnings == ()


def test_environment_comes_back_whole_when_it_is_named(chosen: Callable[..., SnapshotPlan]) -> None:
    assert names(chosen(".venv")) == {
        ".venv",
        ".venv/lib",
        ".venv/lib/__pycache__",
        ".venv/lib/__pycache__/x.pyc",
        ".venv/pyvenv.cfg",
    }


@pytest.mark.parametrize("include", [("myenv", "."), (".", "myenv")])
def test_environment_that_is_named_survives_the_walk_of_everything(
    repository: Path, write: Write, include: tuple[str, ...]
) -> None:
    write(repository, {"myenv/pyvenv.cfg": "", "myenv/lib/x.py": ""})
    assert {"myenv", "myenv/lib", "myenv/lib/x.py"} <= names(plan(CodeRequest(repository, include)))


def test_part_of_an_environment_comes_back_when_it_is_named(chosen: Callable[..., SnapshotPlan]) -> None:
    assert "node_modules/a/node_modules/b/index.js" in names(chosen("node_modules/a"))


def test_folder_that_is_named_still_leaves_its_caches_out(chosen: Callable[..., SnapshotPlan]) -> None:
    assert not any("__pycache__" in name for name in names(chosen("src")))


def test_ignored_path_that_is_named_comes_with_all_it_holds(repository: Path, write: Write) -> None:
    write(
        repository, {".gitignore": "data/\n*.bin\n", "data/a.bin": "", "data/sub/b.txt": "", "w.bin": "", "v.bin": ""}
    )
    found = names(plan(CodeRequest(repository, ("data", "w.bin", "src"))))
    assert found == {"data", "data/a.bin", "data/sub", "data/sub/b.txt", "w.bin", "src", "src/model.py"}
    assert names(plan(CodeRequest(repository, ("data/sub",)))) == {"data", "data/sub", "data/sub/b.txt"}


def test_ignore_files_still_apply_inside_a_folder_that_is_named(repository: Path, write: Write) -> None:
    write(repository, {".gitignore": "*.log\n", "src/a.log": ""})
    assert names(plan(CodeRequest(repository, ("src",)))) == {"src", "src/model.py"}


def test_path_behind_a_link_is_refused(repository: Path) -> None:
    (repository / "alias").symlink_to("src")
    with pytest.raises(SnapshotError, match=r"alias/model.py lies behind a symbolic link"):
        plan(CodeRequest(repository, ("alias/model.py",)))
    assert names(plan(CodeRequest(repository, ("alias",)))) == {"alias"}


def test_rules_of_a_nested_repository_apply_below_a_named_path(repository: Path, git: Git, write: Write) -> None:
    write(repository, {"nested/.gitignore": "*.o\n", "nested/lib/a.o": "", "nested/lib/a.c": ""})
    git(repository / "nested", "init", "-q")
    assert names(plan(CodeRequest(repository, ("nested/lib",)))) == {"nested", "nested/lib", "nested/lib/a.c"}


def test_changes_elsewhere_do_not_make_the_chosen_code_dirty(repository: Path, write: Write) -> None:
    write(repository, {"train.py": "changed\n"})
    frozen = plan(CodeRequest(repository, ("src",)))
    assert frozen.git is not None
    assert (frozen.git.dirty, frozen.diff) == (False, None)
    frozen = plan(CodeRequest(repository, ("train.py",)))
    assert frozen.git is not None
    assert frozen.git.dirty
    assert "+changed" in (frozen.diff or "")

"""Which files of a working tree a snapshot holds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.errors import SnapshotError
from airlane.snapshot import CodeRequest, SnapshotPlan, plan
from airlane.store.paths import Home

Git = Callable[..., str]
Write = Callable[[Path, dict[str, str | bytes]], None]


def names(frozen: SnapshotPlan) -> set[str]:
    return {os.fsdecode(entry.path) for entry in frozen.entries}


def test_ignore_files_at_every_level_apply_with_their_negations(repository: Path, write: Write) -> None:
    write(
        repository,
        {
            ".gitignore": "*.log\nbuild/\n/top-only.txt\n",
            "a.log": "",
            "build/out.o": "",
            "top-only.txt": "",
            "src/top-only.txt": "",
            "src/.gitignore": "!keep.log\n*.tmp\n",
            "src/keep.log": "",
            "src/drop.log": "",
            "src/x.tmp": "",
            "untracked.py": "",
        },
    )
    assert names(plan(CodeRequest(repository))) == {
        ".gitignore",
        "train.py",
        "untracked.py",
        "src",
        "src/.gitignore",
        "src/keep.log",
        "src/model.py",
        "src/top-only.txt",
    }


def test_ignore_file_above_the_root_applies(repository: Path, write: Write) -> None:
    write(repository, {".gitignore": "*.log\n/src/secret-plans/\n", "src/a.log": "", "src/secret-plans/x": ""})
    frozen = plan(CodeRequest(repository / "src"))
    assert names(frozen) == {"model.py"}
    assert frozen.root_name == "src"


def test_global_and_private_exclude_files_apply(repository: Path, git: Git, write: Write) -> None:
    excludes = repository.parent / "global ignore"
    excludes.write_text("*.global\n")
    git(repository, "config", "--global", "core.excludesFile", str(excludes))
    (repository / ".git/info/exclude").write_text("*.private\n")
    write(repository, {"a.global": "", "a.private": "", "a.txt": ""})
    assert names(plan(CodeRequest(repository))) == {"train.py", "a.txt", "src", "src/model.py"}


@pytest.mark.parametrize("with_global_excludes", [False, True])
def test_folder_without_a_repository_obeys_ignore_files_too(
    project: Path, git: Git, write: Write, with_global_excludes: bool
) -> None:
    write(
        project,
        {
            ".gitignore": "*.log\n/data/\n!important.log\n",
            "a.log": "",
            "important.log": "",
            "data/x": "",
            "sub/data/x": "",
            "sub/.gitignore": "*.bin\n",
            "sub/x.bin": "",
            "x.bin": "",
        },
    )
    if with_global_excludes:
        excludes = project.parent / "excludes"
        excludes.write_text("x.bin\n")
        git(project.parent, "config", "--global", "core.excludesFile", str(excludes))
    expected = {".gitignore", "important.log", "sub", "sub/.gitignore", "sub/data", "sub/data/x", "x.bin"}
    frozen = plan(CodeRequest(project))
    assert names(frozen) == expected - ({"x.bin"} if with_global_excludes else set())
    assert frozen.git is None


def test_tracked_file_that_a_pattern_matches_is_packaged(repository: Path, git: Git, write: Write) -> None:
    write(repository, {".gitignore": "build/\n", "build/tracked": "", "build/other": ""})
    git(repository, "add", "-f", "build/tracked")
    assert {"build", "build/tracked"} <= names(plan(CodeRequest(repository)))
    assert "build/other" not in names(plan(CodeRequest(repository)))


def test_folder_whose_files_are_all_ignored_is_kept_empty(repository: Path, write: Write) -> None:
    write(repository, {".gitignore": "*.log\n", "logs/a.log": "", "empty/": ""})
    assert {"logs", "empty"} <= names(plan(CodeRequest(repository)))
    assert "logs/a.log" not in names(plan(CodeRequest(repository)))


def test_tracked_file_that_was_deleted_is_simply_not_there(repository: Path) -> None:
    (repository / "train.py").unlink()
    shutil.rmtree(repository / "src")
    (repository / "new.py").touch()
    assert names(plan(CodeRequest(repository))) == {"new.py"}


def test_submodule_is_packaged_by_its_own_rules_without_its_git_file(
    repository: Path, tmp_path: Path, git: Git, write: Write
) -> None:
    library = tmp_path / "library"
    write(library, {"lib.py": "", ".gitignore": "*.cache\n"})
    git(library, "init", "-q")
    git(library, "add", ".")
    git(library, "commit", "-qm", "library")
    git(repository, "submodule", "add", "-q", str(library), "vendor/library")
    write(repository, {"vendor/library/x.cache": "", "vendor/library/new.py": ""})
    found = names(plan(CodeRequest(repository)))
    assert {"vendor/library/lib.py", "vendor/library/new.py"} <= found
    assert "vendor/library/x.cache" not in found
    assert not any(name.split("/")[-1] == ".git" for name in found)


def test_clone_inside_the_root_is_packaged_by_its_own_rules(repository: Path, git: Git, write: Write) -> None:
    write(repository, {"nested/.gitignore": "*.o\n", "nested/a.o": "", "nested/a.c": ""})
    git(repository / "nested", "init", "-q")
    found = names(plan(CodeRequest(repository)))
    assert "nested/a.c" in found
    assert "nested/a.o" not in found
    assert not any(".git" in name.split("/") for name in found)


def test_broken_git_file_leaves_ignore_files_to_go_by(repository: Path, write: Write) -> None:
    write(repository, {"copied/.git": "gitdir: /nowhere/at/all\n", "copied/.gitignore": "*.o\n"})
    write(repository, {"copied/a.o": "", "copied/a.c": ""})
    found = names(plan(CodeRequest(repository)))
    assert {"copied/a.c", "copied/.gitignore"} <= found
    assert not {"copied/a.o", "copied/.git"} & found


def test_root_in_a_linked_worktree_works(repository: Path, tmp_path: Path, git: Git) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    frozen = plan(CodeRequest(tmp_path / "tree"))
    assert names(frozen) == {"train.py", "src", "src/model.py"}
    assert frozen.git is not None
    assert frozen.git.branch == "side"


def test_root_that_its_repository_ignores_counts_as_a_plain_folder(repository: Path, write: Write) -> None:
    write(
        repository, {".gitignore": "scratch/\n", "scratch/run.py": "", "scratch/.gitignore": "*.o", "scratch/a.o": ""}
    )
    frozen = plan(CodeRequest(repository / "scratch"))
    assert names(frozen) == {".gitignore", "run.py"}
    assert frozen.git is None


def test_environments_and_caches_stay_out(project: Path, write: Write) -> None:
    write(
        project,
        {
            "a.py": "",
            ".venv/bin/tool": "",
            "myenv/pyvenv.cfg": "",
            "myenv/lib/x.py": "",
            "pkg/__pycache__/a.pyc": "",
            "web/node_modules/left/index.js": "",
            "web/.DS_Store": "",
        },
    )
    (project / "myenv/python").symlink_to("/usr/bin/python3")
    frozen = plan(CodeRequest(project))
    assert names(frozen) == {"a.py", "pkg", "web"}
    assert frozen.warnings == ()


def test_link_to_an_environment_stays_out_by_its_name(project: Path) -> None:
    (project / ".venv").symlink_to("/somewhere/else")
    (project / "a.py").touch()
    assert names(plan(CodeRequest(project))) == {"a.py"}


def test_files_that_may_hold_secrets_stay_out_with_a_warning(project: Path, write: Write) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nabc\n"
    write(
        project,
        {
            ".env": "TOKEN=1",
            ".env.local": "TOKEN=1",
            ".env.example": "TOKEN=",
            "keys/id_rsa": "anything",
            "keys/id_rsa.pub": "ssh-rsa AAAA",
            "keys/server.pem": "certificate first\n" + key,
            "keys/ca.pem": "-----BEGIN CERTIFICATE-----\n",
            "keys/signing.key": key,
            "keys/piano.key": "c major",
            "PRIVATE KEY.md": key,
        },
    )
    frozen = plan(CodeRequest(project))
    assert names(frozen) == {
        ".env.example",
        "keys",
        "keys/id_rsa.pub",
        "keys/ca.pem",
        "keys/piano.key",
        "PRIVATE KEY.md",
    }
    [warning] = frozen.warnings
    for name in (".env,", ".env.local", "keys/id_rsa,", "keys/server.pem", "keys/signing.key", "include_paths"):
        assert name in warning


def test_secret_that_is_ignored_anyway_is_not_worth_a_warning(repository: Path, write: Write) -> None:
    write(repository, {".gitignore": ".env\n", ".env": "TOKEN=1"})
    assert plan(CodeRequest(repository)).warnings == ()


def test_paths_with_newlines_quotes_and_bytes_that_are_no_text_survive(repository: Path) -> None:
    strange = [b"new\nline", b"quo'te\"s", b"not-\xff\xfe-utf8", "ünï cödé".encode(), b"tab\t\\back", b"-rf", b"*.log"]
    for name in strange:
        with open(os.fsencode(repository) + b"/" + name, "wb") as file:  # noqa: PTH123 - Path takes no bytes
            file.write(name)
    (repository / ".gitignore").write_bytes(b"ignored-\xff\n")
    with open(os.fsencode(repository) + b"/ignored-\xff", "wb"):  # noqa: PTH123
        pass
    paths = {entry.path for entry in plan(CodeRequest(repository)).entries}
    assert paths == {*strange, b".gitignore", b"train.py", b"src", b"src/model.py"}


def test_without_git_everything_is_packaged_with_a_warning(
    repository: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, {".gitignore": "*.log\n", "a.log": ""})
    monkeypatch.setenv("PATH", str(repository.parent / "no programs here"))
    frozen = plan(CodeRequest(repository))
    assert names(frozen) == {".gitignore", "a.log", "train.py", "src", "src/model.py"}
    assert frozen.git is None
    [warning] = frozen.warnings
    assert "git is not installed" in warning


def test_without_git_and_without_ignore_files_there_is_nothing_to_warn_of(
    project: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {"a.py": ""})
    monkeypatch.setenv("PATH", str(project.parent / "no programs here"))
    assert plan(CodeRequest(project)).warnings == ()


def test_root_name_is_that_of_the_real_folder(project: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, {"a.py": "", "sub/b.py": ""})
    (project.parent / "current").symlink_to(project)
    assert plan(CodeRequest(project.parent / "current")).root_name == project.name
    assert plan(CodeRequest(project / "sub" / "..")).root_name == project.name
    monkeypatch.chdir(project / "sub")
    assert plan(CodeRequest(Path())).root_name == "sub"


@pytest.mark.parametrize(
    ("root", "words"), [("missing", "does not exist"), ("file", "not a folder"), ("/", "the whole file system")]
)
def test_root_that_is_no_folder_of_code_is_refused(tmp_path: Path, root: str, words: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SnapshotError, match=words):
        plan(CodeRequest(tmp_path / root))


def test_empty_root_is_packaged_with_a_warning(project: Path) -> None:
    frozen = plan(CodeRequest(project))
    assert (frozen.files, frozen.size_bytes, frozen.entries) == (0, 0, ())
    assert "no files" in frozen.warnings[0]


def test_over_100_mb_the_ten_largest_files_are_named(project: Path) -> None:
    for number in range(12):
        with (project / f"part {number:02}").open("wb") as file:
            file.truncate(9_000_000 + number)  # a hole: no disk is used
    frozen = plan(CodeRequest(project))
    assert frozen.largest == tuple((f"part {number:02}", 9_000_000 + number) for number in range(11, 1, -1))
    [warning] = frozen.warnings
    assert warning.startswith("the code is 108 MB; the largest files are:\n      9.0 MB  part 11\n")
    assert warning.count("\n") == 10


def test_files_and_bytes_are_counted(project: Path, write: Write) -> None:
    write(project, {"a": "12345", "b/c": "678", "b/d/": ""})
    (project / "link").symlink_to("a")
    frozen = plan(CodeRequest(project))
    assert (frozen.files, frozen.size_bytes) == (3, 8)
    assert frozen.largest == ()


def test_our_own_home_is_no_part_of_the_code_that_it_lies_in(repository: Path, write: Write) -> None:
    write(repository, {"train.py": "", ".air/runs/2026-11/x/run.json": "", ".air/index.db": "", ".airport": ""})
    frozen = plan(CodeRequest(repository, leave_out=(repository / ".air", repository.parent)))
    assert names(frozen) & {"train.py", ".airport", ".air"} == {"train.py", ".airport"}
    assert frozen.git is not None
    assert frozen.git.changed_files == 2
    assert names(plan(CodeRequest(repository, include_paths=(".air/index.db",)))) == {".air", ".air/index.db"}


def test_a_home_that_is_the_code_folder_itself_leaves_the_code(project: Path, write: Write) -> None:
    write(project, {"train.py": "", "runs/x": "", "index.db": ""})
    assert names(plan(CodeRequest(project, leave_out=Home(project).everything))) == {"train.py"}

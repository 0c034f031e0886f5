"""The state of the repository that a plan records."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.errors import SnapshotError
from airlane.snapshot import CodeRequest, SnapshotPlan, plan
from airlane.snapshot.remote_url import hide_credentials, without_credentials
from airlane.store.records import GitState

Git = Callable[..., str]
Write = Callable[[Path, dict[str, str | bytes]], None]


def state_of(frozen: SnapshotPlan) -> GitState:
    assert frozen.git is not None
    return frozen.git


def test_clean_tree_is_its_commit(repository: Path, git: Git) -> None:
    frozen = plan(CodeRequest(repository))
    head = git(repository, "rev-parse", "HEAD")
    assert state_of(frozen) == GitState(head, "main", None, dirty=False, changed_files=0)
    assert frozen.diff is None


def test_changes_are_counted_and_shown(repository: Path, git: Git, write: Write) -> None:
    write(repository, {"picture.bin": b"\0\1\2"})
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "binary")
    write(
        repository, {"train.py": "print('changed')\n", "picture.bin": b"\0\7\7", "staged.py": "new\n", "loose.py": ""}
    )
    git(repository, "add", "staged.py")
    (repository / "src/model.py").unlink()
    frozen = plan(CodeRequest(repository))
    assert (state_of(frozen).dirty, state_of(frozen).changed_files) == (True, 5)
    diff = frozen.diff or ""
    assert "+print('changed')" in diff
    assert "+++ b/staged.py" in diff
    assert "deleted file mode" in diff
    assert "Binary files a/picture.bin and b/picture.bin differ" in diff


def test_state_is_that_of_the_folder_not_of_the_whole_repository(repository: Path, write: Write) -> None:
    write(repository, {"train.py": "changed\n", "loose.py": ""})
    frozen = plan(CodeRequest(repository / "src"))
    assert (state_of(frozen).dirty, state_of(frozen).changed_files, frozen.diff) == (False, 0, None)
    write(repository, {"src/model.py": "changed\n"})
    frozen = plan(CodeRequest(repository / "src"))
    assert state_of(frozen).changed_files == 1
    assert "b/src/model.py" in (frozen.diff or "")
    assert "train.py" not in (frozen.diff or "")


def test_what_stays_out_does_not_make_a_tree_dirty(repository: Path, write: Write) -> None:
    write(
        repository,
        {".venv/pyvenv.cfg": "", "env/pyvenv.cfg": "", "env/x": "", "src/__pycache__/m.pyc": "", ".env": "A=1"},
    )
    assert state_of(plan(CodeRequest(repository))).changed_files == 0


def test_secrets_stay_out_of_the_diff(repository: Path, git: Git, write: Write) -> None:
    write(repository, {".env": "TOKEN=old-secret\n"})
    git(repository, "add", "-f", ".env")
    git(repository, "commit", "-qm", "oops")
    write(repository, {".env": "TOKEN=new-secret\n", "train.py": "changed\n"})
    frozen = plan(CodeRequest(repository))
    assert "+changed" in (frozen.diff or "")
    assert "secret" not in (frozen.diff or "")


def test_diff_does_not_depend_on_how_the_user_likes_to_see_diffs(repository: Path, git: Git, write: Write) -> None:
    for setting in ("color.ui=always", "diff.noprefix=true", "diff.mnemonicPrefix=true", "diff.external=false"):
        git(repository, "config", *setting.split("="))
    write(repository, {"src/model.py": "layers = 3\n"})
    lines = (plan(CodeRequest(repository)).diff or "").splitlines()
    assert lines[0] == "diff --git a/src/model.py b/src/model.py"
    assert lines[-2:] == ["-layers = 2", "+layers = 3"]


def test_huge_diff_is_cut_and_says_so(repository: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airlane.snapshot.repository._DIFF_LIMIT_BYTES", 1 << 20)
    write(repository, {"train.py": "x = 1\n" * 200_000})
    diff = plan(CodeRequest(repository)).diff or ""
    assert 1_000_000 < len(diff) < 1_100_000
    assert diff.endswith("(the rest of this diff, beyond 1 MB, is left out)\n")


def test_detached_head_has_no_branch(repository: Path, git: Git) -> None:
    git(repository, "checkout", "-q", "--detach")
    assert state_of(plan(CodeRequest(repository))).branch is None


def test_repository_without_a_commit_works(project: Path, git: Git, write: Write) -> None:
    git(project, "init", "-q")
    write(project, {"a.py": "", ".gitignore": "*.log\n", "b.log": ""})
    git(project, "add", "a.py")
    frozen = plan(CodeRequest(project))
    assert state_of(frozen) == GitState(None, "main", None, dirty=True, changed_files=2)
    assert frozen.files == 2


def test_remote_is_that_of_the_branch_without_credentials(repository: Path, git: Git) -> None:
    git(repository, "remote", "add", "origin", "https://someone:ghp_secret@example.org/team/code.git")
    assert state_of(plan(CodeRequest(repository))).remote_url == "https://example.org/team/code.git"
    git(repository, "remote", "add", "fork", "git@example.org:me/code.git")
    git(repository, "config", "branch.main.remote", "fork")
    assert state_of(plan(CodeRequest(repository))).remote_url == "git@example.org:me/code.git"


def test_planning_writes_nothing_into_the_repository(repository: Path, write: Write) -> None:
    def everything() -> dict[str, int]:
        return {str(path): path.lstat().st_mtime_ns for path in repository.rglob("*")}

    os.utime(repository / "train.py")  # Git would now like to refresh its index
    write(repository, {"src/model.py": "changed\n"})
    before = everything()
    plan(CodeRequest(repository))
    plan(CodeRequest(repository, commit="HEAD"))
    assert everything() == before


def test_hooks_do_not_run(repository: Path, git: Git) -> None:
    witness = repository.parent / "hook ran"
    hook = repository / ".git/hooks/monitor"
    hook.write_text(f'#!/bin/sh\ntouch "{witness}"\n')
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", ".git/hooks/monitor")
    plan(CodeRequest(repository))
    assert not witness.exists()


def test_variables_of_another_repository_are_not_followed(
    repository: Path, tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "--bare", "other.git")
    head = git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "no index"))
    assert state_of(plan(CodeRequest(repository))).commit == head


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a repository to another user")
def test_repository_of_another_user_is_refused_with_the_command_that_allows_it(repository: Path) -> None:
    for path in [repository, *repository.rglob("*")]:
        os.chown(path, 12345, 12345, follow_symlinks=False)
    with pytest.raises(SnapshotError, match="it belongs to another user") as caught:
        plan(CodeRequest(repository))
    assert (caught.value.hint or "").startswith("git config --global --add safe.directory")


def test_damaged_repository_is_told_in_the_words_of_git(repository: Path) -> None:
    (repository / ".git/config").write_text("[core\n")
    with pytest.raises(SnapshotError, match="bad config line 1"):
        plan(CodeRequest(repository))


def test_folder_that_lost_its_head_counts_as_no_repository(repository: Path) -> None:
    shutil.rmtree(repository / ".git/refs")
    assert plan(CodeRequest(repository)).git is None


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://github.com/a/b.git", "https://github.com/a/b.git"),
        ("https://token@github.com/a/b", "https://github.com/a/b"),
        ("https://user:pass@host:8443/a/b", "https://host:8443/a/b"),
        ("https://user:p@ss@host/a", "https://host/a"),
        ("https://user:pa/ss@host/a", "https://host/a"),
        ("https://user:p%2Fss@host/a@b", "https://host/a@b"),
        ("https://host/a@b/c", "https://host/a@b/c"),
        ("https://host:8443/a@b/c", "https://host:8443/a@b/c"),
        ("https://host/a.git?private_token=abc", "https://host/a.git"),
        ("https://host/a.git#token", "https://host/a.git"),
        ("HTTPS://user:pass@host/a", "HTTPS://host/a"),
        ("http://oauth2:glpat-1@host", "http://host"),
        ("ssh://git@host:22/a/b", "ssh://git@host:22/a/b"),
        ("ssh://git:secret@host/a", "ssh://git@host/a"),
        ("git@github.com:a/b.git", "git@github.com:a/b.git"),
        ("git:secret@host:a/b.git", "git@host:a/b.git"),
        ("codecommit::eu-west-1://profile:key@repo", "codecommit::eu-west-1://repo"),
        ("/srv/git/a b.git", "/srv/git/a b.git"),
        ("../up@home/x", "../up@home/x"),
        ("file:///srv/git/a.git", "file:///srv/git/a.git"),
    ],
)
def test_credentials_never_stay_in_a_remote_url(url: str, clean: str) -> None:
    assert without_credentials(url) == clean


def test_credentials_never_stay_in_what_git_says() -> None:
    said = "fatal: unable to access 'https://me:s3cret@host/a.git?token=x/': refused, https://t0ken@other/b too"
    assert hide_credentials(said) == "fatal: unable to access 'https://host/a.git': refused, https://other/b too"

"""Code pinned to a commit or a branch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.errors import SnapshotError
from airlane.snapshot import CodeRequest, SnapshotPlan, pack, plan, unpack
from airlane.store.records import GitState

Git = Callable[..., str]
Write = Callable[[Path, dict[str, str | bytes]], None]


def names(frozen: SnapshotPlan) -> set[str]:
    return {os.fsdecode(entry.path) for entry in frozen.entries}


def state_of(frozen: SnapshotPlan) -> GitState:
    assert frozen.git is not None
    return frozen.git


def test_commit_is_what_it_was_whatever_the_tree_looks_like(repository: Path, git: Git, write: Write) -> None:
    clean = plan(CodeRequest(repository))
    head = git(repository, "rev-parse", "HEAD")
    write(repository, {"train.py": "changed\n", "loose.py": ""})
    frozen = plan(CodeRequest(repository, commit=head))
    assert frozen.digest == clean.digest
    assert state_of(frozen) == GitState(head, "main", None, dirty=True, changed_files=2)
    assert frozen.diff is None
    assert frozen.warnings == (f"2 changed files are not in the snapshot, which holds commit {head[:12]}",)


@pytest.mark.parametrize("revision", ["HEAD", "main", "v1", "HEAD~0", "short"])
def test_any_revision_becomes_a_full_sha(repository: Path, git: Git, revision: str) -> None:
    git(repository, "tag", "-a", "v1", "-m", "annotated")
    head = git(repository, "rev-parse", "HEAD")
    frozen = plan(CodeRequest(repository, commit=head[:7] if revision == "short" else revision))
    assert state_of(frozen).commit == head


def test_head_names_new_code_after_a_new_commit(repository: Path, git: Git, write: Write) -> None:
    before = plan(CodeRequest(repository, commit="HEAD"))
    write(repository, {"train.py": "second\n"})
    git(repository, "commit", "-qam", "second")
    after = plan(CodeRequest(repository, commit="HEAD"))
    assert before.digest != after.digest
    assert plan(CodeRequest(repository, commit="HEAD~1")).digest == before.digest
    assert state_of(plan(CodeRequest(repository, commit="HEAD~1"))).branch is None


def test_only_the_folder_is_packaged_and_only_its_changes_count(repository: Path, write: Write) -> None:
    write(repository, {"train.py": "changed\n"})
    frozen = plan(CodeRequest(repository / "src", branch="main"))
    assert names(frozen) == {"model.py"}
    assert frozen.root_name == "src"
    assert not state_of(frozen).dirty


def test_folder_with_magic_characters_is_taken_literally(repository: Path, git: Git, write: Write) -> None:
    write(repository, {":(glob)[a]*/x y.py": "1", "other/z.py": "2"})
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "magic")
    assert names(plan(CodeRequest(repository / ":(glob)[a]*", commit="HEAD"))) == {"x y.py"}


def test_modes_and_links_come_from_the_commit_whatever_the_umask(
    repository: Path, git: Git, write: Write, tmp_path: Path
) -> None:
    write(repository, {"run.sh": "#!/bin/sh\n"})
    (repository / "run.sh").chmod(0o755)
    (repository / "link").symlink_to("src/model.py")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "modes")
    (repository / "train.py").chmod(0o600)
    git(repository, "config", "tar.umask", "0077")
    frozen = plan(CodeRequest(repository, commit="HEAD"))
    pack(frozen, tmp_path / "a.tar.zst")
    root = unpack(tmp_path / "a.tar.zst", tmp_path / "out")
    modes = {path.name: path.lstat().st_mode & 0o777 for path in root.rglob("*")}
    assert modes == {"train.py": 0o644, "run.sh": 0o755, "src": 0o755, "model.py": 0o644, "link": 0o777}
    assert (root / "link").readlink() == Path("src/model.py")


def test_strange_and_long_paths_of_a_commit_survive(repository: Path, git: Git, write: Write, tmp_path: Path) -> None:
    long = "/".join(["a long folder name"] * 12)
    content: dict[str, str | bytes] = {
        f"{long}/deep.py": "deep",
        "new\nline": "1",
        "quo'te\"": "2",
        os.fsdecode(b"bytes-\xff\xfe"): "3",
        "ü" * 90: "4",
        "empty": "",
        "big.bin": os.urandom(3_000_000),
    }
    write(repository, content)
    (repository / "far").symlink_to(long + "/deep.py")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "strange")
    frozen = plan(CodeRequest(repository, commit="HEAD"))
    assert frozen.digest == plan(CodeRequest(repository)).digest
    pack(frozen, tmp_path / "a.tar.zst")
    root = unpack(tmp_path / "a.tar.zst", tmp_path / "out")
    for name, expected in content.items():
        assert (root / name).read_bytes() == (expected if isinstance(expected, bytes) else expected.encode())
    assert (root / "far").read_text() == "deep"


def test_secrets_and_environments_in_a_commit_stay_out(repository: Path, git: Git, write: Write) -> None:
    write(
        repository,
        {
            ".env": "TOKEN=1",
            "env/pyvenv.cfg": "",
            "env/bin/x": "",
            "key.pem": "-----BEGIN PRIVATE KEY-----",
            "ca.pem": "public",
            "node_modules/x.js": "",
        },
    )
    git(repository, "add", "-f", ".")
    git(repository, "commit", "-qm", "too much")
    frozen = plan(CodeRequest(repository, commit="HEAD"))
    assert names(frozen) == {"train.py", "src", "src/model.py", "ca.pem"}
    assert frozen.warnings[0].startswith("left out, because they may hold secrets: .env, key.pem")


def test_filters_and_line_endings_apply_as_in_a_checkout(repository: Path, git: Git, write: Write) -> None:
    git(repository, "config", "filter.shout.clean", "tr A-Z a-z")
    git(repository, "config", "filter.shout.smudge", "tr a-z A-Z")
    write(
        repository,
        {".gitattributes": "*.shout filter=shout\n*.bat text eol=crlf\n", "a.shout": "LOUD\n", "b.bat": "x\r\n"},
    )
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "filters")
    assert git(repository, "cat-file", "blob", "HEAD:a.shout") == "loud"
    assert plan(CodeRequest(repository, commit="HEAD")).digest == plan(CodeRequest(repository)).digest


@pytest.fixture
def library(tmp_path: Path, git: Git, write: Write) -> Path:
    """Another repository, for use as a submodule."""
    folder = tmp_path / "library"
    write(folder, {"lib.py": "first\n"})
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "library")
    return folder


def test_submodule_comes_at_the_commit_that_was_pinned(repository: Path, library: Path, git: Git, write: Write) -> None:
    git(repository, "submodule", "add", "-q", str(library), "vendor/library")
    git(repository, "commit", "-qm", "submodule")
    pinned = plan(CodeRequest(repository, commit="HEAD"))
    assert "vendor/library/lib.py" in names(pinned)
    assert pinned.digest == plan(CodeRequest(repository)).digest
    write(repository, {"vendor/library/lib.py": "second\n"})
    again = plan(CodeRequest(repository, commit="HEAD"))
    assert again.digest == pinned.digest
    assert state_of(again).changed_files == 1


def test_submodule_that_is_not_here_is_an_empty_folder_and_a_warning(
    repository: Path, library: Path, git: Git, tmp_path: Path
) -> None:
    git(repository, "submodule", "add", "-q", str(library), "vendor/library")
    git(repository, "commit", "-qm", "submodule")
    git(tmp_path, "clone", "-q", str(repository), str(tmp_path / "clone"))
    frozen = plan(CodeRequest(tmp_path / "clone", commit="HEAD"))
    assert "vendor/library" in names(frozen)
    assert "vendor/library/lib.py" not in names(frozen)
    assert "vendor/library (git submodule update --init" in frozen.warnings[0]


def test_branch_is_its_local_head(repository: Path, git: Git, write: Write) -> None:
    git(repository, "checkout", "-qb", "feature/x")
    write(repository, {"feature.py": ""})
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "feature")
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "main")
    frozen = plan(CodeRequest(repository, branch="feature/x"))
    assert "feature.py" in names(frozen)
    assert (state_of(frozen).commit, state_of(frozen).branch) == (head, "feature/x")


@pytest.mark.parametrize("branch", ["main", "no such branch"])
def test_branch_with_a_dirty_tree_is_refused_before_anything_else(repository: Path, write: Write, branch: str) -> None:
    write(repository, {"train.py": "changed\n", "loose.py": ""})
    with pytest.raises(SnapshotError, match=r"needs a clean working tree; 1 file changed: train.py") as caught:
        plan(CodeRequest(repository, branch=branch))
    assert "git stash" in (caught.value.hint or "")


def test_untracked_file_does_not_keep_a_branch_from_being_pinned(repository: Path, write: Write) -> None:
    write(repository, {"train.yaml": "new"})
    frozen = plan(CodeRequest(repository, branch="main"))
    assert "train.yaml" not in names(frozen)
    assert frozen.warnings[0].startswith("1 changed file is not in the snapshot")


@pytest.fixture
def clone(repository: Path, tmp_path: Path, git: Git, write: Write) -> Path:
    """A clone of the repository, which has since moved on and got another branch."""
    git(tmp_path, "clone", "-q", str(repository), str(tmp_path / "clone"))
    write(repository, {"train.py": "second\n"})
    git(repository, "commit", "-qam", "second")
    git(repository, "branch", "release-2.1")
    return tmp_path / "clone"


@pytest.mark.parametrize("remote", [True, "origin"])
def test_remote_branch_is_what_the_remote_has_now(repository: Path, clone: Path, git: Git, remote: str | bool) -> None:
    references = git(clone, "show-ref")
    frozen = plan(CodeRequest(clone, branch="main", remote=remote))
    assert state_of(frozen).commit == git(repository, "rev-parse", "HEAD")
    assert state_of(frozen).commit != git(clone, "rev-parse", "HEAD")
    assert git(clone, "show-ref") == references
    assert not (clone / ".git/FETCH_HEAD").exists()
    assert state_of(plan(CodeRequest(clone, branch="main", remote=False))).commit == git(clone, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("request_of", "words", "hint"),
    [
        (lambda root: CodeRequest(root, branch="mian"), "'mian' is not a branch", "did you mean main?"),
        (lambda root: CodeRequest(root, branch=""), "'' is not a branch", "git branch --all"),
        (lambda root: CodeRequest(root, branch="release-2", remote=True), "not a branch of the remote", "release-2.1?"),
        (lambda root: CodeRequest(root, branch="main", remote="up"), "'up' is not a remote of .*; it has origin", ""),
        (lambda root: CodeRequest(root, commit="f" * 40), "is not in the repository", "git fetch --all"),
        (lambda root: CodeRequest(root, commit="mian"), "is not in the repository", "did you mean main?"),
        (lambda root: CodeRequest(root, commit="--all"), "'--all' is not a commit", ""),
        (lambda root: CodeRequest(root, commit=""), "'' is not a commit", ""),
        (lambda root: CodeRequest(root, commit="HEAD:train.py"), "is not in the repository", ""),
    ],
)
def test_pin_that_does_not_exist_is_refused_with_what_comes_close(
    clone: Path, request_of: Callable[[Path], CodeRequest], words: str, hint: str
) -> None:
    with pytest.raises(SnapshotError, match=words) as caught:
        plan(request_of(clone))
    assert hint in (caught.value.hint or "")


def test_branch_that_only_the_remote_has_leads_to_the_remote_setting(clone: Path, git: Git) -> None:
    git(clone, "fetch", "-q")
    with pytest.raises(SnapshotError) as caught:
        plan(CodeRequest(clone, branch="release-2.1"))
    assert caught.value.hint == "the remote origin has it: set git.remote to origin"


def test_remote_that_does_not_answer_is_told_without_its_password(clone: Path, git: Git) -> None:
    git(clone, "remote", "set-url", "origin", "https://me:s3cret@127.0.0.1:1/code.git")
    with pytest.raises(SnapshotError, match="git could not ask the remote 'origin'") as caught:
        plan(CodeRequest(clone, branch="main", remote=True))
    assert "s3cret" not in caught.value.message


def test_shallow_clone_that_lacks_the_commit_says_how_to_get_it(
    repository: Path, tmp_path: Path, git: Git, clone: Path
) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", str(tmp_path / "shallow"))
    with pytest.raises(SnapshotError) as caught:
        plan(CodeRequest(tmp_path / "shallow", commit=git(clone, "rev-parse", "HEAD")))
    assert "git fetch --unshallow" in (caught.value.hint or "")
    assert plan(CodeRequest(tmp_path / "shallow", commit="HEAD")).files == 2


def test_ambiguous_sha_asks_for_more_of_it(repository: Path, git: Git) -> None:
    tree = git(repository, "rev-parse", "HEAD^{tree}")
    prefixes: set[str] = set()
    for number in range(2000):
        made = git(repository, "commit-tree", tree, "-m", str(number))
        if made[:4] in prefixes:
            break
        prefixes.add(made[:4])
    with pytest.raises(SnapshotError, match="ambiguous") as caught:
        plan(CodeRequest(repository, commit=made[:4]))
    assert caught.value.hint == "give more of its SHA"


def test_folder_that_the_commit_does_not_have_is_refused(repository: Path, write: Write) -> None:
    write(repository, {"later/a.py": ""})
    with pytest.raises(SnapshotError, match="the folder later is not in commit"):
        plan(CodeRequest(repository / "later", commit="HEAD"))


def test_pin_without_a_repository_is_refused(project: Path) -> None:
    with pytest.raises(SnapshotError, match="is not in a git repository"):
        plan(CodeRequest(project, commit="HEAD"))


def test_pin_without_git_is_refused(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository.parent / "no programs here"))
    with pytest.raises(SnapshotError, match="git is not installed"):
        plan(CodeRequest(repository, commit="HEAD"))


def test_pinned_code_is_packed_although_the_files_are_gone(repository: Path, tmp_path: Path) -> None:
    frozen = plan(CodeRequest(repository, commit="HEAD"))
    shutil.rmtree(repository / "src")
    pack(frozen, tmp_path / "a.tar.zst")
    assert (unpack(tmp_path / "a.tar.zst", tmp_path / "out") / "src/model.py").read_text() == "layers = 2\n"

"""A folder with an awkward name, and a git that knows nothing of this machine's own settings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Git = Callable[..., str]
Write = Callable[[Path, dict[str, str | bytes]], None]


@pytest.fixture(autouse=True)
def _plain_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = A. Tester\n\temail = tester@example.org\n"
        '[init]\n\tdefaultBranch = main\n[protocol "file"]\n\tallow = always\n'
    )
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty folder whose name has a space, quotes, a newline and a letter beyond ASCII."""
    folder = tmp_path / 'it\'s a\n"projéct"'
    folder.mkdir()
    return folder


@pytest.fixture
def git() -> Git:
    """Run git in a folder: git(folder, "add", ".")."""

    def run(folder: Path, *arguments: str) -> str:
        done = subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True)
        return done.stdout.decode().strip()

    return run


@pytest.fixture
def write() -> Write:
    """Create files, and the folders that they are in; a path that ends in "/" is an empty folder."""

    def create(folder: Path, files: dict[str, str | bytes]) -> None:
        for name, content in files.items():
            path = folder / name
            if name.endswith("/"):
                path.mkdir(parents=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return create


@pytest.fixture
def repository(project: Path, git: Git, write: Write) -> Path:
    """The project as a repository with one commit of train.py and src/model.py."""
    git(project, "init", "-q")
    write(project, {"train.py": "print('hi')\n", "src/model.py": "layers = 2\n"})
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    return project

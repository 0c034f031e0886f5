"""The files that belong to the project, as the tests of the house look at them."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "airlane"
DOCS = ROOT / "docs"


@cache
def project_files(suffix: str = "") -> tuple[Path, ...]:
    """Every file under version control, or new and not ignored, whose name ends in `suffix`."""
    git = ["git", "-c", "safe.directory=*", "-C", str(ROOT)]  # a CI may check out as another user than it tests as
    command = [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
    files = (ROOT / name for name in sorted(set(names)) if name.endswith(suffix))
    return tuple(file for file in files if file.is_file())


def pages() -> tuple[Path, ...]:
    """The Markdown that people read: the README and its neighbours, and docs/."""
    return tuple(file for file in project_files(".md") if file.parent == ROOT or DOCS in file.parents)


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))

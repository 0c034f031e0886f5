from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from airlane.errors import Problem, SpecError
from airlane.spec.load import Loaded, load_text

BASE = {
    "experiment_name": "experiment_name: demo",
    "command": "command: echo hi",
    "compute": "compute: {num_accelerators: 8, accelerator_type: GPU_8xH100}",
}

Complete = Callable[[str], str]
Read = Callable[..., Loaded]
Refuse = Callable[..., tuple[Problem, ...]]


def complete_text(snippet: str) -> str:
    """The snippet, followed by those required fields that it does not set itself."""
    keys = {line.partition(":")[0] for line in snippet.splitlines()}
    rest = [line for key, line in BASE.items() if key not in keys]
    return "\n".join([snippet, *rest, ""])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of code with everything awkward in its name, and a requirements file of each form."""
    base = tmp_path / 'it\'s a "folder"\n of naïve 码'
    (base / "src" / "deep").mkdir(parents=True)
    (base / "a file").write_text("x", encoding="utf-8")
    (base / "needs.yaml").write_text("version: AI5\ndependencies:\n  - numpy\n  - -r more.txt\n", encoding="utf-8")
    (base / "needs.txt").write_text("# tools\nnumpy>=2  # arrays\npandas \\\n  >=2\n\n", encoding="utf-8")
    (base / "bad.yaml").write_text("version: AI5\ndependancies: [numpy]\nversion: 5\n", encoding="utf-8")
    return base


@pytest.fixture
def read(folder: Path) -> Read:
    """Load a snippet as part of a complete workload."""

    def read_snippet(snippet: str, overrides: Sequence[str] = ()) -> Loaded:
        return load_text(complete_text(snippet), file="train.yaml", base_dir=folder, overrides=overrides)

    return read_snippet


@pytest.fixture
def refuse(read: Read) -> Refuse:
    """The problems of a snippet; fails where it is accepted."""

    def problems(snippet: str, overrides: Sequence[str] = ()) -> tuple[Problem, ...]:
        with pytest.raises(SpecError) as caught:
            read(snippet, overrides)
        return caught.value.problems

    return problems

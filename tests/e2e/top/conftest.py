"""`air top` as a process of its own: in a pipe, and on a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from terminal_screen import Terminal

AIR = Path(sys.executable).with_name("air")
_LEFT_OUT = ("AIR_", "MLFLOW_", "RAY_")
_UNSET = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TERM_PROGRAM")


@dataclass(frozen=True)
class Desk:
    """Where somebody types: a home and configuration of their own. `ways` closes what is opened on it."""

    folder: Path
    ways: ExitStack
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @property
    def env(self) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT) and name not in _UNSET
        }
        places = {"AIR_HOME": str(self.folder / "home"), "AIR_CONFIG": str(self.config), "HOME": str(self.folder)}
        return {**kept, **places, "TERM": "xterm-256color", "COLORTERM": "truecolor", **self.variables}

    def top(self, *words: str) -> subprocess.CompletedProcess[str]:
        line = [str(AIR), "top", *words]
        return subprocess.run(line, check=False, env=self.env, capture_output=True, text=True, timeout=60)

    def round(self, *words: str) -> dict[str, Any]:
        """What --once --json says."""
        done = self.top("--once", "--json", *words)
        content = json.loads(done.stdout)
        assert "data" in content, content
        data: dict[str, Any] = content["data"]
        return data

    def terminal(self, *words: str, columns: int = 80, lines: int = 24) -> Terminal:
        return self.ways.enter_context(Terminal([str(AIR), "top", *words], columns=columns, lines=lines, env=self.env))

    def with_variables(self, **variables: str) -> Desk:
        return replace(self, variables={**self.variables, **variables})


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ExitStack() as ways:
        made = Desk(tmp_path, ways)
        made.config.write_text("")
        yield made

"""`air --version` and `air --help` beside a Python that does nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from timing import AIR, Row, environment, interleaved, whole_s

REPETITIONS = 15


def rows(folder: Path) -> Iterator[Row]:
    env = environment(folder / "home")
    commands: dict[str, list[str | Path]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "air --version": [AIR, "--version"],
        "air --help": [AIR, "--help"],
    }
    medians = interleaved(REPETITIONS, {name: _measure(command, env) for name, command in commands.items()})
    bare_s = medians["python -c pass"]
    yield Row("air --version", medians["air --version"], "python -c pass", bare_s, most_s=0.1)
    yield Row("air --help", medians["air --help"], "python -c pass", bare_s)


def _measure(command: list[str | Path], env: dict[str, str]) -> Callable[[], float]:
    return lambda: whole_s(command, env)

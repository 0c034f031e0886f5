"""How the benchmarks measure: the same machine, the same minutes, one beside the other."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

AIR = Path(sys.executable).parent / "air"


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured, and what beside; medians in seconds. `most_s` is what the measure has to stay under.

    With another `unit` all three are in that.
    """

    name: str
    median_s: float
    beside: str
    beside_s: float
    most_s: float | None = None
    note: str = ""
    unit: str = "s"

    @property
    def ratio(self) -> float:
        return self.median_s / self.beside_s


def interleaved(repetitions: int, measures: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The median of each measure. They take turns, so that what else the machine does befalls all of them alike."""
    for measure in measures.values():
        measure()  # bytecode, page cache
    seconds: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(repetitions):
        for name, measure in measures.items():
            seconds[name].append(measure())
    return {name: statistics.median(values) for name, values in seconds.items()}


def environment(home: Path, *, tracked: bool = False) -> dict[str, str]:
    """The variables of a command with an Airlane home and configuration of its own; bytecode is kept, as for users."""
    config = home / "config.toml"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    config.write_text("" if tracked else '[profiles.local]\ntracking_uri = "none"\n', encoding="utf-8")
    dropped = {"PYTHONDONTWRITEBYTECODE", "MLFLOW_TRACKING_URI", "AIR_PROFILE"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"AIR_HOME": str(home), "AIR_CONFIG": str(config)}


def whole_s(command: Sequence[str | Path], env: Mapping[str, str], *, folder: Path | None = None) -> float:
    """From the start of a command to its end, its output thrown away."""
    began_s = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    took_s = time.perf_counter() - began_s
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with code {done.returncode}: {done.stderr.decode()}")
    return took_s


def first_line_s(command: Sequence[str | Path], env: Mapping[str, str], *, line: str) -> float:
    """From the start of a command to a line of its output that ends so; it is let run to its end.

    A tool that loses the line (torchx does, now and then) is asked again, a few times.
    """
    for _ in range(5):
        seen_s = _first_line_s(command, env, line)
        if seen_s is not None:
            return seen_s
    raise RuntimeError(f"{command[0]} never showed {line!r}")


def _first_line_s(command: Sequence[str | Path], env: Mapping[str, str], line: str) -> float | None:
    began_s = time.perf_counter()
    seen_s = None
    with subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for text in process.stdout or ():
            if seen_s is None and text.rstrip("\n").endswith(line):
                seen_s = time.perf_counter() - began_s
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with code {process.returncode}")
    return seen_s

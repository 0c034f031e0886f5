"""`echo hi` as a job of one Ray cluster: through `air ray job submit` and through Ray's own command, taking turns."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from timing import AIR, Row, environment

REPETITIONS = 5
# It says "hi"; the line in which Ray tells of the command does not end so.
_ECHO = ("job", "submit", "--", "printf", "h%s\\n", "i")
_NOTE = "within half of Ray's; most of what is left is the start of a job, which is the cluster's"


def rows(folder: Path) -> Iterator[Row]:
    """The first line, and the whole command; each from the same runs."""
    env = environment(folder / "home")
    with cluster(env) as (ray, variables):
        settings = {**env, **variables}
        commands = {"air": (AIR, "ray", *_ECHO), "ray": (ray, *_ECHO)}
        for command in commands.values():
            _both_s(command, settings)  # bytecode, page cache, the cluster's first job
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(REPETITIONS):
            for name, command in commands.items():
                seconds[name].append(_both_s(command, settings))
    for place, what in enumerate(("first line", "whole")):
        ours, theirs = (statistics.median(pair[place] for pair in seconds[name]) for name in ("air", "ray"))
        yield Row(f"air ray job submit, {what}", ours, "ray job submit", theirs, most_s=theirs / 2, note=_NOTE)


def _both_s(command: Sequence[str | Path], env: Mapping[str, str]) -> tuple[float, float]:
    """From the start of a command to the line it is about, and to its end."""
    began_s = time.perf_counter()
    first_s = None
    with subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            if first_s is None and line.rstrip("\n").endswith("hi"):
                first_s = time.perf_counter() - began_s
    whole_s = time.perf_counter() - began_s
    if process.returncode or first_s is None:
        raise RuntimeError(f"{command[0]} ended with code {process.returncode} and showed {first_s}")
    return first_s, whole_s


@contextmanager
def cluster(env: Mapping[str, str]) -> Iterator[tuple[Path, dict[str, str]]]:
    """A cluster on this machine, Ray's own command, and the variables that lead both there."""
    up = _answer(env, "ray", "up", "--cpus-per-node", "2")
    try:
        variables = _answer(env, "ray", "env")["variables"]
        yield next(Path(env["AIR_HOME"]).glob("environments/*/bin/ray")), variables
    finally:
        _answer(env, "ray", "down", up["run_id"])


def _answer(env: Mapping[str, str], *words: str) -> dict[str, Any]:
    done = subprocess.run([AIR, *words, "--json"], env=dict(env), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"air {' '.join(words)} ended with code {done.returncode}: {done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)["data"]
    return answer

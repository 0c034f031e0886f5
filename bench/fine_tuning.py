"""recipes/sft as `air run` runs it - Ray Train, metrics to MLflow, checkpoints - beside three trainings by torchrun.

All learn from the same documents with the same tokenizer, model and two processes on two cores, in float32: the
standard library's docstrings, Qwen2 with a million parameters. Useful are the tokens of documents, padding left out.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from peers import ROOT
from timing import AIR, Row, environment

ROUNDS = 3
# Trainer with the number of rows for a process that suits each of its ways best.
PEERS: dict[str, Sequence[str]] = {
    "a loop that pads to 1,024 tokens": ("training.reference", "--rows", "4"),
    "Trainer, rows of similar length": ("training.trainer", "--way", "grouped", "--rows", "64"),
    "Trainer, padding-free": ("training.trainer", "--way", "padding-free", "--rows", "16"),
    "the step alone": ("training.bare", "--steps", "60"),
}
TIMES_AS_FAST = {"a loop that pads to 1,024 tokens": 10.0}
OVERHEAD = 1.03
FIRST, LAST, LOG_EVERY, SAVE_EVERY = 20, 100, 10, 40
PARAMETERS = {
    "data.pack_tokens": 1024, "data.max_tokens": 1024, "data.packs": 8, "optimizer.learning_rate": 1e-3,
    "training.steps": LAST, "training.log_every": LOG_EVERY, "checkpoints.every": SAVE_EVERY,
}  # fmt: skip


def rows(folder: Path) -> Iterator[Row]:
    """Milliseconds for 1,000 useful tokens, and for a step."""
    env = environment(folder / "home", tracked=True)
    env = {**env, "XDG_CACHE_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    ours: list[tuple[float, float]] = []
    theirs: dict[str, list[tuple[float, float]]] = {name: [] for name in PEERS}
    for _ in range(ROUNDS):
        ours.append(_ours(env))
        python = next(Path(env["AIR_HOME"]).glob("environments/*/bin/torchrun"))
        for name, words in PEERS.items():
            theirs[name].append(_peer(python, words, folder, env))
    per_thousand, step = (statistics.median(values) for values in zip(*ours, strict=True))
    for name, measured in theirs.items():
        beside = [statistics.median(values) for values in zip(*measured, strict=True)]
        if name == "the step alone":
            most = OVERHEAD * beside[1]
            yield Row(
                "recipes/sft, a step", step, name, beside[1], most_s=most, note=_spread(ours, measured), unit="ms"
            )
        else:
            most = beside[0] / TIMES_AS_FAST.get(name, 1.0)
            yield Row("recipes/sft, 1,000 useful tokens", per_thousand, name, beside[0], most_s=most, unit="ms")


def _spread(ours: Sequence[tuple[float, float]], theirs: Sequence[tuple[float, float]]) -> str:
    steps = [f"{min(step for _, step in one):.0f}-{max(step for _, step in one):.0f} ms" for one in (ours, theirs)]
    return f"evaluation and start left out; steps of {steps[0]} beside {steps[1]}"


def _ours(env: Mapping[str, str]) -> tuple[float, float]:
    """Milliseconds for 1,000 useful tokens and for a step, by the clock between two reports."""
    given = [f"parameters.{name}={value}" for name, value in PARAMETERS.items()]
    done = subprocess.run(
        [AIR, "run", "-f", ROOT / "recipes" / "sft" / "train.yaml", "--watch", "--override", *given],
        env=dict(env), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the recipe ended with code {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    newest = max(Path(env["AIR_HOME"]).glob("runs/*/*/checkpoints/checkpoints/history.jsonl"), key=os.path.getmtime)
    entries = [json.loads(line) for line in newest.read_text(encoding="utf-8").splitlines()]
    reports = [entry for entry in entries if entry["kind"] == "step" and FIRST <= entry["facts"]["step"] <= LAST]
    seconds = reports[-1]["at"] - reports[0]["at"]
    tokens = sum(_tokens(entry["facts"]) for entry in reports[1:])
    return 1000 * seconds / tokens * 1000, 1000 * seconds / (LAST - FIRST)


def _tokens(facts: Mapping[str, Any]) -> float:
    return float(facts["tokens_per_s"] * facts["seconds_per_step"] * LOG_EVERY)


def _peer(torchrun: Path, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> tuple[float, float]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "bench")])
    ranks: list[str | Path] = [torchrun, "--standalone", "--nproc-per-node", "2"]
    line = [*ranks, "-m", *words, "--cache", folder / "tokens"]
    done = subprocess.run(line, env={**env, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{words[0]} ended with code {done.returncode}: {done.stderr[-2000:]}")
    facts = json.loads(done.stdout.splitlines()[-1])
    return 1e6 / facts["useful_tokens_per_s"], 1000 * facts["seconds_per_step"]

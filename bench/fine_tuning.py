"""recipes/sft as `air run` runs it - Ray Train, metrics to MLflow, checkpoints - beside other trainings by torchrun.

All learn from the same documents with the same tokenizer and model in float32, a core to each of two processes: the
standard library's docstrings, Qwen2 with a million parameters. Useful are the tokens of documents, padding left out.
The step alone is measured twice: for one worker, which leaves a core to Ray's own processes as machines with GPUs do,
and for two, which they then take their time from.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers import ROOT
from timing import AIR, Row, environment

ROUNDS = 3
FIRST, LAST, LOG_EVERY, SAVE_EVERY = 20, 100, 10, 40
# Trainer with the number of rows for a process that suits each of its ways best.
PEERS: dict[str, Sequence[str]] = {
    "a loop that pads to 1,024 tokens": ("training.reference", "--rows", "4"),
    "Trainer, rows of similar length": ("training.trainer", "--way", "grouped", "--rows", "64"),
    "Trainer, padding-free": ("training.trainer", "--way", "padding-free", "--rows", "16"),
}
TIMES_AS_FAST = {"a loop that pads to 1,024 tokens": 10.0}
STEP_ALONE = ("training.bare", "--warmup-steps", str(FIRST), "--steps", str(LAST - FIRST))
OVERHEAD = {1: 1.03}  # by the number of workers
PACKS = 4  # of each worker
PARAMETERS = {
    "data.pack_tokens": 1024, "data.max_tokens": 1024, "optimizer.learning_rate": 1e-3,
    "training.steps": LAST, "training.log_every": LOG_EVERY, "checkpoints.every": SAVE_EVERY,
}  # fmt: skip


@dataclass
class Measured:
    """Milliseconds for 1,000 useful tokens and for a step, a round each."""

    tokens_ms: list[float] = field(default_factory=list)
    steps_ms: list[float] = field(default_factory=list)

    def add(self, tokens_ms: float, step_ms: float) -> None:
        self.tokens_ms.append(tokens_ms)
        self.steps_ms.append(step_ms)

    @property
    def range(self) -> str:
        return f"{min(self.steps_ms):.0f}-{max(self.steps_ms):.0f} ms"


def rows(folder: Path) -> Iterator[Row]:
    """Milliseconds for 1,000 useful tokens, and for a step."""
    env = environment(folder / "home", tracked=True)
    path = os.pathsep.join([str(ROOT), str(ROOT / "bench")])
    env = {**env, "XDG_CACHE_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    ours, alone = ({workers: Measured() for workers in (1, 2)} for _ in range(2))
    peers = {name: Measured() for name in PEERS}
    for _ in range(ROUNDS):
        for workers in (1, 2):
            ours[workers].add(*_ours(env, workers))
            alone[workers].add(*_by_torchrun((*STEP_ALONE, "--packs", str(workers * PACKS)), workers, folder, env))
        for name, words in PEERS.items():
            peers[name].add(*_by_torchrun(words, 2, folder, env))
    useful = statistics.median(ours[2].tokens_ms)
    for name, peer in peers.items():
        beside = statistics.median(peer.tokens_ms)
        most = beside / TIMES_AS_FAST.get(name, 1.0)
        yield Row("recipes/sft, 1,000 useful tokens", useful, name, beside, most_s=most, unit="ms")
    for workers, own in ours.items():
        step, beside = statistics.median(own.steps_ms), statistics.median(alone[workers].steps_ms)
        most_s = OVERHEAD[workers] * beside if workers in OVERHEAD else None
        name = f"recipes/sft, a step, {workers} worker{'s' * (workers > 1)}"
        note = f"evaluation and start left out; steps of {own.range} beside {alone[workers].range}"
        yield Row(name, step, "the step alone", beside, most_s=most_s, note=note, unit="ms")


def _ours(env: Mapping[str, str], workers: int) -> tuple[float, float]:
    """By the clock between two reports."""
    sizes = {"data.packs": workers * PACKS, "cluster.workers": workers, "cluster.cpus_per_worker": 1}
    given = [f"parameters.{name}={value}" for name, value in (PARAMETERS | sizes).items()]
    _output([AIR, "run", "-f", ROOT / "recipes" / "sft" / "train.yaml", "--watch", "--override", *given], env)
    newest = max(Path(env["AIR_HOME"]).glob("runs/*/*/checkpoints/checkpoints/history.jsonl"), key=os.path.getmtime)
    entries = [json.loads(line) for line in newest.read_text(encoding="utf-8").splitlines()]
    reports = [entry for entry in entries if entry["kind"] == "step" and FIRST <= entry["facts"]["step"] <= LAST]
    seconds = reports[-1]["at"] - reports[0]["at"]
    tokens = sum(_tokens(entry["facts"]) for entry in reports[1:])
    return 1000 * seconds / tokens * 1000, 1000 * seconds / (LAST - FIRST)


def _tokens(facts: Mapping[str, Any]) -> float:
    return float(facts["tokens_per_s"] * facts["seconds_per_step"] * LOG_EVERY)


def _by_torchrun(words: Sequence[str], processes: int, folder: Path, env: Mapping[str, str]) -> tuple[float, float]:
    torchrun = next(Path(env["AIR_HOME"]).glob("environments/*/bin/torchrun"))
    line: list[str | Path] = [
        torchrun,
        "--standalone",
        "--nproc-per-node",
        str(processes),
        "-m",
        *words,
        "--cache",
        folder / "tokens",
    ]
    facts = json.loads(_output(line, env).splitlines()[-1])
    return 1e6 / facts["useful_tokens_per_s"], 1000 * facts["seconds_per_step"]


def _output(line: Sequence[str | Path], env: Mapping[str, str]) -> str:
    done = subprocess.run(line, env=dict(env), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{line[0]} ended with code {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout

"""recipes/sft as `air run` runs it - Ray Train, metrics to MLflow, checkpoints - beside other trainings.

All learn from the same documents with the same tokenizer, model and two processes on two cores, in float32: the
standard library's docstrings, Qwen2 with a million parameters. Useful are the tokens of documents, padding left out.
The step alone is measured twice: beside the same Ray cluster, which does nothing then, and with no Ray on the machine.
On two cores, which the two workers need, a cluster's own processes cost what no training can win back.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from peers import ROOT
from timing import AIR, Row, environment

ROUNDS = 3
FIRST, LAST, LOG_EVERY, SAVE_EVERY = 20, 120, 10, 40
# Trainer with the number of rows for a process that suits each of its ways best.
PEERS: dict[str, Sequence[str]] = {
    "a loop that pads to 1,024 tokens": ("training.reference", "--rows", "4"),
    "Trainer, rows of similar length": ("training.trainer", "--way", "grouped", "--rows", "64"),
    "Trainer, padding-free": ("training.trainer", "--way", "padding-free", "--rows", "16"),
}
TIMES_AS_FAST = {"a loop that pads to 1,024 tokens": 10.0}
STEP_ALONE = ("training.bare", "--warmup-steps", str(FIRST), "--steps", str(LAST - FIRST))
BESIDE_A_CLUSTER, WITHOUT_RAY = "the step alone, beside an idle Ray cluster", "the step alone, no Ray at all"
OVERHEAD = 1.03
PARAMETERS = {
    "data.pack_tokens": 1024, "data.max_tokens": 1024, "data.packs": 8, "optimizer.learning_rate": 1e-3,
    "training.steps": LAST, "training.log_every": LOG_EVERY, "checkpoints.every": SAVE_EVERY,
}  # fmt: skip


def rows(folder: Path) -> Iterator[Row]:
    """Milliseconds for 1,000 useful tokens, and for a step."""
    env = environment(folder / "home", tracked=True)
    path = os.pathsep.join([str(ROOT), str(ROOT / "bench")])
    env = {**env, "XDG_CACHE_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    ours: list[tuple[float, float]] = []
    theirs: dict[str, list[tuple[float, float]]] = {name: [] for name in (*PEERS, BESIDE_A_CLUSTER, WITHOUT_RAY)}
    for _ in range(ROUNDS):
        ours.append(_ours(env))
        theirs[BESIDE_A_CLUSTER].append(_beside_a_cluster(folder, env))
        torchrun = next(Path(env["AIR_HOME"]).glob("environments/*/bin/torchrun"))
        for name, words in {WITHOUT_RAY: STEP_ALONE, **PEERS}.items():
            theirs[name].append(_facts(_output([str(torchrun), *_ranks(words, folder)], env)))
    per_thousand, step = (statistics.median(values) for values in zip(*ours, strict=True))
    for name, measured in theirs.items():
        beside = [statistics.median(values) for values in zip(*measured, strict=True)]
        if name in PEERS:
            most = beside[0] / TIMES_AS_FAST.get(name, 1.0)
            yield Row("recipes/sft, 1,000 useful tokens", per_thousand, name, beside[0], most_s=most, unit="ms")
        else:
            limit = OVERHEAD * beside[1] if name == BESIDE_A_CLUSTER else None
            note = _spread(ours, measured)
            yield Row("recipes/sft, a step", step, name, beside[1], most_s=limit, note=note, unit="ms")


def _spread(ours: Sequence[tuple[float, float]], theirs: Sequence[tuple[float, float]]) -> str:
    steps = [f"{min(step for _, step in one):.0f}-{max(step for _, step in one):.0f} ms" for one in (ours, theirs)]
    return f"evaluation and start left out; steps of {steps[0]} beside {steps[1]}"


def _ours(env: Mapping[str, str]) -> tuple[float, float]:
    """Milliseconds for 1,000 useful tokens and for a step, by the clock between two reports."""
    given = [f"parameters.{name}={value}" for name, value in PARAMETERS.items()]
    _output([str(AIR), "run", "-f", str(ROOT / "recipes/sft/train.yaml"), "--watch", "--override", *given], env)
    newest = max(Path(env["AIR_HOME"]).glob("runs/*/*/checkpoints/checkpoints/history.jsonl"), key=os.path.getmtime)
    entries = [json.loads(line) for line in newest.read_text(encoding="utf-8").splitlines()]
    reports = [entry for entry in entries if entry["kind"] == "step" and FIRST <= entry["facts"]["step"] <= LAST]
    seconds = reports[-1]["at"] - reports[0]["at"]
    tokens = sum(_tokens(entry["facts"]) for entry in reports[1:])
    return 1000 * seconds / tokens * 1000, 1000 * seconds / (LAST - FIRST)


def _tokens(facts: Mapping[str, Any]) -> float:
    return float(facts["tokens_per_s"] * facts["seconds_per_step"] * LOG_EVERY)


def _beside_a_cluster(folder: Path, env: Mapping[str, str]) -> tuple[float, float]:
    """The same workload with torchrun for its command: the cluster starts, and nobody uses it."""
    command = shlex.join(["torchrun", *_ranks(STEP_ALONE, folder)])
    given = [f"command={command}", "parameters=null"]
    line = [str(AIR), "run", "-f", str(ROOT / "recipes/sft/train.yaml"), "--watch", "--override", *given]
    return _facts(_output(line, env))


def _ranks(words: Sequence[str], folder: Path) -> list[str]:
    return ["--standalone", "--nproc-per-node", "2", "-m", *words, "--cache", str(folder / "tokens")]


def _output(line: Sequence[str], env: Mapping[str, str]) -> str:
    done = subprocess.run(line, env=dict(env), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{line[0]} ended with code {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def _facts(output: str) -> tuple[float, float]:
    """Milliseconds for 1,000 useful tokens and for a step, of the line that the first process writes at the end."""
    facts = json.loads(re.findall(r"\{.*useful_tokens_per_s.*\}", output)[-1])
    return 1e6 / facts["useful_tokens_per_s"], 1000 * facts["seconds_per_step"]

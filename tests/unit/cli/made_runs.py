"""Runs made by hand, as the store would give them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from airlane.store.paths import RunPaths
from airlane.store.records import (
    Attempt,
    Cause,
    CauseKind,
    EnvironmentRecord,
    GitState,
    LastMetric,
    Limits,
    RunRecord,
    SnapshotRecord,
    Status,
)
from airlane.store.runs import RunView
from airlane.store.states import Phase, State

SUBMITTED = 1_796_034_067.0  # 2026-11-30 10:21:07 UTC
NOW = SUBMITTED + 720

RECORD = RunRecord(
    id="7k2m9q4d",
    experiment_name="ray-train-distributed",
    user="ada",
    submitted_at=SUBMITTED,
    workload_file="/home/ada/train.yaml",
    backend="slurm",
    profile="hpc",
    nodes=2,
    accelerators=16,
    accelerators_per_node=8,
    accelerator_type="GPU_8xH100",
    simulate=False,
    limits=Limits(max_retries=1, timeout_s=None, stop_grace_s=30, straggler_grace_s=300),
    environment=EnvironmentRecord("AI5", ("fsspec>=2024.6.1",), "3.11", "51ac03d2e9"),
    snapshot=SnapshotRecord(
        "a1f3c9e2b7",
        "code",
        142,
        1_200_000,
        GitState("4be2d10aa9", "main", None, dirty=True, changed_files=3),
    ),
)

OUT_OF_MEMORY = Cause(
    CauseKind.EXIT_CODE,
    "node 1 exited with code 1",
    node=1,
    host="gpu-b17",
    exit_code=1,
    after_s=41.2,
    finding="CUDA out of memory",
    log_lines=("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB",),
    hint="a smaller batch size, gradient accumulation, or activation checkpointing",
    collateral_nodes=(0,),
)

HOSTS = ("gpu-b16", "gpu-b17")
URL = "http://127.0.0.1:5000/#/experiments/3/runs/9f2ab31c"


def made_view(
    state: State,
    *,
    phase: Phase | None = None,
    detail: str | None = None,
    attempts: tuple[Attempt, ...] = (),
    cause: Cause | None = None,
    ended_at: float | None = None,
    tracking_error: str | None = None,
    last_metric: LastMetric | None = None,
    **record: Any,
) -> RunView:
    """A run in that state."""
    status = Status(
        state,
        phase,
        detail,
        NOW,
        4242,
        "login1",
        attempts=attempts,
        cause=cause,
        ended_at=ended_at,
        tracking_error=tracking_error,
        last_metric=last_metric,
    )
    made = replace(RECORD, **record)
    return RunView(RunPaths(Path("/fsx/ada/.air/runs/2026-11") / made.id), made, status, None)


def failed() -> RunView:
    """Both attempts of two nodes ran out of memory."""
    first = Attempt(0, SUBMITTED + 5, SUBMITTED + 95, State.FAILED, OUT_OF_MEMORY, HOSTS)
    second = Attempt(1, SUBMITTED + 95, SUBMITTED + 187, State.FAILED, OUT_OF_MEMORY, HOSTS, "9f2ab31c", URL)
    return made_view(State.FAILED, attempts=(first, second), cause=OUT_OF_MEMORY, ended_at=SUBMITTED + 187)


def succeeded() -> RunView:
    """One attempt, done in 12 minutes and 41 seconds."""
    attempt = Attempt(0, SUBMITTED - 50, SUBMITTED + 711, State.SUCCESS, None, HOSTS, "9f2ab31c", URL)
    cause = Cause(CauseKind.COMPLETED, "the command exited with code 0 on every node")
    return made_view(State.SUCCESS, attempts=(attempt,), cause=cause, ended_at=SUBMITTED + 711)


def running() -> RunView:
    """The first attempt goes on."""
    attempt = Attempt(0, NOW - 124, hosts=HOSTS)
    return made_view(State.RUNNING, phase=Phase.RUNNING, attempts=(attempt,), id="7m0c2x1a", experiment_name="sft-qwen")


def queued() -> RunView:
    """Still waiting for its nodes."""
    return made_view(
        State.PENDING,
        phase=Phase.QUEUED,
        detail="2nd in line, 4 of 8 GPUs busy",
        id="7m0d11zz",
        experiment_name="a-very-long-experiment-name-that-would-not-fit-on-a-terminal",
        profile=None,
        backend="local",
        nodes=1,
        accelerators=4,
        accelerator_type="CPU_4xCORE",
    )

"""Airlane's own runs beside a cluster: which are there, and what is known of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from airlane.api import Client
from airlane.launch.ray_settings import CLUSTER
from airlane.store.paths import RunPaths
from airlane.store.records import Attempt, EnvironmentRecord, Limits, RayRecord, RunRecord, Status
from airlane.store.runs import RunView
from airlane.store.states import Phase, State
from airlane.top.runs import AirRuns, compute_words
from airlane.top.values import AirRun

NOW = 10_000.0
RECORD = RunRecord(
    id="7k2m9q4d",
    experiment_name="sft-qwen",
    user="me",
    submitted_at=9_000.0,
    workload_file="train.yaml",
    backend="slurm",
    profile="hpc",
    nodes=2,
    accelerators=16,
    accelerators_per_node=8,
    accelerator_type="GPU_8xH100",
    simulate=False,
    limits=Limits(3, 7200.0, 30.0, 300.0),
    environment=EnvironmentRecord("AI5", (), "3.11", None),
    backend_options={"partition": "gpu", "options": {"x": 1}},
)
RUNNING = Status(
    State.RUNNING, Phase.RUNNING, None, 9_990.0, 1, "host-a", (Attempt(0, 9_400.0),), place="Slurm job 48211"
)


class MadeUpClient:
    """A client with these runs."""

    def __init__(self, *views: RunView) -> None:
        self._views = views

    def list(self, *, limit: int) -> tuple[RunView, ...]:
        return self._views[:limit]


def view(record: RunRecord = RECORD, status: Status | None = RUNNING, root: Path = Path("/none/7k2m9q4d")) -> RunView:
    return RunView(RunPaths(root), record, status, None)


def told(*views: RunView, **named: Any) -> tuple[AirRun, ...]:
    return AirRuns(cast("Client", MadeUpClient(*views)), now=lambda: NOW, **named)()


def test_a_run_tells_its_slurm_job_its_partition_and_the_time_that_is_left() -> None:
    assert told(view()) == (
        AirRun(
            "7k2m9q4d",
            experiment="sft-qwen",
            state="RUNNING",
            started_at=9_400.0,
            compute="16 × H100",
            where="hpc",
            slurm="job 48211 · gpu · 1h 50m left",
        ),
    )


def test_a_run_that_waits_in_the_queue_says_in_which_phase_it_is() -> None:
    waits = replace(RUNNING, state=State.PENDING, phase=Phase.QUEUED, attempts=())
    (run,) = told(view(status=waits))
    assert (run.state, run.phase, run.started_at, run.slurm) == ("PENDING", "queued", None, "job 48211 · gpu")


@pytest.mark.parametrize(("ended_at", "there"), [(NOW - 3599, True), (NOW - 3601, False)])
def test_ended_runs_stay_for_an_hour(ended_at: float, *, there: bool) -> None:
    ended = replace(RUNNING, state=State.FAILED, phase=None, ended_at=ended_at)
    assert bool(told(view(status=ended))) is there


def test_a_run_without_a_limit_or_a_partition_tells_what_it_has() -> None:
    record = replace(RECORD, limits=Limits(3, None, 30.0, 300.0), backend_options={}, profile=None)
    (run,) = told(view(record))
    assert (run.slurm, run.where) == ("job 48211", "slurm")
    assert told(view(record, status=replace(RUNNING, place=None)))[0].slurm is None


@pytest.mark.parametrize(
    ("count", "kind", "words"),
    [(1, "GPU_1xANY", "1 GPU"), (4, "CPU_4xCORE", "4 CPU cores"), (8, "h100_80gb", "8 × H100")],
)
def test_compute_is_in_words(count: int, kind: str, words: str) -> None:
    assert compute_words(replace(RECORD, accelerators=count, accelerator_type=kind)) == words


def test_a_run_whose_job_was_sent_to_this_cluster_is_here() -> None:
    sent = view(status=replace(RUNNING, place="Ray job air-7k2m9q4d on http://10.0.0.1:8265"))
    assert [run.here for run in told(sent, url="http://10.0.0.1:8265/")] == [True]
    assert [run.here for run in told(sent, url="http://10.0.0.2:8265")] == [False]


def test_a_run_whose_cluster_this_is_is_here(tmp_path: Path) -> None:
    own = view(replace(RECORD, ray=RayRecord(None, None, 300.0, public=False)), root=tmp_path)
    assert [run.here for run in told(own, url="http://127.0.0.1:20311")] == [False]
    folder = own.paths.ray(0)
    folder.mkdir(parents=True)
    fields = {"address": "a:1", "client": "a:2", "dashboard": "127.0.0.1:20311", "host": "a", "nodes": []}
    (folder / CLUSTER).write_text(json.dumps({"phase": "ready", **fields}))
    assert [run.here for run in told(own, url="http://127.0.0.1:20311")] == [True]
    named = told(own, url="http://127.0.0.1:9", called="the dashboard of cluster 7k2m9q4d on gpu-b16")
    assert [run.here for run in named] == [True]

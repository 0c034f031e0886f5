"""`air list` with ten thousand runs, beside a Python that reads the newest twenty of them and nothing else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from timing import AIR, Row, environment, interleaved, whole_s

from airlane.store.disk import SystemDisk
from airlane.store.journal import Journal
from airlane.store.paths import Home
from airlane.store.records import Attempt, Cause, CauseKind, EnvironmentRecord, Limits, RunRecord, Status
from airlane.store.runs import RunContent, RunStore
from airlane.store.states import State

RUNS = 10_000
REPETITIONS = 9
READ_TWENTY = """
import json, os, sys
month = max(os.listdir(sys.argv[1]))
folder = os.path.join(sys.argv[1], month)
for name in sorted(os.listdir(folder), reverse=True)[:20]:
    for file in ("run.json", "status.json"):
        with open(os.path.join(folder, name, file)) as text:
            json.load(text)
"""


def rows(folder: Path) -> Iterator[Row]:
    home = Home(folder / "home")
    env = environment(home.root)
    _make_runs(home)
    first_s = whole_s([AIR, "list", "--all-status"], env)
    medians = interleaved(
        REPETITIONS,
        {
            "air": lambda: whole_s([AIR, "list", "--all-status"], env),
            "python": lambda: whole_s([sys.executable, "-c", READ_TWENTY, home.runs], env),
        },
    )
    name = f"air list, {RUNS:,} runs"
    note = f"the first time, without an index: {first_s:.2f} s"
    yield Row(name, medians["air"], "python reading 20", medians["python"], most_s=0.3, note=note)


def _make_runs(home: Home) -> None:
    disk = _QuickDisk()
    store = RunStore(home, disk=disk)
    now = time.time()
    for number in range(RUNS):
        submitted_at = now - 60.0 * (RUNS - number)
        new = store.create(_record(submitted_at), RunContent("experiment_name: made\n", "true\n"))
        os.close(new.lock)
        cause = Cause(CauseKind.COMPLETED, "every node exited with code 0")
        attempt = Attempt(0, submitted_at + 1, submitted_at + 31, State.SUCCESS, cause, ("here",))
        ended_at = submitted_at + 31
        status = Status(State.SUCCESS, None, None, ended_at, 1, "here", (attempt,), cause, ended_at)
        Journal(new.paths, disk).put(status)


class _QuickDisk(SystemDisk):
    """Writes without waiting for the platters: only what is read matters here."""

    def replace(self, path: Path, data: bytes, *, last: bool = False) -> None:
        del last
        path.write_bytes(data)


def _record(submitted_at: float) -> RunRecord:
    return RunRecord(
        id="",
        experiment_name="made",
        user=os.environ.get("USER", "root"),
        submitted_at=submitted_at,
        workload_file="train.yaml",
        backend="local",
        profile=None,
        nodes=1,
        accelerators=1,
        accelerators_per_node=1,
        accelerator_type="CPU_1xCORE",
        simulate=False,
        limits=Limits(3, None, 30.0, 300.0),
        environment=EnvironmentRecord("host", (), "3.11", None),
    )

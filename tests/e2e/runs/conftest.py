"""A home of its own for each test, and the real `air` command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from airlane.api import Client, Run
from airlane.launch.sweep import sweep
from airlane.store.paths import RunPaths
from airlane.store.runs import RunView

AIR = Path(sys.executable).with_name("air")


@dataclass
class Lane:
    """One home under a path that is hard to quote, without tracking."""

    folder: Path
    home: Path = field(init=False)
    env: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.home = self.folder / "a 'home' with \"quotes\" and ünïcode"
        config = self.folder / "config.toml"
        config.write_text('[profiles.local]\ntracking_uri = "none"\nstop_grace_s = 3\n')
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIR_", "MLFLOW_"))}
        self.env = {**kept, "AIR_HOME": str(self.home), "AIR_CONFIG": str(config), "USER": "tester"}

    def workload(self, command: str, **fields: Any) -> Path:
        """A workload file; `nodes` and `cores` say what it runs on."""
        nodes, cores = fields.pop("nodes", 1), fields.pop("cores", 1)
        content = {
            "experiment_name": "test",
            "command": command,
            "environment": {"version": "host"},
            "max_retries": 0,
            "compute": {"num_accelerators": nodes * cores, "accelerator_type": f"CPU_{cores}xCORE"},
            **fields,
        }
        path = self.folder / f"w{time.monotonic_ns()}.yaml"
        path.write_text(json.dumps(content))  # JSON is YAML
        return path

    def air(self, *words: object, timeout_s: float = 60, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        line = [str(AIR), *map(str, words)]
        return subprocess.run(
            line, check=False, env=self.env, capture_output=True, text=True, timeout=timeout_s, **options
        )

    def start(self, *words: object) -> subprocess.Popen[bytes]:
        """Start the command."""
        line = [str(AIR), *map(str, words)]
        return subprocess.Popen(line, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    @property
    def client(self) -> Client:
        return Client(env=self.env, home=self.home)

    def submit(self, workload: Path, *, limits: dict[str, Any] | None = None, simulate: bool = False) -> Run:
        """Submit through the command, or with other limits than a file can say through the library."""
        if limits is None:
            words = ["--simulate"] if simulate else []
            answer = json.loads(self.air("run", "-f", workload, "--json", *words).stdout)
            return self.client.get(answer["data"]["run_id"])
        client = self.client
        plan = client.plan(workload, simulate=simulate)
        record = replace(plan.record, limits=replace(plan.record.limits, **limits))
        return client.submit(replace(plan, record=record))


def wait_until(true: Callable[[], bool], *, within_s: float, what: str) -> None:
    """Fail if it does not come true in time."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.02)


def ended(run: Run, *, within_s: float = 30) -> RunView:
    """The run's end."""
    wait_until(lambda: run.view().state.terminal, within_s=within_s, what=f"run {run.id} ends")
    return run.view()


def processes_of(run_id: str) -> list[str]:
    """The command lines of everything alive that belongs to a run: by its environment, or by its folder in argv."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ, line = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
            zombie = ") Z " in (entry / "stat").read_text()
        except OSError:
            continue
        marked = f"AIR_RUN_ID={run_id}".encode() in environ.split(b"\0") or f"/{run_id}/".encode() in line
        if marked and not zombie:
            found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


def supervisor_pid(paths: RunPaths) -> int:
    """The process that holds the run's lock, as its status tells."""
    wait_until(paths.status.exists, within_s=10, what="a status")
    return int(json.loads(paths.status.read_text())["supervisor_pid"])


def kill(pid: int) -> None:
    """SIGKILL, harmless if it is gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[Lane]:
    made = Lane(tmp_path)
    yield made
    for paths in made.client._store.ids():
        if paths.status.exists():
            view = made.client.get(paths.id).view()
            if not view.state.terminal:
                kill(supervisor_pid(paths))
        sweep(paths.id)

"""One home for the tests of `air ray` and of `ray:`; without tracking."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ray_fixtures import share_environment

AIR = Path(sys.executable).with_name("air")


@dataclass(frozen=True)
class Bench:
    """Runs and clusters in a home of their own. Its path has no space: Ray cannot start workers from below one."""

    home: Path

    @property
    def env(self) -> dict[str, str]:
        left_out = ("AIR_", "MLFLOW_", "RAY_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
        return {**kept, "AIR_HOME": str(self.home), "AIR_CONFIG": str(self.home / "config.toml")}

    def air(self, *words: str, timeout_s: float = 120, **options: Any) -> subprocess.CompletedProcess[str]:
        line = [str(AIR), *words]
        return subprocess.run(
            line, check=False, env=self.env, capture_output=True, text=True, timeout=timeout_s, **options
        )

    def answer(self, *words: str, timeout_s: float = 120) -> dict[str, Any]:
        """What a command says with --json."""
        done = self.air(*words, "--json", timeout_s=timeout_s)
        content = json.loads(done.stdout)
        assert "data" in content, content
        data: dict[str, Any] = content["data"]
        return data

    def up(self, *words: str) -> dict[str, Any]:
        """A cluster that is ready."""
        cluster = self.answer("ray", "up", *words, timeout_s=600)
        assert cluster.get("ready"), cluster
        return cluster

    def submit(self, command: str, **fields: Any) -> str:
        """The id of a run with `ray`."""
        content = {
            "experiment_name": "ray-test",
            "command": command,
            "environment": {"version": "AI5"},
            "compute": {"num_accelerators": 2, "accelerator_type": "CPU_1xCORE"},
            "max_retries": 0,
            "ray": {},
            **fields,
        }
        path = self.home / f"w{time.monotonic_ns()}.yaml"
        path.write_text(json.dumps(content))  # JSON is YAML
        return str(self.answer("run", str(path))["run_id"])

    def view(self, run_id: str) -> dict[str, Any]:
        return self.answer("get", "run", run_id)

    def ended(self, run_id: str, *, within_s: float) -> dict[str, Any]:
        wait_until(
            lambda: self.view(run_id)["status"] not in ("PENDING", "RUNNING"), within_s=within_s, what=f"{run_id} ends"
        )
        return self.view(run_id)

    def cluster_folder(self, run_id: str) -> Path:
        return next(self.home.glob(f"runs/*/{run_id}/attempts/0/ray"))

    def log(self, run_id: str, node: int = 0) -> str:
        file = next(self.home.glob(f"runs/*/{run_id}/attempts/0/nodes/{node}.log"), None)
        return file.read_text() if file is not None else ""

    def environment(self) -> Path:
        """The folder of the environment that the clusters run in."""
        return next(path.parent for path in self.home.glob("environments/*/pyvenv.cfg"))


def wait_until(true: Callable[[], bool], *, within_s: float, what: str) -> None:
    """Fail if it does not come true in time."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.05)


def pids_of(run_id: str, part: str = "", node: int | None = None) -> list[int]:
    """The processes that belong to a run, those alone whose command line has `part`, on one node if given."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            variables, line = (entry / "environ").read_bytes().split(b"\0"), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        on_node = node is None or f"NODE_RANK={node}".encode() in variables
        if f"AIR_RUN_ID={run_id}".encode() in variables and on_node and part.encode() in line:
            found.append(int(entry.name))
    return found


def left_of(run_id: str) -> list[str]:
    """What is left of a run outside its folder: processes and temporary folders."""
    return [f"pid {pid}" for pid in pids_of(run_id)] + [str(path) for path in Path("/tmp").glob(f"*{run_id}*")]


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory, ray_environment: Path) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("ray") / "ünïcode")
    made.home.mkdir()
    share_environment(ray_environment, made.home)
    (made.home / "config.toml").write_text('[profiles.local]\ntracking_uri = "none"\nstop_grace_s = 20\n')
    yield made
    made.air("cancel", "--all", "--yes")


@pytest.fixture(autouse=True)
def nothing_left(bench: Bench) -> Iterator[None]:
    """Every cluster of a test is gone after it, whatever the test did."""
    yield
    bench.air("ray", "down", "--all", "--yes")

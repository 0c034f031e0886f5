"""A home on the lab's shared file system, and the real `air` command with profiles of the lab."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airlane.store.paths import RunPaths
from lab.cluster import Lab
from lab.processes import PROC

AIR = Path(sys.executable).with_name("air")
SILENCE_S = 5
GRACE_S = 2


class SlurmRuns:
    """Runs of one home on one lab. `facts` of a run are what `air get --json` tells."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.home = folder / "a 'home' with ünïcode"
        self._profiles: dict[str, dict[str, Any]] = {}
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIR_", "MLFLOW_", "SLURM_"))}
        self.env = {**kept, **lab.env, "AIR_CONFIG": str(folder / "config.toml"), "USER": "tester"}
        self.profile("lab")

    def profile(self, name: str, **keys: Any) -> str:
        """Adds a profile, or changes one; its name."""
        common = {"backend": "slurm", "home": str(self.home), "tracking_uri": "none", "stop_grace_s": GRACE_S}
        self._profiles[name] = {**common, "silence_s": SILENCE_S, **keys}
        lines = []
        for each, values in self._profiles.items():
            lines += [f"[profiles.{each}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        (self.folder / "config.toml").write_text("\n".join(lines), encoding="utf-8")
        return name

    def workload(self, command: str, *, nodes: int = 2, cores: int = 1, **fields: Any) -> Path:
        content = {
            "experiment_name": "test",
            "command": command,
            "environment": {"version": "host"},
            "max_retries": 0,
            "compute": {"num_accelerators": nodes * cores, "accelerator_type": f"CPU_{cores}xCORE"},
            **fields,
        }
        path = self.folder / f"w{time.monotonic_ns()}.yaml"
        path.write_text(json.dumps(content), encoding="utf-8")  # JSON is YAML
        return path

    def air(
        self, *words: object, env: Mapping[str, str] | None = None, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command to its end, whatever that is."""
        line = [str(AIR), *map(str, words)]
        whole = {**self.env, **(env or {})}
        return subprocess.run(
            line, env=whole, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=timeout_s
        )

    def submit(self, command: str, *, profile: str = "lab", env: Mapping[str, str] | None = None, **fields: Any) -> str:
        """Submits a workload; the run's id."""
        done = self.air("run", "-p", profile, "-f", self.workload(command, **fields), "--json", env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return str(json.loads(done.stdout)["data"]["run_id"])

    def facts(self, run_id: str) -> dict[str, Any]:
        done = self.air("get", run_id, "-p", "lab", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(done.stdout)["data"])

    def paths(self, run_id: str) -> RunPaths:
        (folder,) = self.home.glob(f"runs/*/{run_id}")
        return RunPaths(folder)

    def job(self, run_id: str) -> int:
        """The run's latest Slurm job."""
        slurm = self.paths(run_id).slurm
        records = sorted(slurm.glob("*.json"), key=lambda record: int(record.stem))
        return int(json.loads(records[-1].read_text(encoding="utf-8"))["job"])

    def ended(self, run_id: str, *, within_s: float) -> dict[str, Any]:
        """The facts of the run when it has ended; nothing of it is left in Slurm or on any node."""
        facts: dict[str, Any] = {}

        def terminal() -> bool:
            facts.update(self.facts(run_id))
            return facts["status"] not in ("PENDING", "RUNNING")

        wait_until(terminal, within_s=within_s, what=f"run {run_id} ends: {facts}")
        wait_until(lambda: not self.queue(run_id), within_s=30, what=f"run {run_id} leaves Slurm's queue")
        wait_until(lambda: processes_of(run_id) == [], within_s=10, what=f"no process: {processes_of(run_id)}")
        return facts

    def queue(self, run_id: str) -> list[str]:
        """The jobs of the run that Slurm has not ended."""
        comment = f"airlane run {run_id}"
        lines = self.lab.run(["squeue", "-h", "-o", "%A|%T|%k"], check=False).stdout.splitlines()
        return [line for line in lines if line.endswith(comment)]

    def log(self, run_id: str, *, attempt: int = 0, node: int = 0) -> str:
        log = self.paths(run_id).log(attempt=attempt, node=node)
        return log.read_text(encoding="utf-8") if log.exists() else ""

    def await_log(self, run_id: str, words: str, *, attempt: int = 0, nodes: int = 2, within_s: float = 30) -> None:
        """Waits until every node of the attempt has logged something."""
        wait_until(
            lambda: all(words in self.log(run_id, attempt=attempt, node=node) for node in range(nodes)),
            within_s=within_s,
            what=f"{words!r} in the logs of attempt {attempt} of {run_id}",
        )

    def hosts(self, run_id: str, *, attempt: int = -1) -> list[str]:
        return list(self.facts(run_id)["attempts"][attempt]["hosts"])


def wait_until(true: Callable[[], bool], *, within_s: float, what: str) -> None:
    """Fails if it does not come true in time."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.05)


def processes_of(run_id: str) -> list[str]:
    """Everything alive of a run, on any machine of the lab: by its environment, or by its id in argv."""
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            environ, line = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
            zombie = ") Z " in (entry / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        of_run = f"AIR_RUN_ID={run_id}".encode() in environ.split(b"\0") or f"/{run_id}".encode() in line
        if of_run and not zombie:
            found.append(f"{entry.name} {line.replace(bytes(1), b' ').decode(errors='replace')}")
    return found

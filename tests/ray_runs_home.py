"""A home whose profile sends runs to a Ray cluster that is there already."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ray_lab import RayLab

AIR = Path(sys.executable).with_name("air")


@dataclass(frozen=True)
class RayRunsHome:
    """Runs on a lab, under a home of their own."""

    home: Path
    lab: RayLab
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        left_out = ("AIR_", "MLFLOW_", "RAY_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
        own = {"AIR_HOME": str(self.home), "AIR_CONFIG": str(self.home / "config.toml"), "AIR_PROFILE": "ray"}
        return {**kept, **own, **self.variables}

    def configure(self, **options: object) -> None:
        """The profile, with these options beside the address and the token."""
        fields: dict[str, object] = {"backend": "ray", "address": self.lab.url}
        fields |= {"tracking_uri": "none", "stop_grace_s": 10}
        if self.lab.token_file is not None:
            fields["token_file"] = str(self.lab.token_file)
        fields |= options
        lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items() if value is not None]
        here = ["", "[profiles.here]", 'backend = "local"', 'tracking_uri = "none"', ""]
        text = "\n".join(["[profiles.ray]", *lines, *here])
        (self.home / "config.toml").write_text(text)

    def air(self, *words: str, timeout_s: float = 300, **options: Any) -> subprocess.CompletedProcess[str]:
        line = [str(AIR), *words]
        return subprocess.run(
            line, check=False, env=self.env, capture_output=True, text=True, timeout=timeout_s, **options
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command that goes on while the test does."""
        return subprocess.Popen(
            [str(AIR), *words], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def answer(self, *words: str, timeout_s: float = 300) -> dict[str, Any]:
        """What a command says with --json."""
        done = self.air(*words, "--json", timeout_s=timeout_s)
        content = json.loads(done.stdout)
        assert "data" in content, content
        data: dict[str, Any] = content["data"]
        return data

    def workload(self, command: str, *, nodes: int = 2, **fields: Any) -> Path:
        content = {
            "experiment_name": "on-ray",
            "command": command,
            "environment": {"version": "AI5"},
            "compute": {"num_accelerators": nodes, "accelerator_type": "CPU_1xCORE"},
            "max_retries": 0,
            **fields,
        }
        path = self.home / f"w{time.monotonic_ns()}.yaml"
        path.write_text(json.dumps(content))  # JSON is YAML
        return path

    def submit(self, command: str, *, nodes: int = 2, **fields: Any) -> str:
        """The id of a run."""
        return str(self.answer("run", str(self.workload(command, nodes=nodes, **fields)))["run_id"])

    def view(self, run_id: str) -> dict[str, Any]:
        return self.answer("get", "run", run_id)

    def ended(self, run_id: str, *, within_s: float = 120) -> dict[str, Any]:
        def over() -> bool:
            return self.view(run_id)["status"] not in ("PENDING", "RUNNING")

        wait_until(over, within_s=within_s, what=f"{run_id} ends", every_s=0.5)  # each look is a process
        return self.view(run_id)

    def folder(self, run_id: str) -> Path:
        return next(self.home.glob(f"runs/*/{run_id}"))

    def log(self, run_id: str, node: int = 0, attempt: int = 0) -> str:
        """What has come home of a node's log."""
        file = self.folder(run_id) / "attempts" / str(attempt) / "nodes" / f"{node}.log"
        return file.read_text() if file.exists() else ""

    def await_log(self, run_id: str, words: str, *, node: int = 0, within_s: float = 90) -> None:
        wait_until(lambda: words in self.log(run_id, node), within_s=within_s, what=f"{words!r} in the log of {run_id}")


def wait_until(true: Callable[[], bool], *, within_s: float, what: str, every_s: float = 0.1) -> None:
    """Fail if it does not come true in time."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(every_s)

"""Runs with Ray and Ray clusters on the lab, bare or in containers; they share one home and one environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lab.cluster import Lab
from lab.slurm_runs import SlurmRuns

BOXED = "boxed"
DRIVER = 'import ray; ray.init(logging_level="error"); print("cpus", int(ray.cluster_resources()["CPU"]))'


class RayRuns(SlurmRuns):
    """Profiles "lab", where commands run in the environment, and BOXED, where they run in containers of Docker."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        super().__init__(lab, folder)
        self.home = folder / "home"  # Ray cannot start workers from below a folder with a space
        self.profile("lab", silence_s=30)
        self.answer("env", "build", str(self.workload("true", environment={"version": "AI5"})), timeout_s=600)
        self.python = next(self.home.glob("environments/*/bin/python"))
        # Ray, and the Python it is for, are mounted into the small image: one that brings them takes minutes to load.
        environment = self.python.parents[1]
        self.profile(
            BOXED,
            silence_s=30,
            container="docker",
            mounts=[f"{folder}:{folder}:ro" for folder in (environment, sys.base_prefix)],
            container_args=["--env", f"PATH={environment / 'bin'}:/usr/bin"],
        )

    def answer(self, *words: str, profile: str = "lab", timeout_s: float = 120) -> dict[str, Any]:
        """What a command says with --json."""
        done = self.air(*words, "-p", profile, "--json", timeout_s=timeout_s)
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(done.stdout)["data"])

    def up(self, *words: str, profile: str = "lab") -> dict[str, Any]:
        """A cluster that is ready."""
        return self.answer("ray", "up", *words, profile=profile, timeout_s=600)

    def submit_ray(self, command: str, *, profile: str = "lab", **fields: Any) -> str:
        """The id of a run with `ray`."""
        return self.submit(command, profile=profile, **{"environment": {"version": "AI5"}, "ray": {}, **fields})

"""One home for all examples, so that their environment is built and the MLflow server started once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

AIR = Path(sys.executable).with_name("air")
EXAMPLES = Path(__file__).parents[3] / "examples"


@dataclass(frozen=True)
class Bench:
    """Runs examples in a home of their own.

    Its path has no space and no quote: Ray cannot start its workers from an environment below one that has.
    """

    home: Path

    def air(self, *words: str, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIR_", "MLFLOW_"))}
        env = {**kept, "AIR_HOME": str(self.home), "AIR_CONFIG": str(self.home / "config.toml")}
        line = [str(AIR), *words]
        return subprocess.run(line, check=False, env=env, capture_output=True, text=True, timeout=timeout_s)

    def watch(self, example: str, *words: str, timeout_s: float = 240) -> list[str]:
        """Run an example to its end, which must be a success; returns the lines it printed."""
        done = self.air("run", "-f", str(EXAMPLES / example), "--watch", *words, timeout_s=timeout_s)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    def last(self) -> dict[str, Any]:
        """What `air get` says of the newest run."""
        answer = json.loads(self.air("get", "run", "@last", "--json").stdout)
        data: dict[str, Any] = answer["data"]
        return data

    def recorded(self, metric: str) -> list[tuple[int, float]]:
        """The steps and values of a metric of the newest run, as MLflow has them."""
        server, _, run = self.last()["mlflow_url"].partition("/#/")
        address = f"{server}/api/2.0/mlflow/metrics/get-history?run_id={run.rpartition('/')[2]}&metric_key={metric}"
        with urlopen(address, timeout=30) as answer:  # noqa: S310 - the server that Airlane started
            return [(point["step"], point["value"]) for point in json.load(answer)["metrics"]]


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("examples") / "ünïcode")
    made.home.mkdir()
    (made.home / "config.toml").touch()
    yield made
    made.air("ui", "--stop")


def processes_of(run_id: str) -> list[str]:
    """The command lines of everything alive that belongs to a run."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            variables, line = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if f"AIR_RUN_ID={run_id}".encode() in variables.split(b"\0"):
            found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found

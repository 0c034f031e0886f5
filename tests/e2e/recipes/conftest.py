"""One home for all recipes: their environment, which has pytest too, is built once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

AIR = Path(sys.executable).with_name("air")
ROOT = Path(__file__).parents[3]
DEPENDENCIES = ("pytest", "pytest-timeout")
SAME_ENVIRONMENT = f"environment.dependencies={json.dumps(DEPENDENCIES)}"

GENERATE = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
model, tokenizer = AutoModelForCausalLM.from_pretrained(sys.argv[1]), AutoTokenizer.from_pretrained(sys.argv[1])
ids = tokenizer.apply_chat_template([{"role": "user", "content": "What does len() do?"}], add_generation_prompt=True,
                                    return_tensors="pt", return_dict=True)
print(model.generate(**ids, max_new_tokens=8, do_sample=False).shape[1] - ids["input_ids"].shape[1])
"""


@dataclass(frozen=True)
class Recipes:
    """Runs recipes, and the tests that need their environment."""

    home: Path

    @property
    def variables(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIR_", "MLFLOW_", "RAY_"))}
        own = {"AIR_HOME": str(self.home), "AIR_CONFIG": str(self.home / "config.toml")}
        return kept | own | {"XDG_CACHE_HOME": str(self.home / "cache")}

    @property
    def python(self) -> Path:
        """Of the environment that all recipes have; it is built with the first use."""
        workload = self.home / "workload.yaml"
        content = {
            "experiment_name": "environment", "command": "true",
            "compute": {"num_accelerators": 1, "accelerator_type": "CPU_1xCORE"},
            "environment": {"version": "AI5", "dependencies": DEPENDENCIES},
        }  # fmt: skip
        workload.write_text(json.dumps(content))  # JSON is YAML
        return Path(self.answer("env", "build", str(workload), timeout_s=600)["folder"], "bin", "python")

    def air(self, *words: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        line = [str(AIR), *words]
        return subprocess.run(line, check=False, env=self.variables, capture_output=True, text=True, timeout=timeout_s)

    def answer(self, *words: str, timeout_s: float = 60) -> dict[str, Any]:
        """What a command says with --json."""
        done = self.air(*words, "--json", timeout_s=timeout_s)
        assert done.returncode == 0, done.stdout + done.stderr
        data: dict[str, Any] = json.loads(done.stdout)["data"]
        return data

    def run(self, file: str, *overrides: str) -> str:
        """Start a recipe; returns the id of its run."""
        words = ["run", "-f", str(ROOT / file), "--override", SAME_ENVIRONMENT, *overrides]
        run_id: str = self.answer(*words)["run_id"]
        return run_id

    def watch(self, file: str, *overrides: str, timeout_s: float) -> list[str]:
        """Run a recipe to its end, which must be a success; returns the lines it printed."""
        changed = ["--override", *overrides] if overrides else []
        done = self.air("run", "-f", str(ROOT / file), "--watch", *changed, timeout_s=timeout_s)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    def view(self, run_id: str) -> dict[str, Any]:
        return self.answer("get", "run", run_id)

    def checkpoints(self, run_id: str) -> Path:
        """The folder that the run saves to."""
        return next(folder / "checkpoints" for folder in self.home.glob(f"runs/*/{run_id}"))

    def history(self, run_id: str) -> list[dict[str, Any]]:
        """What a training has told of itself, without lines that are being written."""
        file = self.checkpoints(run_id) / "checkpoints" / "history.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def tracked(self, of_run: str, what: str, **query: str) -> dict[str, Any]:
        """What MLflow answers about the newest attempt of a run."""
        server, _, run = self.view(of_run)["mlflow_url"].partition("/#/")
        words = urlencode({"run_id": run.rpartition("/")[2], **query})
        with urlopen(f"{server}/api/2.0/mlflow/{what}?{words}", timeout=30) as answer:  # noqa: S310 - Airlane's server
            found: dict[str, Any] = json.load(answer)
        return found

    def metric(self, run_id: str, name: str) -> dict[int, float]:
        """The values of a metric, by step."""
        points = self.tracked(run_id, "metrics/get-history", metric_key=name)["metrics"]
        return {int(point["step"]): point["value"] for point in points}


def losses(history: Sequence[dict[str, Any]]) -> dict[int, float]:
    """The training loss of each step."""
    return {entry["facts"]["step"]: entry["facts"]["loss"] for entry in history if entry["kind"] == "step"}


def assert_generates(python: Path, model: Path) -> None:
    """Fails unless transformers loads the model, and it answers."""
    line = [str(python), "-c", GENERATE, str(model)]
    done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert 1 <= int(done.stdout) <= 8


@pytest.fixture(scope="session")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recipes]:
    made = Recipes(tmp_path_factory.mktemp("recipes") / "ünïcode")  # no space: Ray starts no workers from below one
    made.home.mkdir()
    (made.home / "config.toml").touch()
    yield made
    made.air("ui", "--stop")


@pytest.fixture(scope="session")
def python(recipes: Recipes) -> Path:
    return recipes.python

"""Trainings on a Ray cluster that is there already: the example as it is, on one node and on two, and a recipe."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from house.repository import ROOT

from .conftest import AIR, RayRunsHome, wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

EXAMPLE = ROOT / "examples" / "ray-train" / "train.yaml"
RECIPE = ROOT / "recipes" / "sft" / "train.yaml"
FEWER_STEPS = ("parameters.training.steps=40", "parameters.training.eval_every=20", "parameters.data.limit=2000")


def losses(said: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"^step +\d+/\d+  loss ([\d.]+)", said, re.MULTILINE)]


def test_the_training_example_learns_on_two_nodes_and_each_node_is_read_live_and_after(runs: RayRunsHome) -> None:
    watching = runs.start("run", "-f", str(EXAMPLE), "--watch", "--override", "compute.num_accelerators=4")
    run_id = _submitted(runs)
    runs.await_log(run_id, "joined the Ray cluster", node=1, within_s=300)
    live = subprocess.run(
        ["timeout", "5", str(AIR), "logs", run_id, "--node", "1"],
        check=False,
        env=runs.env,
        capture_output=True,
        text=True,
    )
    assert "joined the Ray cluster" in live.stdout
    said = watching.communicate(timeout=1500)[0]
    assert watching.returncode == 0, said
    found = losses(said)
    assert found[-1] < found[0]
    assert runs.view(run_id)["status"] == "SUCCESS"
    assert "joined the Ray cluster" in runs.air("logs", run_id, "--node", "1").stdout


def test_the_training_example_learns_as_it_is(runs: RayRunsHome) -> None:
    done = runs.air("run", "-f", str(EXAMPLE), "--watch", timeout_s=1500)
    assert done.returncode == 0, done.stderr
    found = losses(done.stdout)
    assert found[-1] < 0.8 * found[0]


def test_the_recipe_learns_on_two_nodes_and_leaves_its_model_where_all_share_it(
    runs: RayRunsHome, tmp_path: Path
) -> None:
    runs.configure(storage=str(tmp_path / "storage"))
    words = ("compute.num_accelerators=4", *FEWER_STEPS)
    done = runs.air("run", "-f", str(RECIPE), "--watch", "--override", *words, timeout_s=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = (tmp_path / "storage").rglob("summary.json")
    summary = json.loads(file.read_text(encoding="utf-8"))
    assert (summary["reason"], summary["step"], summary["workers"]) == ("completed", 40, 4)
    model = Path(summary["model_path"])
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {file.name for file in model.iterdir()}


def _submitted(runs: RayRunsHome) -> str:
    """The id of the only run, once it is on the cluster."""
    found: list[Path] = []

    def there() -> bool:
        found[:] = [path.parents[1] for path in runs.home.glob("runs/*/*/ray/mirror.log")]
        return bool(found)

    wait_until(there, within_s=120, what="the run is submitted")
    return found[0].name

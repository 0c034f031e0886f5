"""Trainings on a real Ray cluster that end in every way, as a user sees them."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .recipe_process import Recipe, ray_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray with two CPUs."""
    script = (
        "import ray, sys; ray.init(address='local', num_cpus=2, include_dashboard=False, logging_level='error');"
        "print(ray.get_runtime_context().gcs_address, flush=True); sys.stdin.read()"
    )
    with ray_cluster(script, tmp_path_factory.mktemp("ray") / "log") as (address, _):
        yield address


@pytest.fixture(scope="module")
def uninterrupted(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    recipe = Recipe(tmp_path_factory.mktemp("whole"), cluster)
    assert recipe.wait() == 0, recipe.lines
    return recipe


def test_a_training_is_shown_and_summed_up(uninterrupted: Recipe) -> None:
    lines = uninterrupted.lines
    assert lines[0] == "2 parameters, 20 steps, 2 workers (CPU)"
    assert lines[1] == "step  1/20  loss 7.628  lr 5.0e-02  grad 1.00  10 tokens/s  eta 0.2s"
    assert lines[-1] == (
        f"summary and plot of the loss: {uninterrupted.checkpoints}/summary.md, {uninterrupted.checkpoints}/loss.png"
    )
    assert "completed after step 20" in lines
    assert [line for line in lines[2:] if not re.match(r"step |at |Where |$|completed |summary ", line)] == []

    summary = json.loads((uninterrupted.checkpoints / "summary.json").read_text())
    assert (summary["reason"], summary["step"], summary["resumed_after"]) == ("completed", 20, [])
    assert (uninterrupted.checkpoints / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_an_elastic_training_starts_with_the_workers_that_have_room(cluster: str, tmp_path: Path) -> None:
    # How many is Ray's to say: of what a training has reserved that has just ended, it may keep some for minutes.
    words = ("cluster.workers=4", "cluster.min_workers=1", "training.steps=5")
    recipe = Recipe(tmp_path, cluster, *words)
    assert recipe.wait() == 0, recipe.lines
    assert re.fullmatch(r"2 parameters, 5 steps, (1 worker|2 workers) \(CPU\)", recipe.lines[0])
    assert "completed after step 5" in recipe.lines


@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_killed_worker_costs_the_steps_since_the_last_checkpoint_and_nothing_else(
    cluster: str, uninterrupted: Recipe, tmp_path: Path, rank: int
) -> None:
    recipe = Recipe(tmp_path, cluster, "training.fail=kill", f"training.fail_rank={rank}", "training.step_s=0.02")
    assert recipe.wait() == 0, recipe.lines
    assert recipe.answer == uninterrupted.answer
    assert recipe.losses() == uninterrupted.losses()
    (death,) = [line for line in recipe.lines if "died" in line]
    assert re.fullmatch(
        rf"worker {rank} on [\d.]+ \(pid \d+\) died: its process was killed or crashed; often for want of memory", death
    )
    assert "starting again from the last checkpoint (1 of 3)" in recipe.lines
    assert "continuing after step 5" in recipe.lines
    assert json.loads((recipe.checkpoints / "summary.json").read_text())["resumed_after"] == [5]


@pytest.mark.long
def test_a_worker_that_dies_again_and_again_is_given_up(cluster: str, tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, cluster, "training.fail=kill", "training.fail_always=true", "cluster.max_failures=1")
    assert recipe.wait() == 1
    assert "given up after 2 failures in a row (cluster.max_failures)" in recipe.lines
    assert json.loads((recipe.checkpoints / "summary.json").read_text())["reason"] == "failed"


def test_refused_data_is_told_as_it_is_and_not_tried_again(cluster: str, tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, cluster, "training.fail=refuse", "training.fail_rank=1")
    assert recipe.wait() == 2
    told = recipe.lines[recipe.lines.index("rows.jsonl:7: not a number") :]
    assert told[1] == "Mend the row"
    assert len([line for line in told if not line.startswith(("step ", "summary "))]) == 2, told
    assert not [line for line in recipe.lines if "Traceback" in line]


@pytest.mark.long
def test_an_error_of_the_program_is_told_with_its_place_once(cluster: str, tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, cluster, "training.fail=mistake")
    assert recipe.wait() == 1
    assert [line for line in recipe.lines if re.fullmatch(r"worker 0 on [\d.]+ failed", line)]
    assert recipe.output.read_text().count("Traceback (most recent call last)") == 1
    assert "KeyError: 'mistake'" in recipe.lines
    assert not [line for line in recipe.lines if "starting again" in line]


def test_sigterm_saves_and_ends_and_the_next_attempt_goes_on(uninterrupted: Recipe, tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, None, "training.step_s=0.3")  # in a cluster of its own
    recipe.wait_for("step  7/20")
    recipe.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert recipe.wait() == 143
    assert time.monotonic() - began < 20
    assert "asked to end (SIGTERM): saving after this step" in recipe.lines
    stopped = next(line for line in recipe.lines if line.startswith("stopped as asked after step "))
    step = int(stopped.split()[-1])

    again = Recipe(tmp_path, None)
    assert again.wait() == 0, again.lines
    assert f"continuing after step {step}" in again.lines
    assert again.answer == uninterrupted.answer
    assert again.losses() == uninterrupted.losses()


@pytest.mark.long
def test_before_the_first_step_sigterm_ends_at_once(cluster: str, tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, cluster, "training.fail=hang", "training.fail_at=1")
    recipe.wait_for("2 parameters")
    recipe.process.send_signal(signal.SIGINT)
    recipe.process.wait(40)
    assert recipe.process.returncode == 130


@pytest.mark.long
def test_a_killed_driver_leaves_what_the_next_attempt_needs(
    cluster: str, uninterrupted: Recipe, tmp_path: Path
) -> None:
    recipe = Recipe(tmp_path, cluster, "training.step_s=0.2")
    recipe.wait_for("step 12/20")
    recipe.process.kill()
    recipe.process.wait()
    again = Recipe(tmp_path, cluster)
    assert again.wait() == 0, again.lines
    assert "continuing after step 10" in again.lines
    assert again.losses() == uninterrupted.losses()
    assert again.answer == uninterrupted.answer


def test_more_workers_than_have_room_are_refused(cluster: str, tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, cluster, "cluster.workers=8")
    assert recipe.wait() == 2
    assert recipe.lines[0] == "cluster.workers=8: the cluster has room for 2 (2 CPUs, 1 CPUs for each worker)"


def test_an_address_where_no_ray_is_says_so(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, "127.0.0.1:9")
    assert recipe.wait() == 2
    assert "no Ray cluster can be joined at $RAY_ADDRESS, 127.0.0.1:9: [Errno 111]" in recipe.output.read_text()
    assert recipe.lines[-1] == "Without RAY_ADDRESS the training starts a cluster on this machine"

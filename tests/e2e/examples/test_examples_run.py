"""Every example, run as its first lines tell a newcomer to."""

from __future__ import annotations

import re
import time

import pytest

from .conftest import Bench, processes_of

STEP = re.compile(r"step +(\d+)/(\d+)  loss (\d+\.\d+)  lr ")


def losses(lines: list[str]) -> list[tuple[int, float]]:
    """The steps that a training printed, and their losses."""
    return [(int(found[1]), float(found[3])) for found in map(STEP.match, lines) if found]


def assert_nothing_is_left(run_id: str) -> None:
    deadline = time.monotonic() + 3
    while left := processes_of(run_id):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_hello_shows_the_variables_of_its_node(bench: Bench) -> None:
    lines = bench.watch("hello/hello.yaml")
    run_id = bench.last()["run_id"]
    assert lines[:2] == [f"hello from run {run_id}, attempt 0", "node 0 of 1, with 1 of 1 accelerators"]


def test_parameters_come_from_the_file_and_can_be_overridden(bench: Bench) -> None:
    first = bench.watch("parameters/parameters.yaml")
    assert first[0] == "steps 50  {'learning_rate': 0.1, 'momentum': 0.8}"
    second = bench.watch("parameters/parameters.yaml", "--override", "parameters.optimizer.learning_rate=0.5")
    assert second[0] == "steps 50  {'learning_rate': 0.5, 'momentum': 0.8}"
    assert second[-1] != first[-1]


def test_a_program_to_begin_with_takes_parameters_and_saves(bench: Bench) -> None:
    lines = bench.watch("command/train.yaml", "--override", "parameters.steps=75")
    assert lines[0] == "75 steps at 0.1, of which 0 are done"
    assert [line[:9] for line in lines[1:]] == ["step   50", "step   75"]


def test_the_second_attempt_counts_on_from_the_first_ones_checkpoint(bench: Bench) -> None:
    lines = bench.watch("checkpoint-resume/resume.yaml")
    assert "starting at block 5 with 2762 primes" in lines
    assert lines[-1] == "block 9  5133 primes below 50000"  # pi(50000)
    before = bench.air("logs", "@last", "--retry", "0").stdout.splitlines()
    assert (before[0], before[-1]) == ("starting at block 0 with 0 primes", "the power went out")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_torch_ddp_learns_on_two_nodes(bench: Bench) -> None:
    lines = bench.watch("torch-ddp/train.yaml", timeout_s=500)
    assert "2 processes on cpu" in lines
    correct = re.fullmatch(r"epoch 30/30  loss .*  ([\d.]+)% correct", lines[-1])
    assert correct is not None
    assert float(correct[1]) > 95


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ray_train_learns_reports_to_mlflow_and_leaves_nothing_behind(bench: Bench) -> None:
    shown = losses(bench.watch("ray-train/train.yaml", timeout_s=1100))
    run = bench.last()
    assert_nothing_is_left(run["run_id"])
    assert [step for step, _ in shown] == [1, *range(10, 130, 10)]
    assert shown[-1][1] < 0.6 * shown[0][1]
    assert [(step, round(loss, 3)) for step, loss in bench.recorded("loss")] == shown


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.long
def test_ray_train_joins_two_nodes_of_one_host_and_both_end_with_it(bench: Bench) -> None:
    two_nodes = ("compute.accelerator_type=CPU_1xCORE", "parameters.steps=10")
    lines = bench.watch("ray-train/train.yaml", "--override", *two_nodes, timeout_s=1100)
    assert lines[0].startswith("Ray cluster ready at ")
    assert lines[0].endswith(": 2 nodes, 2 CPUs")
    assert [step for step, _ in losses(lines)] == [1, 10]
    run = bench.last()
    assert_nothing_is_left(run["run_id"])
    assert run["attempt_number"] == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ray_bootstrap_counts_on_two_nodes(bench: Bench) -> None:
    lines = bench.watch("ray-bootstrap/count.yaml", timeout_s=500)
    assert lines[-1] == "7837 primes below 80000, counted by a cluster of 2 nodes"  # pi(80000)
    assert_nothing_is_left(bench.last()["run_id"])

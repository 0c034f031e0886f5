"""What is made of the nodes' answers to a look at them, and what a node looks at."""

from __future__ import annotations

from pathlib import Path

import pytest

from airlane.backends.slurm.preflight import Unfit, preflight_command, read_answers
from airlane.launch import preflight

ANSWERS = """\
0: {"host": "gpu1", "problems": []}
srun: error: gpu3: task 2: Exited with exit code 1
1: {"host": "gpu2", "problems": ["the driver shows 7 GPUs (granted: 8)", "cuda:3 multiplies wrongly"]}
"""


def test_every_node_that_is_not_fit_is_told_with_why() -> None:
    assert read_answers(ANSWERS, ["gpu1", "gpu2", "gpu3", "gpu4"]) == (
        Unfit("gpu2", ("the driver shows 7 GPUs (granted: 8)", "cuda:3 multiplies wrongly")),
        Unfit("gpu3", ("gpu3: task 2: Exited with exit code 1",)),
        Unfit("gpu4", ("gpu3: task 2: Exited with exit code 1",)),
    )
    assert read_answers("", ["gpu1"]) == (Unfit("gpu1", ("it did not answer",)),)


def test_the_look_is_made_by_the_python_of_the_environment() -> None:
    command = preflight_command(["srun", "--nodes=2"], python=Path("/env/bin/python"), home=Path("/a home"), gpus=8)
    assert command[:4] == ["srun", "--nodes=2", "/env/bin/python", "-I"]
    assert command[-3:] == [preflight.__file__, "/a home", "8"]


def test_little_space_is_a_problem_and_so_is_a_folder_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(preflight.space_problems(str(tmp_path))) == []
    assert list(preflight.space_problems("/nowhere")) == ["/nowhere: no such file or directory"]
    monkeypatch.setattr(preflight, "LEAST_FREE_BYTES", 1 << 62)
    (words,) = preflight.space_problems(str(tmp_path))
    assert words.endswith(f"GB are free in {tmp_path} (needed: {(1 << 62) / 1e9:.1f} GB)")


def test_without_a_driver_no_gpu_can_be_missed() -> None:
    assert list(preflight.gpu_problems(0)) == []

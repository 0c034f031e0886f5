"""The screen that refuses a workload file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.errors import Problem, SpecError
from airlane.spec.load import load_text
from airlane.spec.problems import render_problem, render_problems

Refuse = Callable[..., tuple[Problem, ...]]

TEXT = """\
experiment_name: demo

# Eight GPUs are a node.
compute:
  num_accelerators: 12
  accelerator_type: GPU_8xH100

comand: |
  python train.py
"""

SCREEN = """\
train.yaml:5:3  compute.num_accelerators: 12 does not fill nodes of 8 (GPU_8xH100)
    4 | compute:
    5 |   num_accelerators: 12
      |   ^ use 8 or 16
train.yaml:8:1  comand: unknown field. Did you mean `command`?
2 problems. Fields and examples: air -h config"""


def screen(text: str, tmp_path: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_text(text, file="train.yaml", base_dir=tmp_path)
    return render_problems(caught.value)


def test_the_whole_screen(tmp_path: Path) -> None:
    assert screen(TEXT, tmp_path) == SCREEN


def test_one_problem_is_counted_as_one(tmp_path: Path) -> None:
    assert screen("a: [1", tmp_path) == (
        "train.yaml:1:4  not valid YAML: a `[` that is never closed\n"
        "    1 | a: [1\n"
        "      |    ^\n"
        "1 problem. Fields and examples: air -h config"
    )


def test_a_blank_line_above_is_left_out(refuse: Refuse) -> None:
    lines = render_problem(refuse("x-a: 1\n\nmax_retries: x")[0])
    assert lines[1:] == ["    3 | max_retries: x", "      | ^"]


def test_the_caret_stands_under_wide_letters_and_after_tabs(refuse: Refuse) -> None:
    lines = render_problem(refuse("x-日本: 1\nparameters: {日本語é: 1, é́: !t 2}")[0])
    assert lines[-2:] == [
        "    2 | parameters: {日本語é: 1, é́: !t 2}",
        "      | " + " " * 25 + "^ write the value without a tag",
    ]
    lines = render_problem(refuse('parameters: {"a":\t1, b: !t 2}')[0])
    assert lines[1:] == [
        '    1 | parameters: {"a": 1, b: !t 2}',
        "      | " + " " * 21 + "^ write the value without a tag",
    ]


def test_a_long_line_is_cut_around_the_caret(refuse: Refuse) -> None:
    filler = ", ".join(f"key{number}: value" for number in range(40))
    lines = render_problem(refuse(f"parameters: {{{filler}, bad: !t 2, {filler}}}")[0])
    shown, caret = lines[-2], lines[-1]
    assert len(shown) <= 88
    assert shown[caret.index("^") :].startswith("bad: !t 2")
    assert shown.startswith("    1 | ...")
    assert shown.endswith("...")


def test_only_the_first_problems_are_shown(tmp_path: Path) -> None:
    text = "experiment_name: a\ncommand: b\ncompute: {num_accelerators: 1, accelerator_type: CPU_1xCORE}\n"
    text += "".join(f"key{number}: 1\n" for number in range(500))
    lines = screen(text, tmp_path).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "500 problems, the first 20 shown. Fields and examples: air -h config"


def test_a_problem_without_a_file_is_its_message() -> None:
    assert render_problem(Problem(message="something is wrong", field="")) == ["something is wrong"]
    assert render_problem(Problem(message="wrong.", field="a", hint="Do this.")) == ["a: wrong. Do this."]

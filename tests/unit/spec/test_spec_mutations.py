"""Whatever is done to a valid file, reading it gives a workload or positioned problems, and never another exception."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airlane.errors import Problem, SpecError
from airlane.spec.load import Loaded, load_text
from airlane.spec.problems import render_problems

VALID = """\
# One of everything.
x-defaults: &defaults
  NCCL_DEBUG: INFO
experiment_name: sft-qwen
command: |
  cd $CODE_SOURCE_PATH
  python train.py --lr ${LR:-1e-3} "$(date)" ${{x}}
compute:
  num_accelerators: 16
  accelerator_type: GPU_8xH100
  pool_id: pool
  priority_class: NORMAL
environment:
  version: 'AI5'
  dependencies:
    - fsspec>=2024.6.1
    - --index-url https://example.invalid/simple
code_source:
  type: snapshot
  snapshot:
    root_path: .
    git: {branch: main, remote: true}
env_variables:
  <<: *defaults
  LR: 1e-3
secrets: {HF_TOKEN: hub/token}
parameters: {on: yes, lr: 1e-3, layers: [1, 2, {a: null}], date: 2026-11-30}
max_retries: 0
timeout_minutes: 90
idempotency_token: nightly
mlflow_run_name: run-1
mlflow_artifact_location: s3://bucket/path
permissions: [{group_name: g, level: CAN_VIEW}]
"""
PIECES = [
    ":", ": ", "- ", "\n", "\n  ", "\t", "[", "]", "{", "}", "'", '"', "#", "&a ", "*a", "*defaults", "<<: ", "|", ">",
    "!!int ", "!x ", "---\n", "...", "null", "~", "yes", "1e-3", "-1", "99999999999999999999", "0x", "é",
    "\u2028", "\x85", "\x00", "\ufeff", "%", "@", "`", "? ", "$HOME", "..", "/", " ",
]  # fmt: skip


def read(text: str) -> Loaded | None:
    """The workload, or None where it is refused properly; any other exception fails the test."""
    with TemporaryDirectory() as folder:
        try:
            loaded = load_text(text, file="train.yaml", base_dir=Path(folder))
        except SpecError as error:
            lines = text.count("\n") + text.count("\x85") + text.count("\u2028") + text.count("\r") + 2
            for problem in error.problems:
                check_place(problem, lines)
            render_problems(error)
            return None
    return loaded


def check_place(problem: Problem, lines: int) -> None:
    assert problem.message
    assert problem.file == "train.yaml"
    assert problem.line is not None
    assert 1 <= problem.line <= lines
    assert problem.column is not None
    assert problem.column >= 1


def check_named(problem: Problem) -> None:
    assert (problem.file or "").startswith(("--override ", "train.yaml"))


def test_the_file_that_is_mutated_is_valid() -> None:
    assert read(VALID) is not None


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_changed_text_is_read_or_refused_with_places(data: st.DataObject) -> None:
    text = VALID
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 20)))
        piece = data.draw(st.sampled_from(PIECES) | st.text(max_size=3))
        kept = data.draw(st.sampled_from(["", text[start:end], text[start:end] * 2]))
        text = text[:start] + piece + kept + text[end:]
    read(text)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.dates()
    | st.text(max_size=8)
    | st.sampled_from(PIECES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_changed_values_are_read_or_refused_with_places(data: st.DataObject) -> None:
    tree: Any = yaml.safe_load(VALID)
    for _ in range(data.draw(st.integers(1, 3))):
        change(tree, data)
    read(yaml.safe_dump(tree, allow_unicode=data.draw(st.booleans()), sort_keys=False))


def change(tree: Any, data: st.DataObject) -> None:
    """Replace, rename or remove one value somewhere in the tree."""
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if not isinstance(node[key], dict | list) or data.draw(st.booleans()):
            break
        node = node[key]
    action = data.draw(st.sampled_from(["replace", "remove", "rename"]))
    if action == "replace" or isinstance(node, list):
        node[key] = data.draw(VALUES)
    elif action == "remove":
        del node[key]
    else:
        node[data.draw(st.sampled_from(["comand", "x-new", "git", "version", ""]))] = node.pop(key)


OVERRIDES = st.tuples(
    st.sampled_from([
        "command", "parameters", "parameters.a", "parameters.lr", "parameters.layers[0]", "env_variables.LR",
        "env_variables.NCCL_DEBUG", "env_variables.NEW", "secrets.NEW", "mlflow_run_name", "environment.dependencies",
        "environment.dependencies[1]", "environment", "compute", "compute.num_accelerators", "code_source.root_path",
        "x-a.b",
    ]),
    st.text(max_size=12) | st.sampled_from(PIECES) | VALUES.map(repr),
)  # fmt: skip


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(OVERRIDES, min_size=1, max_size=3))
def test_any_override_is_refused_or_gives_text_that_reads_back(changes: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder:
        overrides = [f"{field}={value}" for field, value in changes]
        try:
            loaded = load_text(VALID, file="train.yaml", base_dir=Path(folder), overrides=overrides)
        except SpecError as error:
            for problem in error.problems:
                check_named(problem)
            render_problems(error)
            return
        again = load_text(loaded.text, file="again.yaml", base_dir=Path(folder))
    assert repr(again.workload) == repr(loaded.workload)

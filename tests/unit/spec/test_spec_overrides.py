"""`--override`: what can be set, how it is typed, and that the text of the result reads back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from airlane.errors import Problem
from airlane.spec.load import Loaded, load_text

Read = Callable[..., Loaded]
Refuse = Callable[..., tuple[Problem, ...]]

FILE = """\
x-shared: &shared {A: one, B: two}
command: |
  echo "${{x}}"
    indented: yes
compute:
  num_accelerators: 8
  accelerator_type: GPU_8xH100
environment:
  version: AI5
  dependencies:
    - numpy
    - torch
code_source:
  type: snapshot
  snapshot:
    root_path: .
env_variables: *shared
parameters:
  <<: *shared
  optimizer: &o {lr: 1e-3, name: on}
  copy: *o
  layers: [2, 4]
timeout_minutes: 90
"""

# A row is an override, the attribute to look at, and its value.
ROWS: list[tuple[str, str, Any]] = [
    ("experiment_name=other", "experiment_name", "other"),
    ("experiment_name=123", "experiment_name", "123"),
    ("command=python a.py --x=1: [y] # z", "command", "python a.py --x=1: [y] # z"),
    ("command=one\n  two: 3\n", "command", "one\n  two: 3\n"),
    ("compute.num_accelerators=16", "compute.num_accelerators", 16),
    ("compute={num_accelerators: 2, accelerator_type: CPU_1xCORE}", "compute.accelerator_type", "CPU_1xCORE"),
    ("max_retries=0", "max_retries", 0),
    ("timeout_minutes=null", "timeout_minutes", None),
    ("environment=null", "environment.version", "4"),
    ("code_source=null", "code_source", None),
    ("environment.version=6", "environment.version", "6"),
    ("environment.version=databricks_ai_v6", "environment.version", "AI6"),
    ("environment.dependencies[0]=numpy>=2", "environment.dependencies", ("numpy>=2", "torch")),
    ("environment.dependencies[2]=3", "environment.dependencies", ("numpy", "torch", "3")),
    ("environment.dependencies=[a>=1, 'b']", "environment.dependencies", ("a>=1", "b")),
    ("environment.dependencies=[]", "environment.dependencies", ()),
    ("environment.dependencies=null", "environment.dependencies", None),
    ("code_source.root_path=src", "code_source.root_path.name", "src"),
    ("code_source.snapshot.root_path=src", "code_source.root_path.name", "src"),
    ("code_source.git.commit=1234567", "code_source.git.commit", "1234567"),
    ("code_source.snapshot.git={branch: main, remote: true}", "code_source.git.remote", True),
    ("env_variables.A=true", "env_variables", {"A": "true", "B": "two"}),
    ("env_variables.A=010", "env_variables", {"A": "010", "B": "two"}),
    ("env_variables.A=", "env_variables", {"A": "", "B": "two"}),
    ("env_variables.A=null", "env_variables", {"A": "null", "B": "two"}),
    ("env_variables.C=x=y", "env_variables", {"A": "one", "B": "two", "C": "x=y"}),
    ("env_variables={Z: 1e-5}", "env_variables", {"Z": "1e-5"}),
    ("secrets.T=s/k", "secrets", {"T": ("s", "k")}),
    ("parameters.layers=[1, [x, null]]", "parameters.layers", [1, ["x", None]]),
    ("parameters.layers[1]=1e-4", "parameters.layers", [2, 0.0001]),
    ("parameters.optimizer.lr=1e-4", "parameters.optimizer", {"lr": 0.0001, "name": True}),
    ("parameters.optimizer.lr=1e-4", "parameters.copy", {"lr": 0.001, "name": True}),
    ("parameters.A=3", "parameters.A", 3),
    ("parameters.deep.er.still=yes", "parameters.deep", {"er": {"still": True}}),
    ("parameters.list[0].name=x", "parameters.list", [{"name": "x"}]),
    ("parameters.text=a: b", "parameters.text", "a: b"),
    ("parameters.text='12'", "parameters.text", "12"),
    ("parameters.text=null", "parameters.text", None),
    ("parameters.text=", "parameters.text", ""),
    ("parameters.a-b=*x", "parameters.a-b", "*x"),
    ("parameters=null", "parameters", None),
    ("permissions[0]={group_name: g, level: CAN_VIEW}", "experiment_name", "demo"),
    ("x-more.y=1", "experiment_name", "demo"),
]


def part(workload: Any, attribute: str) -> Any:
    value = workload
    for name in attribute.split("."):
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    return value


@pytest.mark.parametrize(("override", "attribute", "expected"), ROWS, ids=[row[0][:50] for row in ROWS])
def test_an_override_sets_its_field_and_no_other(
    read: Read, folder: Path, override: str, attribute: str, expected: Any
) -> None:
    loaded = read(FILE, [override])
    value = part(loaded.workload, attribute)
    if isinstance(expected, dict) and attribute == "secrets":
        value = {name: (ref.scope, ref.key) for name, ref in value.items()}
    assert value == expected
    again = load_text(loaded.text, file="again.yaml", base_dir=folder)
    assert again.workload == loaded.workload
    assert again.hosted_only == loaded.hosted_only


def test_overrides_apply_in_order(read: Read) -> None:
    overrides = ["parameters.a=[1]", "parameters.a[1]=2", "parameters.a[0]={b: 3}", "parameters.a[0].c=4"]
    assert read("max_retries: 1", overrides).workload.parameters == {"a": [{"b": 3, "c": 4}, 2]}


def test_an_override_can_supply_what_the_file_lacks(folder: Path) -> None:
    overrides = [
        "experiment_name=a", "command=b", "compute.num_accelerators=1", "compute.accelerator_type=CPU_1xCORE"
    ]  # fmt: skip
    loaded = load_text("", file="train.yaml", base_dir=folder, overrides=overrides)
    assert loaded.workload.compute.num_accelerators == 1
    assert load_text(loaded.text, file="x", base_dir=folder).workload == loaded.workload


def test_without_overrides_the_text_keeps_its_comments(folder: Path) -> None:
    text = f"experiment_name: a # why\n{FILE}"
    assert load_text(text, file="train.yaml", base_dir=folder).text == text


REFUSED = [
    ("max_retries", "--override max_retries  expected field=value; for example --override compute.num_accelerators=16"),
    ("=1", "--override =1  '' is not the name of a field; write it as section.field or field[0]"),
    ("a..b=1", "--override a..b=1  'a..b' is not the name of a field; write it as section.field or field[0]"),
    ("a[x]=1", "--override a[x]=1  'a[x]' is not the name of a field; write it as section.field or field[0]"),
    ("[0]=1", "--override [0]=1  '[0]' is not the name of a field; write it as section.field or field[0]"),
    ("comand=x", "--override comand=x  comand: unknown field. Did you mean `command`?"),
    ("compute.gpus=1", None),
    (
        "compute.num_accelerators=12",
        (
            "--override compute.num_accelerators=12  "
            "compute.num_accelerators: 12 does not fill nodes of 8 (GPU_8xH100); "
            "use 8 or 16"
        ),
    ),
    (
        "max_retries=many",
        "--override max_retries=many  max_retries: expected a whole number, 0 or more, got the text 'many'",
    ),
    ("max_retries=", "--override max_retries=  max_retries: expected a whole number, 0 or more, got the text ''"),
    (
        "experiment_name=",
        (
            "--override experiment_name=  "
            "experiment_name: empty: expected letters, digits, - and _, at most 100 characters"
        ),
    ),
    (
        "experiment_name.a=1",
        "--override experiment_name.a=1  experiment_name.a: experiment_name is the text 'demo', not a map",
    ),
    (
        "environment.dependencies[9]=x",
        (
            "--override environment.dependencies[9]=x  "
            "environment.dependencies[9]: environment.dependencies has 2 items; "
            "[2] adds one"
        ),
    ),
    ("environment[0]=x", "--override environment[0]=x  environment[0]: environment is a map, not a list"),
    ("parameters.a=[1", "--override parameters.a=[1  parameters.a: not valid YAML: a `[` that is never closed"),
    (
        "env_variables.PATH=/bin",
        (
            "--override env_variables.PATH=/bin  env_variables.PATH: the runtime sets this variable itself; "
            'extend it inside the command: export PATH="/my/bin:$PATH"'
        ),
    ),
]


@pytest.mark.parametrize(("override", "expected"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_wrong_override_is_named(refuse: Refuse, override: str, expected: str | None) -> None:
    from airlane.spec.problems import render_problem

    problems = refuse(FILE, [override])
    assert len(problems) == 1
    assert problems[0].line is None
    if expected:
        assert render_problem(problems[0]) == [expected]


def test_unsetting_a_required_field_is_missing_it(refuse: Refuse) -> None:
    problem = refuse(FILE, ["compute.num_accelerators=null"])[0]
    assert (problem.field, problem.message) == (
        "compute.num_accelerators",
        "missing: expected a whole number, 1 or more",
    )


def test_every_wrong_override_is_reported_with_the_problems_of_the_file(refuse: Refuse) -> None:
    overrides: Sequence[str] = ["nonsense", "timeout_minutes=0", "foo=1"]
    fields = [(problem.line, problem.field) for problem in refuse("max_retries: x", overrides)]
    assert fields == [(1, "max_retries"), (None, "foo"), (None, ""), (None, "timeout_minutes")]

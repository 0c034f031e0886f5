"""What is not YAML, or more YAML than anyone means."""

from __future__ import annotations

from pathlib import Path

import pytest

from airlane.errors import SpecError
from airlane.spec.load import load_text
from airlane.spec.nodes import MAX_DEPTH

ROWS = [
    ("a: 1\n\tb: 2", "2:1 a tab in the indentation"),
    ("command: |\n\techo", "2:1 a tab in the indentation"),
    ("compute:\n \tnum: 2", "2:2 a tab in the indentation"),
    ("command: echo a: b", "1:16 not valid YAML: a `:` where no key can stand"),
    ("é: 日本: x", "1:6 not valid YAML: a `:` where no key can stand"),
    ("a: [1,\n2", "1:4 not valid YAML: a `[` that is never closed"),
    ("a: ['x' 'y']\nb: 1", "1:9 not valid YAML: a `,` or `]` is missing before this (opened on line 1)"),
    ("a: {b: 'x' c: 1}", "1:12 not valid YAML: a `,` or `}` is missing before this (opened on line 1)"),
    ("a: [", "2:1 not valid YAML: no value where one is expected"),
    ("a: {b: 1\nc: 2", "2:2 not valid YAML: a `,` or `}` is missing before this (opened on line 1)"),
    ("a: {b: 1", "1:4 not valid YAML: a `{` that is never closed"),
    ("a: 'never closed\nb: 1", "1:4 not valid YAML: a quote that is never closed"),
    ("- a\nb: 1", "2:1 not valid YAML: this does not continue the list above it"),
    ("a: 'x' y", "1:8 not valid YAML: this does not continue the map above it"),
    ("a: *b", "1:4 not valid YAML: an alias (*name) to an anchor (&name) that does not exist"),
    ("a: @b", "1:4 not valid YAML: no value can start like this"),
    ("a: 1\n---\nb: 2", "2:1 not valid YAML: a second document"),
    ("a: &b [*b]", "1:4 an anchor contains an alias to itself"),
    ("a: &b\n  c: *b", "1:4 an anchor contains an alias to itself"),
    ("a: \x01", "1:4 YAML cannot hold the character '\\x01'"),
    ("a: é\nb: \x00", "2:4 YAML cannot hold the character '\\x00'"),
    ("- a\n- b", "1:1 expected a map (name: value), got a list"),
    ("just text", "1:1 expected a map (name: value), got the text 'just text'"),
    ("42", "1:1 expected a map (name: value), got the number 42"),
    ("!thing {a: 1}", "1:1 the tag !thing is not supported"),
    ("!!set {a, b}", "1:1 the tag !!set is not supported"),
    ("<<: 5\nexperiment_name: a", "1:1 `<<` merges maps, got the number 5"),
]


@pytest.mark.parametrize(("text", "expected"), ROWS, ids=[repr(row[0][:30]) for row in ROWS])
def test_what_is_no_workload_file_is_refused_at_its_place(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_text(text, file="train.yaml", base_dir=tmp_path)
    problem = caught.value.problems[0]
    assert f"{problem.line}:{problem.column} {problem.message}" == expected


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", "")])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 20_000])
def test_deep_nesting_is_refused(tmp_path: Path, opening: str, closing: str, depth: int) -> None:
    text = f"parameters:\n  a:\n    {opening * depth}1{closing * depth}"
    with pytest.raises(SpecError, match=f"nested more than {MAX_DEPTH} levels|exceeded maximum nesting depth"):
        load_text(text, file="train.yaml", base_dir=tmp_path)


def test_nesting_up_to_the_limit_is_read(tmp_path: Path) -> None:
    text = "experiment_name: a\ncommand: b\ncompute: {num_accelerators: 1, accelerator_type: CPU_1xCORE}\nparameters:\n"
    text += "  a: " + "[" * (MAX_DEPTH - 2) + "]" * (MAX_DEPTH - 2)
    assert load_text(text, file="train.yaml", base_dir=tmp_path).workload.parameters


def test_an_alias_bomb_is_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    with pytest.raises(SpecError, match="aliases add more than 100,000 values"):
        load_text("parameters:\n  " + "\n  ".join(lines), file="train.yaml", base_dir=tmp_path)


def test_many_values_without_aliases_are_fine(tmp_path: Path) -> None:
    text = "experiment_name: a\ncommand: b\ncompute: {num_accelerators: 1, accelerator_type: CPU_1xCORE}\nparameters:\n"
    text += "  a: [" + "1," * 110_000 + "]\n"
    parameters = load_text(text, file="train.yaml", base_dir=tmp_path).workload.parameters
    assert parameters is not None
    assert len(parameters["a"]) == 110_000

"""What every recipe does with its words and with the workload's parameters."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from recipes.command import configured, main, usage
from recipes.errors import RecipeError

PROGRAM = "python -m recipes.sample"


@dataclass(frozen=True)
class Data:
    """What is read; lengths count tokens."""

    source: str = "docstrings"
    max_tokens: int = 512
    format: Literal["auto", "chat"] = "auto"
    limit: int | None = None
    layers: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Sample:
    """Train nothing."""

    data: Data = field(default_factory=Data)
    rate: float = 1e-3
    trace: bool = False


def parameters(folder: Path, text: str) -> dict[str, str]:
    file = folder / "parameters.yaml"
    file.write_text(text, encoding="utf-8")
    return {"HYPERPARAMETERS_PATH": str(file)}


def test_words_win_over_the_parameters_of_the_workload(tmp_path: Path) -> None:
    text = "data: {source: a b.jsonl, limit: 5, layers: [3, 4]}\ndata.max_tokens: 64\nrate: 1e-4\ntrace: true\n"
    chosen = configured(PROGRAM, Sample(), ["data.limit=7"], parameters(tmp_path, text))
    assert chosen == Sample(Data("a b.jsonl", 64, limit=7, layers=(3, 4)), 1e-4, trace=True)


def test_nothing_given_is_the_default(tmp_path: Path) -> None:
    assert configured(PROGRAM, Sample(), [], {}) == Sample()
    assert configured(PROGRAM, Sample(), [], parameters(tmp_path, "")) == Sample()


def test_a_parameter_may_be_unset(tmp_path: Path) -> None:
    start = Sample(Data(limit=5))
    assert configured(PROGRAM, start, [], parameters(tmp_path, "data: {limit: null}")).data.limit is None
    with pytest.raises(RecipeError, match=r"data.source is empty; it takes text"):
        configured(PROGRAM, start, [], parameters(tmp_path, "data: {source:}"))


def test_a_section_with_nothing_in_it_is_none(tmp_path: Path) -> None:
    assert configured(PROGRAM, Sample(), [], parameters(tmp_path, "data:\n  # limit: 5\n")) == Sample()
    with pytest.raises(RecipeError, match=r"parameters: nothing=none: no such setting"):
        configured(PROGRAM, Sample(), [], parameters(tmp_path, "nothing:\n"))


def test_a_list_is_for_settings_that_take_several(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"^parameters: data.source is a list; it takes text\n"):
        configured(PROGRAM, Sample(), [], parameters(tmp_path, "data: {source: [a.jsonl, b.jsonl]}"))
    with pytest.raises(RecipeError, match="takes a whole number"):
        configured(PROGRAM, Sample(), [], parameters(tmp_path, "data: {layers: [2026-01-01]}"))


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_a_number_has_to_be_finite(number: str) -> None:
    with pytest.raises(RecipeError, match=rf"^rate={number} has to be a finite number\n"):
        configured(PROGRAM, Sample(), [f"rate={number}"], {})


def test_everything_wrong_is_told_at_once_and_where_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = parameters(tmp_path, "data: {sorce: x, max_tokens: many}\n")
    assert main(PROGRAM, Sample(), lambda _: 0, ["data.format=xml", "--fast"], env) == 2
    assert capsys.readouterr().err == (
        "parameters: data.sorce=x: no such setting. Did you mean data.source?\n"
        "parameters: data.max_tokens=many: takes a whole number, such as 8\n"
        "data.format=xml: takes one of auto, chat\n"
        "--fast: is no NAME=VALUE\n"
        "Every setting: python -m recipes.sample --help\n"
    )


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "\x00"])
def test_a_file_of_parameters_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"parameters.yaml|cannot be read"):
        configured(PROGRAM, Sample(), [], parameters(tmp_path, text))


def test_a_file_of_parameters_that_is_not_there_is_named() -> None:
    with pytest.raises(RecipeError, match=r"\$HYPERPARAMETERS_PATH cannot be read.*/nowhere/p.yaml"):
        configured(PROGRAM, Sample(), [], {"HYPERPARAMETERS_PATH": "/nowhere/p.yaml"})


def test_the_printed_configuration_gives_itself(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data.source=it's here.jsonl", "rate=0.5"]
    assert main(PROGRAM, Sample(), lambda _: 9, [*words, "--print-config"], {}) == 0
    printed = shlex.split(capsys.readouterr().out)
    assert configured(PROGRAM, Sample(), printed, {}) == configured(PROGRAM, Sample(), words, {})


def test_the_help_has_every_setting_with_its_default_and_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        configured(PROGRAM, Sample(), ["--help", "no=matter"], {})
    assert ended.value.code == 0
    assert capsys.readouterr().out == usage(PROGRAM, Sample()) == HELP


HELP = """\
python -m recipes.sample [SECTION.SETTING=VALUE ...] [--print-config]

Train nothing.

  rate=0.001              a number
  trace=false             true or false

data: What is read; lengths count tokens.
  data.source=docstrings  text
  data.max_tokens=512     a whole number
  data.format=auto        auto | chat
  data.limit=none         a whole number, or none
  data.layers=[1, 2]      a whole number, or a JSON list of it

Settings may also stand under `parameters:` of the workload ($HYPERPARAMETERS_PATH); words given here win.
"""


def test_contradictions_are_refused_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    def contradictions(sample: Sample) -> Iterator[str]:
        if sample.rate < 0:
            yield f"rate={sample.rate} is below 0"

    ran: list[float] = []

    def run(sample: Sample) -> int:
        ran.append(sample.rate)
        return 0

    assert main(PROGRAM, Sample(), run, ["rate=-1"], {}, contradictions=contradictions) == 2
    assert main(PROGRAM, Sample(), run, ["rate=1"], {}, contradictions=contradictions) == 0
    assert ran == [1.0]
    assert capsys.readouterr().err == "rate=-1.0 is below 0\nEvery setting: python -m recipes.sample --help\n"


def test_what_a_run_refuses_is_told_and_its_exit_code_is_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    def run(sample: Sample) -> int:
        if sample.trace:
            raise RecipeError(["rows.jsonl:3: no prompt"], "data.corrupt=skip leaves such rows out")
        return 143

    assert main(PROGRAM, Sample(), run, ["trace=true"], {}) == 2
    assert main(PROGRAM, Sample(), run, [], {}) == 143
    assert capsys.readouterr().err == "rows.jsonl:3: no prompt\ndata.corrupt=skip leaves such rows out\n"

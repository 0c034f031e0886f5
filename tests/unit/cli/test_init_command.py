"""air init."""

from __future__ import annotations

from pathlib import Path

import pytest

from airlane.api.starters import STARTERS

from .conftest import Air


def test_init_alone_lists_the_kinds_and_what_to_type(air: Air) -> None:
    output = air("init")
    assert output.code == 0
    assert [line.split()[0] for line in output.out.splitlines()] == list(STARTERS)
    assert output.err == "\nWrite one of them: air init KIND FOLDER\n"
    assert [kind["kind"] for kind in air("init", "--json").data()["kinds"]] == list(STARTERS)


def test_init_tells_the_next_command(air: Air, tmp_path: Path) -> None:
    folder = tmp_path / "it's new"
    output = air("init", "command", str(folder))
    assert (output.code, output.out) == (0, "")
    assert output.err.endswith(f"\n  air run -f '{tmp_path}/it'\"'\"'s new/train.yaml' --watch\n")
    assert "3 files" in output.err


def test_init_tells_a_command_that_takes_the_folder_for_no_option(
    air: Air, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert air("init", "command", "--", "-new").err.endswith("\n  air run -f ./-new/train.yaml --watch\n")


def test_init_in_json_has_the_files(air: Air, tmp_path: Path) -> None:
    facts = air("init", "command", str(tmp_path / "new"), "--json").data()
    assert facts == {
        "kind": "command",
        "folder": str(tmp_path / "new"),
        "files": ["README.md", "train.py", "train.yaml"],
        "workload": str(tmp_path / "new" / "train.yaml"),
        "next": f"air run -f {tmp_path}/new/train.yaml --watch",
    }


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("sftt", "new"), 2, "got 'sftt'; did you mean sft?\n  air init -h\n"),
        (("sft",), 2, "air init: FOLDER is missing\n  for example air init sft my-sft\n"),
        (("sft", "new", "more"), 2, "air init: one word too many: 'more'\n  air init -h\n"),
    ],
)
def test_init_says_what_is_wrong_with_its_words(air: Air, words: tuple[str, ...], code: int, told: str) -> None:
    output = air("init", *words)
    assert (output.code, output.out) == (code, "")
    assert output.err.endswith(told)


def test_init_refuses_a_folder_with_something_in_it(air: Air, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine.txt").touch()
    output = air("init", "command", "demo")
    assert output.code == 1
    assert output.err == (
        "demo is not empty; a folder that is new or empty was needed, so that nothing is overwritten\n"
        "  air init command demo-command\n"
    )

"""Ignore files, read as git reads them (tests/e2e/ray_jobs asks git itself)."""

from __future__ import annotations

from pathlib import Path

import pytest

from airlane.cluster.ignore_rules import Rules, left_out, parse, read_rules, rules_above


def ignored(lines: list[str], path: str) -> bool:
    """Whether a file is left out, itself or by a folder above it."""
    rules = (Rules(parse(lines)),)
    steps = path.split("/")
    return any(left_out(rules, "/".join(steps[: n + 1]), folder=n < len(steps) - 1) for n in range(len(steps)))


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        (["*.log"], "a.log", True),
        (["*.log"], "deep/er/a.log", True),
        (["*.log"], "a.log.txt", False),
        (["/a.log"], "a.log", True),
        (["/a.log"], "deep/a.log", False),
        (["deep/a.log"], "deep/a.log", True),
        (["deep/a.log"], "x/deep/a.log", False),
        (["build/"], "build/x", True),
        (["build/"], "src/build/x", True),
        (["build/"], "build", False),
        (["**/foo"], "foo", True),
        (["**/foo"], "a/b/foo", True),
        (["a/**"], "a/b/c", True),
        (["a/**/b"], "a/b", True),
        (["a/**/b"], "a/x/y/b", True),
        (["a/*/b"], "a/x/y/b", False),
        (["a?c"], "abc", True),
        (["a?c"], "a/c", False),
        (["[a-c].py"], "b.py", True),
        (["[!a-c].py"], "b.py", False),
        (["[[:digit:]]x"], "7x", True),
        (["*", "!keep"], "keep", False),
        (["*", "!keep"], "other", True),
        (["!keep", "*"], "keep", True),
        (["data/", "!data/keep"], "data/keep", True),  # a folder that is left out is not entered
        (["# comment"], "# comment", False),
        ([r"\#name"], "#name", True),
        ([r"\!name"], "!name", True),
        (["trailing   "], "trailing", True),
        ([r"trailing\ "], "trailing ", True),
        (["name\r"], "name", True),
        (["", "   "], "x", False),
        (["/"], "x", False),
        (["[unclosed"], "[unclosed", False),
        (["ünïcode*"], "ünïcode.txt", True),
        (["a.b"], "axb", False),
        (["a+(b)|{c}^$"], "a+(b)|{c}^$", True),
    ],
)
def test_a_pattern_names_what_git_says_it_names(lines: list[str], path: str, expected: bool) -> None:
    assert ignored(lines, path) is expected


def test_the_innermost_file_has_the_last_word() -> None:
    chain = (Rules(parse(["*.csv"])), Rules(parse(["!keep.csv"]), prefix="data/"))
    assert left_out(chain, "data/other.csv", folder=False)
    assert not left_out(chain, "data/keep.csv", folder=False)
    assert left_out(chain, "keep.csv", folder=False)


def test_a_folder_that_is_no_file_has_no_rules(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").mkdir()
    assert read_rules(tmp_path / ".gitignore") == ()
    assert read_rules(tmp_path / "nothing" / ".gitignore") == ()


def repository(tmp_path: Path, rules: str) -> Path:
    inner = tmp_path / "repo" / "train" / "x"
    inner.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / ".gitignore").write_text(rules)
    (tmp_path / ".gitignore").write_text("*")
    return inner


def test_files_above_count_up_to_the_top_of_the_repository(tmp_path: Path) -> None:
    chain = rules_above(repository(tmp_path, "*.ckpt\n/train/x/data\n"), ".gitignore")
    assert left_out(chain, "last.ckpt", folder=False)
    assert left_out(chain, "data", folder=True)
    assert not left_out(chain, "deep/data", folder=True)
    assert not left_out(chain, "train.py", folder=False)


@pytest.mark.parametrize("rules", ["train/", "/train/x\n", "*\n", "train/**\n"])
def test_files_above_that_leave_out_the_folder_itself_do_not_count(tmp_path: Path, rules: str) -> None:
    assert rules_above(repository(tmp_path, rules), ".gitignore") == ()


def test_outside_of_a_repository_nothing_above_counts(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.py")
    (tmp_path / "code").mkdir()
    assert rules_above(tmp_path / "code", ".gitignore") == ()

"""Small files, small functions, telling names. There is no list of exceptions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from house.repository import ROOT, SOURCE, name_of, project_files, tree_of

LONGEST_FILE = 500
LONGEST_TEST_FILE = 800
LONGEST_FUNCTION = 60
BANNED_FILE_NAMES = {"utils", "util", "helpers", "helper", "misc", "common"}
BANNED_WORDS = {"task", "tasks", "manager", "managers", "helper", "helpers", "util", "utils", "handler", "misc"}


def test_no_file_is_too_long_to_read() -> None:
    too_long = [
        f"{name_of(file)}: {lines} lines"
        for file in project_files(".py")
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) > limit(file)
    ]
    assert too_long == []


def limit(file: Path) -> int:
    return LONGEST_TEST_FILE if ROOT / "tests" in file.parents else LONGEST_FILE


def test_no_function_is_longer_than_a_screen() -> None:
    too_long = [
        f"{name_of(file)}:{function.lineno} {function.name}: {lines} lines"
        for file in project_files(".py")
        for function in functions(file)
        if (lines := (function.end_lineno or function.lineno) - function.lineno + 1) > LONGEST_FUNCTION
    ]
    assert too_long == []


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree_of(file)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_file_names_say_what_is_in_the_file() -> None:
    assert [name_of(file) for file in project_files() if file.stem.lower() in BANNED_FILE_NAMES] == []


def test_names_of_classes_and_functions_avoid_words_that_say_nothing() -> None:
    definitions = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    vague = [
        f"{name_of(file)}:{node.lineno} {node.name}"
        for file in project_files(".py")
        for node in ast.walk(tree_of(file))
        if isinstance(node, definitions) and not node.name.startswith("test_") and words(node.name) & BANNED_WORDS
    ]
    assert vague == []


def words(name: str) -> set[str]:
    """The words of a snake_case or CamelCase name."""
    return {word.lower() for word in re.findall("[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_initializers_only_reexport() -> None:
    busy = [
        f"{name_of(file)}:{node.lineno}"
        for file in SOURCE.rglob("__init__.py")
        for node in tree_of(file).body
        if not reexports(node)
    ]
    assert busy == []


def reexports(node: ast.stmt) -> bool:
    """Imports, constants and docstrings; `__getattr__` is how a name is imported when it is first used."""
    if isinstance(node, ast.FunctionDef):
        return node.name == "__getattr__"
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.Expr | ast.If)


def test_tests_have_no_initializers() -> None:
    assert [name_of(file) for file in project_files("__init__.py") if ROOT / "tests" in file.parents] == []

"""What no file of the project may hold: places on one machine, private hosts, reminders to oneself."""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from house.repository import ROOT, SOURCE, name_of, project_files, tree_of

MACHINE_PATH = re.compile(r"(?<![\w.$}~-])/(?:work|opt|root|workspace|builds)/")
REMINDER = re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b")
URL_HOST = re.compile(r"https?://(?:[^/\s@\"'`<>]*@)?([A-Za-z0-9.-]+)")
# Names of no machine: reserved ones, single words, and the public sites that the project points to.
PLACEHOLDER_HOST = re.compile(
    r"[\w-]*\.*|127\.0\.0\.\d+|10\.\d+\.\d+\.\d+|example\.(?:org|com)|.*\.(?:example|invalid|test|lab|server)"
)
PUBLIC_HOSTS = {
    "deb.debian.org",
    "docs.astral.sh",
    "docs.aws.amazon.com",
    "docs.nvidia.com",
    "docs.pytorch.org",
    "docs.ray.io",
    "download.pytorch.org",
    "efa-installer.amazonaws.com",
    "files.pythonhosted.org",
    "github.com",
    "hub.docker.com",
    "huggingface.co",
    "index.docker.io",
    "json-schema.org",
    "mlflow.org",
    "pypi.org",
    "pytorch.org",
    "toml.io",
    "www.apache.org",
    "www.w3.org",
}
LOCK_HOSTS = {"files.pythonhosted.org", "pypi.org"}


@cache
def text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def found(pattern: re.Pattern[str]) -> Iterator[tuple[Path, str, re.Match[str]]]:
    for file in project_files():
        for number, line in enumerate(text_of(file).splitlines(), start=1):
            for match in pattern.finditer(line):
                yield file, f"{name_of(file)}:{number}: {line.strip()[:120]}", match


def test_no_file_names_a_path_of_one_machine() -> None:
    assert [where for _, where, _ in found(MACHINE_PATH)] == []


def test_no_file_names_the_folder_it_was_written_in() -> None:
    if ROOT.is_relative_to(tempfile.gettempdir()):
        pytest.skip("a clone in the temporary folder: its name may stand in a test for other reasons")
    here = re.compile(re.escape(str(ROOT)) + r"\b")
    assert [where for _, where, _ in found(here)] == []


def test_no_file_names_a_private_host() -> None:
    private = [
        where
        for file, where, match in found(URL_HOST)
        if file.name != "uv.lock" and not (PLACEHOLDER_HOST.fullmatch(match[1]) or match[1] in PUBLIC_HOSTS)
    ]
    assert private == []


def test_the_lock_names_the_public_index_alone() -> None:
    hosts = {match[1] for match in URL_HOST.finditer(text_of(ROOT / "uv.lock"))}
    assert hosts == LOCK_HOSTS


def test_reminders_are_done_or_filed() -> None:
    assert [where for _, where, _ in found(REMINDER)] == []


def test_annotations_cost_nothing_at_start() -> None:
    wanting = [
        name_of(file)
        for file in SOURCE.rglob("*.py")
        if any(annotated(node) for node in ast.walk(tree_of(file))) and not has_future_import(tree_of(file))
    ]
    assert wanting == []


def annotated(node: ast.AST) -> bool:
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return isinstance(node, ast.AnnAssign) or (is_function and getattr(node, "returns", None) is not None)


def has_future_import(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.ImportFrom) and node.module == "__future__" and node.names[0].name == "annotations"
        for node in tree.body
    )

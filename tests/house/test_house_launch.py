"""What runs on a node runs in any Python from 3.9 on, with nothing installed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from house.repository import SOURCE, name_of

ON_NODES = [SOURCE / "__init__.py", SOURCE / "errors.py", *sorted((SOURCE / "launch").rglob("*.py"))]
OLDEST = (3, 9)


@pytest.mark.parametrize("file", ON_NODES, ids=name_of)
def test_a_file_for_the_nodes_is_written_for_the_oldest_python(file: Path) -> None:
    ast.parse(file.read_text(encoding="utf-8"), filename=name_of(file), feature_version=OLDEST)


@pytest.mark.parametrize("file", ON_NODES, ids=name_of)
def test_a_file_for_the_nodes_imports_the_standard_library_alone(file: Path) -> None:
    own = {"airlane.errors", "airlane"}
    foreign = [
        module
        for module in imported_modules(ast.parse(file.read_text(encoding="utf-8")))
        if module.split(".")[0] not in sys.stdlib_module_names
        and not (module in own or module.startswith("airlane.launch"))
    ]
    assert foreign == []


def imported_modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


def test_every_file_for_the_nodes_imports_where_nothing_is_installed() -> None:
    modules = [
        ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        for file in ON_NODES
        if file.name != "__main__.py"
    ]
    program = f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r}); import {', '.join(modules)}"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)

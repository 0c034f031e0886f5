"""What Python's own standard library says about itself: real text that is at hand without a network."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from recipes.engine.data.rows import Place, Row

NOT_FOR_USERS = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "turtledemo", "ensurepip"}
FEWEST_WORDS = 4  # "Return self." teaches nothing


class Docstrings:
    """A row for each public module, class and function: prompt and completion, and the whole docstring as text."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or Path(sysconfig.get_path("stdlib"))

    def rows(self) -> Iterator[Row]:
        for path in self.paths():
            tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
            relative = path.relative_to(self.root)
            module = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
            yield from row(f"{relative}:", tree, module, f"What is the module {module} for?")
            yield from definitions(f"{relative}:", tree, module)

    def digest(self) -> str:
        whole = hashlib.sha256()
        for path in self.paths():
            whole.update(str(path.relative_to(self.root)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
        return whole.hexdigest()

    def paths(self) -> Iterator[Path]:
        """The modules that have no underscore in front of them, nor any package around them."""
        for path in sorted(self.root.rglob("*.py")):
            parts = path.relative_to(self.root).with_suffix("").parts
            names = parts[:-1] if parts[-1] == "__init__" else parts
            if not any(name in NOT_FOR_USERS or name.startswith("_") for name in names):
                yield path


def definitions(origin: str, parent: ast.Module | ast.ClassDef, name: str) -> Iterator[Row]:
    """Public classes and functions directly in a module or class, and what is inside those classes."""
    for node in parent.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        path = f"{name}.{node.name}"
        if isinstance(node, ast.ClassDef):
            yield from row(origin, node, path, f"What is the class {path}?")
            yield from definitions(origin, node, path)
        else:
            signature = f"{path}({ast.unparse(node.args)})"
            yield from row(origin, node, signature, f"What does {signature} do?")


def row(
    origin: str, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str, question: str
) -> Iterator[Row]:
    """The row of a docstring, if it says enough to learn from."""
    docstring = inspect.cleandoc(ast.get_docstring(node) or "")
    summary = " ".join(docstring.partition("\n\n")[0].split())
    if len(summary.split()) >= FEWEST_WORDS:
        line = 1 if isinstance(node, ast.Module) else node.lineno
        columns = {"prompt": question, "completion": summary, "text": f"{name}\n\n{docstring}"}
        yield Row(Place(origin, line), columns)

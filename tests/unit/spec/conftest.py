from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from airlane.errors import Problem, SpecError
from airlane.spec.containers import read_anything
from airlane.spec.load import Loaded, load_text
from airlane.spec.nodes import compose
from airlane.spec.reading import Place, Reading

BASE = {
    "experiment_name": "experiment_name: demo",
    "command": "command: echo hi",
    "compute": "compute: {num_accelerators: 8, accelerator_type: GPU_8xH100}",
}

Complete = Callable[[str], str]
Read = Callable[..., Loaded]
Refuse = Callable[..., tuple[Problem, ...]]


def complete_text(snippet: str) -> str:
    """The snippet, followed by those required fields that it does not set itself."""
    keys = {line.partition(":")[0] for line in snippet.splitlines()}
    rest = [line for key, line in BASE.items() if key not in keys]
    return "\n".join([snippet, *rest, ""])


KEYWORDS = {
    "$schema", "title", "description", "examples", "default", "type", "enum", "const", "pattern", "minimum", "maximum",
    "minLength", "maxLength", "items", "properties", "required", "additionalProperties", "patternProperties",
    "propertyNames", "anyOf", "not",
}  # fmt: skip
TYPES: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
    "null": type(None),
}  # fmt: skip


def is_a(value: Any, kinds: str | list[str]) -> bool:
    names = [kinds] if isinstance(kinds, str) else kinds
    return any(isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool)) for name in names)


def valid(value: Any, schema: dict[str, Any]) -> bool:
    assert set(schema) <= KEYWORDS
    checks = [is_a(value, schema["type"])] if "type" in schema else []
    if "enum" in schema:
        checks.append(any(value == option and type(value) is type(option) for option in schema["enum"]))
    if "const" in schema:
        checks.append(value == schema["const"])
    if "anyOf" in schema:
        checks.append(any(valid(value, option) for option in schema["anyOf"]))
    if "not" in schema:
        checks.append(not valid(value, schema["not"]))
    return all([*checks, *parts(value, schema)])


def parts(value: Any, schema: dict[str, Any]) -> list[bool]:
    if isinstance(value, str):
        found = re.search(schema.get("pattern", ""), value) is not None
        return [found, schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))]
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [schema.get("minimum", value) <= value <= schema.get("maximum", value)]
    if isinstance(value, list):
        return [valid(item, schema.get("items", {})) for item in value]
    return members(value, schema) if isinstance(value, dict) else []


def members(value: dict[str, Any], schema: dict[str, Any]) -> list[bool]:
    checks = [name in value for name in schema.get("required", [])]
    for name, item in value.items():
        checks.append(valid(name, schema.get("propertyNames", {})))
        patterns = [inner for rule, inner in schema.get("patternProperties", {}).items() if re.search(rule, name)]
        known = [schema["properties"][name], *patterns] if name in schema.get("properties", {}) else patterns
        rest = schema.get("additionalProperties", {})
        checks += [valid(item, inner) for inner in known] if known else [rest if rest is False else valid(item, rest)]
    return checks


@pytest.fixture
def fits_schema() -> Callable[[Any, dict[str, Any]], bool]:
    """Whether a value fits a JSON Schema; knows the keywords that ours uses, and fails on others."""
    return valid


@pytest.fixture
def plain() -> Callable[[str], Any]:
    """A snippet, completed to a workload, as plain Python."""

    def read_plain(snippet: str) -> Any:
        text = complete_text(snippet)
        root = compose(text)
        assert root is not None
        return read_anything(root, Place(Reading("x", text.splitlines(), Path(), {}), "", root))

    return read_plain


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of code with everything awkward in its name, and a requirements file of each form."""
    base = tmp_path / 'it\'s a "folder"\n of naïve 码'
    (base / "src" / "deep").mkdir(parents=True)
    (base / "a file").write_text("x", encoding="utf-8")
    (base / "needs.yaml").write_text("version: AI5\ndependencies:\n  - numpy\n  - -r more.txt\n", encoding="utf-8")
    (base / "needs.txt").write_text("# tools\nnumpy>=2  # arrays\npandas \\\n  >=2\n\n", encoding="utf-8")
    (base / "bad.yaml").write_text("version: AI5\ndependancies: [numpy]\nversion: 5\n", encoding="utf-8")
    return base


@pytest.fixture
def read(folder: Path) -> Read:
    """Load a snippet as part of a complete workload."""

    def read_snippet(snippet: str, overrides: Sequence[str] = ()) -> Loaded:
        return load_text(complete_text(snippet), file="train.yaml", base_dir=folder, overrides=overrides)

    return read_snippet


@pytest.fixture
def refuse(read: Read) -> Refuse:
    """The problems of a snippet; fails where it is accepted."""

    def problems(snippet: str, overrides: Sequence[str] = ()) -> tuple[Problem, ...]:
        with pytest.raises(SpecError) as caught:
            read(snippet, overrides)
        return caught.value.problems

    return problems

"""A JSON Schema (draft 2020-12) of the workload file, for editors."""

from __future__ import annotations

from typing import Any

import yaml

from airlane.spec.fields import Entry, entries_of
from airlane.spec.models import WORKLOAD, Workload

SCHEMA_URI = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema of a whole file."""
    return {
        "$schema": SCHEMA_URI,
        "title": "Airlane workload",
        "description": str(Workload.__doc__),
        **WORKLOAD.schema(),
    }


def section_schema(model: type[Any], *, extensions: bool = False) -> dict[str, Any]:
    """The schema of a model's fields."""
    entries = entries_of(model)
    shape: dict[str, Any] = {
        "type": "object",
        "properties": {name: _field_schema(name, entry) for name, entry in entries.items()},
        "required": [name for name, entry in entries.items() if entry.required],
        "additionalProperties": False,
    }
    if extensions:
        shape["patternProperties"] = {"^x-": {"description": "A place for YAML anchors; not read."}}
    if not shape["required"]:
        del shape["required"]
    return shape


def _field_schema(name: str, entry: Entry) -> dict[str, Any]:
    note = " Recorded, without effect here (hosted service only)." if entry.hosted_only else ""
    shape: dict[str, Any] = {"description": f"{entry.help}{note}"}
    if entry.default is not None:
        shape["default"] = _plain(entry.default)
    shape["examples"] = [_plain(f"{name}: {entry.example}")[name]]
    core = entry.kind.schema()
    return {**shape, **(core if entry.required else _or_null(core))}


def _plain(text: str) -> Any:
    return yaml.safe_load(text)


def _or_null(shape: dict[str, Any]) -> dict[str, Any]:
    """The same, or nothing at all (`name:` with no value)."""
    if "enum" in shape:
        return {**shape, "enum": [*shape["enum"], None]}
    if "anyOf" in shape:
        return {**shape, "anyOf": [*shape["anyOf"], {"type": "null"}]}
    kinds = shape.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return {**shape, "type": [*kinds, "null"]} if kinds else shape

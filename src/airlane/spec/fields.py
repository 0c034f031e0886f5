"""What stands beside each field of a model: its help, its kind, an example. Reading, help and the schema all use it."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any

from airlane.frozen import frozen
from airlane.spec.kinds import Kind


@frozen
class Entry:
    """One YAML field. `example` is YAML as it would stand after the name.

    `hosted_only` fields are checked and recorded, and change nothing here.
    """

    help: str
    kind: Kind
    example: str
    required: bool = False
    hosted_only: bool = False
    default: str | None = None


def entry(
    help_text: str,
    kind: Kind,
    *,
    example: str,
    required: bool = False,
    hosted_only: bool = False,
    default: str | None = None,
) -> dict[str, Entry]:
    """Metadata for a dataclass field that may stand in the YAML."""
    return {"entry": Entry(help_text, kind, example, required, hosted_only, default)}


_ENTRIES: dict[type[Any], dict[str, Entry]] = {}


def entries_of(model: type[Any]) -> dict[str, Entry]:
    """The YAML fields of a model, by name, in the order they are declared."""
    if model not in _ENTRIES:
        _ENTRIES[model] = {item.name: _with_default(item) for item in fields(model) if "entry" in item.metadata}
    return _ENTRIES[model]


def _with_default(item: Field[Any]) -> Entry:
    found: Entry = item.metadata["entry"]
    if found.default is None and item.default not in (MISSING, None):
        shown = item.default if isinstance(item.default, int | str) else None
        return Entry(found.help, found.kind, found.example, found.required, found.hosted_only, _shown(shown))
    return found


def _shown(value: object) -> str | None:
    return None if value is None else str(value)

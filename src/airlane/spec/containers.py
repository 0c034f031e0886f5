"""The kinds that hold others: lists, maps of names, and sections (a model's fields)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from airlane.frozen import frozen
from airlane.spec import nodes
from airlane.spec.fields import Entry, entries_of
from airlane.spec.kinds import Kind
from airlane.spec.reading import INVALID, Invalid, Pair, Place, came, clip, known_tag, read_map, report_unknown
from airlane.spec.runtime_variables import INSTEAD, RUNTIME_VARIABLES


def read_anything(node: Node, place: Place) -> Any:
    """Any value as plain Python: dicts with text keys, lists, and scalars."""
    if isinstance(node, MappingNode):
        pairs = read_map(node, place)
        if pairs is None:
            return INVALID
        return {pair.key: read_anything(pair.value, place.child(clip(pair.key), pair.key_node)) for pair in pairs}
    if not known_tag(node, place):
        return INVALID
    if isinstance(node, SequenceNode):
        return [read_anything(item, place.item(index, item)) for index, item in enumerate(node.value)]
    try:
        return nodes.scalar_value(node)
    except ValueError:
        place.report(f"{clip(str(node.value))!r} is not the number or boolean that it should be")
        return INVALID


def _any_invalid(values: Iterable[Any]) -> bool:
    return any(isinstance(value, Invalid) for value in values)


class Anything(Kind):
    """Any YAML value: maps, lists, numbers, text, booleans, null."""

    @property
    def words(self) -> str:
        return "any value"

    def read(self, node: Node, place: Place) -> Any:
        return read_anything(node, place)

    def schema(self) -> dict[str, Any]:
        return {}

    def child(self, key: str) -> Kind:  # noqa: ARG002 - everything below is anything, too
        return self


@frozen
class Items(Kind):
    """A list."""

    item: Kind
    hint: str | None = None

    @property
    def words(self) -> str:
        return "a list"

    def read(self, node: Node, place: Place) -> Any:
        if not known_tag(node, place):
            return INVALID
        if not isinstance(node, SequenceNode):
            place.report(f"expected a list, got {came(node)}", hint=self.hint)
            return INVALID
        values = [self.item.read(item, place.item(index, item)) for index, item in enumerate(node.value)]
        return INVALID if _any_invalid(values) else tuple(values)

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema()}

    def child(self, key: str) -> Kind | None:
        return self.item if key == "[]" else None


@frozen
class Named(Kind):
    """A map from names that the user chooses. `shell_names`: they become environment variables."""

    value: Kind
    shell_names: bool = False

    @property
    def words(self) -> str:
        return f"a map from name to {self.value.words}"

    def read(self, node: Node, place: Place) -> Any:
        pairs = read_map(node, place)
        if pairs is None:
            return INVALID
        values: dict[str, Any] = {}
        for pair in pairs:
            here = place.child(clip(pair.key), pair.key_node)
            if self.shell_names:
                _check_variable_name(pair.key, here)
            values[pair.key] = self.value.read(pair.value, here)
        return INVALID if _any_invalid(values.values()) else values

    def schema(self) -> dict[str, Any]:
        shape: dict[str, Any] = {"type": "object", "additionalProperties": self.value.schema()}
        if self.shell_names:
            shape["propertyNames"] = {"pattern": f"^{_SHELL_NAME}$", "not": {"enum": sorted(RUNTIME_VARIABLES)}}
        return shape

    def child(self, key: str) -> Kind | None:  # noqa: ARG002 - every name holds the same kind
        return self.value


_SHELL_NAME = "[A-Za-z_][A-Za-z0-9_]*"


def _check_variable_name(name: str, place: Place) -> None:
    if not re.fullmatch(_SHELL_NAME, name):
        place.report("not a name for an environment variable: letters, digits and _, not starting with a digit")
    elif name in RUNTIME_VARIABLES:
        place.report("the runtime sets this variable itself", hint=INSTEAD.get(name, "choose another name"))


@dataclass(slots=True, eq=False, repr=False)
class Found:
    """The valid values of a section, for the rules that look at several; a rule may replace values."""

    place: Place
    pairs: dict[str, Pair]
    values: dict[str, Any] = field(default_factory=dict)
    misspelt: set[str] = field(default_factory=set)

    def missing(self, name: str) -> bool:
        """Whether the field is not there, not even misspelt."""
        return name not in self.pairs and name not in self.misspelt

    def given(self, name: str) -> bool:
        """Whether the field stands in the file and is not null, valid or not."""
        return name in self.pairs

    def get(self, name: str) -> Any:
        """The value, or None where it is missing or has a problem."""
        value = self.values.get(name)
        return None if isinstance(value, Invalid) else value

    def at(self, name: str) -> Place:
        """The place of a field (the section's own, where the field is missing)."""
        pair = self.pairs.get(name)
        return self.place.child(name, pair.key_node if pair else self.place.node)

    def report(self, name: str, message: str, *, hint: str | None = None) -> None:
        self.at(name).report(message, hint=hint)


@frozen
class Section(Kind):
    """The fields of a model. `rules` look at several of them; `extensions` lets in x-* keys."""

    model: type[Any]
    rules: Callable[[Found], None] | None = None
    extensions: bool = False

    @property
    def words(self) -> str:
        return f"a map with {', '.join(entries_of(self.model))}"

    def read(self, node: Node, place: Place) -> Any:
        pairs = read_map(node, place)
        return INVALID if pairs is None else self.read_pairs(pairs, place)

    def read_pairs(self, pairs: list[Pair], place: Place) -> Any:
        """The model of these pairs, or INVALID once every problem in them is reported."""
        before = len(place.reading.problems)
        entries = entries_of(self.model)
        found = Found(
            place, {pair.key: pair for pair in pairs if pair.key in entries and not nodes.is_null(pair.value)}
        )
        for pair in pairs:
            if pair.key not in entries and not (self.extensions and pair.key.startswith("x-")):
                found.misspelt.add(report_unknown(pair, self.known_names(), place) or "")
        for name in found.pairs:
            found.values[name] = self._read_entry(entries[name], found, name)
        for name, item in entries.items():
            if item.required and found.missing(name):
                found.report(name, f"missing: expected {item.kind.words}", hint=self._example(name, item))
        if self.rules:
            self.rules(found)
        return INVALID if len(place.reading.problems) > before else self.model(**found.values)

    @staticmethod
    def _read_entry(item: Entry, found: Found, name: str) -> Any:
        here, value = found.at(name), found.pairs[name].value
        if item.hosted_only:
            found.place.reading.hosted_only[here.field] = read_anything(value, here)
        return item.kind.read(value, here)

    @staticmethod
    def _example(name: str, item: Entry) -> str:
        return f"for example {name}: {item.example}" if "\n" not in item.example else f"see air -h config.{name}"

    def known_names(self) -> list[str]:
        """The keys that may stand in this section."""
        return list(entries_of(self.model))

    def schema(self) -> dict[str, Any]:
        from airlane.spec.json_schema import section_schema

        return section_schema(self.model, extensions=self.extensions)

    def child(self, key: str) -> Kind | None:
        item = entries_of(self.model).get(key)
        return item.kind if item else None


@frozen
class WrappedSection(Section):
    """A section that may also stand one level down: `type: snapshot` beside `snapshot: {...}`."""

    wrapper: str = "snapshot"

    def read(self, node: Node, place: Place) -> Any:
        pairs = read_map(node, place)
        if pairs is None:
            return INVALID
        by_key = {pair.key: pair for pair in pairs}
        if "type" not in by_key and self.wrapper not in by_key:
            return self.read_pairs(pairs, place)
        return self._read_wrapped(by_key, place)

    def _read_wrapped(self, by_key: dict[str, Pair], place: Place) -> Any:
        before = len(place.reading.problems)
        for pair in by_key.values():
            if pair.key in entries_of(self.model):
                place.child(pair.key, pair.key_node).report(
                    f"stands beside `type` and `{self.wrapper}`",
                    hint=f"move it into `{self.wrapper}`, or remove `type` and `{self.wrapper}`",
                )
            elif pair.key not in ("type", self.wrapper):
                report_unknown(pair, ["type", self.wrapper], place)
        self._check_type(by_key.get("type"), place)
        inner = by_key.get(self.wrapper)
        if inner is None or nodes.is_null(inner.value):
            node = inner.key_node if inner else place.node
            place.child(self.wrapper, node).report(f"missing: expected {self.words}")
            return INVALID
        value = super().read(inner.value, place.child(self.wrapper, inner.key_node))
        return INVALID if len(place.reading.problems) > before else value

    def _check_type(self, pair: Pair | None, place: Place) -> None:
        if pair is None:
            place.child("type", place.node).report(
                f"missing beside `{self.wrapper}`", hint=f"write `type: {self.wrapper}`"
            )
        elif not isinstance(pair.value, ScalarNode) or pair.value.value != self.wrapper:
            place.child("type", pair.key_node).report(
                f"expected {self.wrapper}, got {came(pair.value)}", hint=f"write `type: {self.wrapper}`"
            )

    def known_names(self) -> list[str]:
        return [*entries_of(self.model), "type", self.wrapper]

    def schema(self) -> dict[str, Any]:
        from airlane.spec.json_schema import section_schema

        flat = section_schema(self.model)
        wrapped = {
            "type": "object",
            "description": "The same fields, one level down.",
            "properties": {"type": {"const": self.wrapper}, self.wrapper: flat},
            "required": ["type", self.wrapper],
            "additionalProperties": False,
        }
        return {"anyOf": [flat, wrapped]}

    def child(self, key: str) -> Kind | None:
        if key == self.wrapper:
            return Section(self.model, self.rules)
        return super().child(key)

"""What it takes to read one workload: where each value stands, and every problem found on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from airlane.errors import Problem
from airlane.frozen import frozen
from airlane.spec import nodes
from airlane.spec.suggest import nearest


class Invalid:
    """The value of a field whose problem has been reported."""


INVALID: Final = Invalid()


@frozen
class Reading:
    """One file being read; its problems and hosted-only fields collect here."""

    file: str
    lines: list[str]
    base_dir: Path
    environ: Mapping[str, str]
    check_files: bool = True
    problems: list[Problem] = field(default_factory=list)
    hosted_only: dict[str, Any] = field(default_factory=dict)

    def report(self, node: Node, name: str, message: str, *, hint: str | None = None, frame: bool = True) -> None:
        """Add a problem at a node's place; `frame` shows its line, with the hint under it."""
        mark = node.start_mark
        if isinstance(mark, nodes.OverrideMark):
            problem = Problem(message=message, field=name, file=f"--override {mark.text}", hint=hint)
        else:
            line, column = nodes.place_of(node)
            problem = self.problem_at(line, column, name=name, message=message, hint=hint, frame=frame)
        self.problems.append(problem)

    def problem_at(
        self, line: int, column: int, *, message: str, name: str = "", hint: str | None = None, frame: bool = True
    ) -> Problem:
        """A problem at a line and column, both counted from 1."""
        shown: list[tuple[int, str]] = []
        if frame and line <= len(self.lines):
            shown = [(number, self.lines[number - 1]) for number in (line - 1, line) if number > 0]
            if not shown[0][1].strip():
                del shown[:-1]
        return Problem(
            message=message,
            field=name,
            file=self.file,
            line=line,
            column=column,
            hint=hint,
            source_lines=tuple(shown),
        )


@frozen
class Place:
    """A field being read: its dotted name, and the node (a key, or a list's item) that problems point at."""

    reading: Reading
    field: str
    node: Node

    def report(self, message: str, *, hint: str | None = None, frame: bool = True) -> None:
        self.reading.report(self.node, self.field, message, hint=hint, frame=frame)

    def child(self, name: str, node: Node) -> Place:
        return Place(self.reading, f"{self.field}.{name}" if self.field else name, node)

    def item(self, index: int, node: Node) -> Place:
        return Place(self.reading, f"{self.field}[{index}]", node)


@frozen
class Pair:
    """A key and its value in a mapping."""

    key: str
    key_node: Node
    value: Node


def clip(text: str, limit: int = 60) -> str:
    """Text short enough for a message, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def came(node: Node) -> str:
    """What stands in the file, in words."""
    if isinstance(node, MappingNode):
        return "a map"
    if isinstance(node, SequenceNode):
        return "a list"
    text = clip(str(node.value))
    words = {nodes.NULL: "nothing", nodes.BOOL: f"the boolean {text}", nodes.INT: f"the number {text}"}
    words[nodes.FLOAT] = words[nodes.INT]
    return words.get(node.tag, f"the text {text!r}")


def known_tag(node: Node, place: Place) -> bool:
    """Whether the node's tag is plain YAML; reports it if not."""
    allowed = {nodes.MAP} if isinstance(node, MappingNode) else {nodes.SEQ}
    if node.tag in (nodes.SCALAR_TAGS if isinstance(node, ScalarNode) else allowed):
        return True
    tag = str(node.tag).replace("tag:yaml.org,2002:", "!!")
    place.report(f"the tag {tag} is not supported", hint="write the value without a tag")
    return False


def read_map(node: Node, place: Place) -> list[Pair] | None:
    """The pairs of a map, merge keys resolved; reports duplicate and unreadable keys. None if it is no map."""
    if not isinstance(node, MappingNode):
        if known_tag(node, place):
            place.report(f"expected a map (name: value), got {came(node)}")
        return None
    if not known_tag(node, place):
        return None
    _report_keys(node, place)
    found: dict[str, Pair] = {}
    for key_node, value in nodes.pairs(node):
        if isinstance(key_node, ScalarNode) and not nodes.is_null(key_node):
            found[key_node.value] = Pair(key_node.value, key_node, value)
    return list(found.values())


def _report_keys(node: MappingNode, place: Place) -> None:
    first: dict[str, Node] = {}
    for key_node, value in node.value:
        if key_node.tag == nodes.MERGE:
            _report_merge(key_node, value, place)
        elif not isinstance(key_node, ScalarNode):
            place.reading.report(key_node, place.field, f"expected a name as key, got {came(key_node)}")
        elif nodes.is_null(key_node):
            place.reading.report(key_node, place.field, "a key is empty")
        elif key_node.value in first:
            message = f"duplicate key, first on line {nodes.place_of(first[key_node.value])[0]}"
            place.child(clip(key_node.value), key_node).report(message, hint="keep one of the two")
        else:
            known_tag(key_node, place.child(clip(key_node.value), key_node))
            first[key_node.value] = key_node


def _report_merge(key_node: Node, value: Node, place: Place) -> None:
    for source in value.value if isinstance(value, SequenceNode) else [value]:
        if isinstance(source, MappingNode):
            _report_keys(source, place)
        else:
            place.reading.report(key_node, place.field, f"`<<` merges maps, got {came(source)}")


def report_unknown(pair: Pair, known: list[str], place: Place) -> str | None:
    """Report a key that is not a field, with the nearest field (which is returned) or all of them."""
    near = nearest(pair.key, known)
    hint = f"Did you mean `{near}`?" if near else f"The fields here are {', '.join(sorted(known))}."
    place.child(clip(pair.key), pair.key_node).report("unknown field", hint=hint, frame=False)
    return near

"""`--override a.b=v`: changes to the node tree, before anything is read from it.

The value is typed by its field: text for text fields (env_variables.X=010 is "010"), YAML for parameters, numbers,
lists and maps. `null` unsets a field; `environment.dependencies[0]=x` replaces an item, and one past the end adds one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from airlane.errors import Problem
from airlane.frozen import frozen
from airlane.spec import nodes
from airlane.spec.containers import Anything, WrappedSection
from airlane.spec.fields import entries_of
from airlane.spec.kinds import Kind
from airlane.spec.nodes import OverrideMark
from airlane.spec.reading import came

_SEGMENT = re.compile(r"([^.\[\]]+)((?:\[[0-9]{1,6}\])*)")


class OverrideError(Exception):
    """An override that cannot be applied."""

    def __init__(self, field: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.hint = hint


@frozen
class Override:
    """One `a.b[0]=value`: names and list indexes, and the text after the first `=`."""

    steps: tuple[str | int, ...]
    value: str
    mark: OverrideMark


def apply_overrides(root: Node, overrides: Sequence[str], kind: Kind) -> tuple[Node, list[Problem]]:
    """The tree with the overrides applied in order, and the problems of those that could not be."""
    problems: list[Problem] = []
    for text in overrides:
        try:
            root = _set(root, parse_override(text), 0, kind)
        except OverrideError as error:
            problem = Problem(message=error.message, field=error.field, file=f"--override {text}", hint=error.hint)
            problems.append(problem)
    return root, problems


def parse_override(text: str) -> Override:
    """The path and value of an override.

    Raises:
        OverrideError: there is no `=`, or the path before it is malformed.
    """
    path, equals, value = text.partition("=")
    if not equals:
        raise OverrideError("", "expected field=value", "for example --override compute.num_accelerators=16")
    steps: list[str | int] = []
    for segment in path.strip().split("."):
        match = _SEGMENT.fullmatch(segment)
        if match is None:
            raise OverrideError("", f"{path!r} is not the name of a field", "write it as section.field or field[0]")
        steps.append(match[1])
        steps.extend(int(index) for index in re.findall("[0-9]+", match[2]))
    return Override(tuple(steps), value, OverrideMark(text))


def _name(steps: tuple[str | int, ...]) -> str:
    name = ""
    for step in steps:
        name += f"[{step}]" if isinstance(step, int) else f".{step}" if name else step
    return name


def _set(node: Node | None, override: Override, at: int, kind: Kind | None) -> Node:
    """A copy of the node with the override's value at its place; nodes off the path are shared."""
    if at == len(override.steps):
        return _value(override, kind or Anything())
    if node is not None and nodes.is_null(node):
        node = None
    step = override.steps[at]
    if isinstance(step, int):
        return _set_item(node, override, at, kind)
    node = MappingNode(nodes.MAP, [], override.mark, override.mark) if node is None else node
    if not isinstance(node, MappingNode):
        raise OverrideError(_name(override.steps[: at + 1]), f"{_where(override, at)} is {came(node)}, not a map")
    old = {key.value: value for key, value in nodes.pairs(node) if isinstance(key, ScalarNode)}
    if isinstance(kind, WrappedSection) and kind.wrapper in old and step in entries_of(kind.model):
        return _set(node, _inside(override, at, kind.wrapper), at, kind)
    value = _set(old.get(step), override, at + 1, kind.child(step) if kind else None)
    return _with_pair(node, step, value, override, final=at + 1 == len(override.steps))


def _value(override: Override, kind: Kind) -> Node:
    try:
        return kind.from_override(override.value, override.mark)
    except nodes.NodeError as error:
        raise OverrideError(_name(override.steps), error.message, error.hint) from error


def _inside(override: Override, at: int, wrapper: str) -> Override:
    return Override((*override.steps[:at], wrapper, *override.steps[at:]), override.value, override.mark)


def _where(override: Override, at: int) -> str:
    return _name(override.steps[:at]) or "the file"


def _set_item(node: Node | None, override: Override, at: int, kind: Kind | None) -> Node:
    node = SequenceNode(nodes.SEQ, [], override.mark, override.mark) if node is None else node
    name, index = _name(override.steps[: at + 1]), override.steps[at]
    if not isinstance(node, SequenceNode):
        raise OverrideError(name, f"{_where(override, at)} is {came(node)}, not a list")
    items = list(node.value)
    if not isinstance(index, int) or index > len(items):
        raise OverrideError(name, f"{_where(override, at)} has {len(items)} items", f"[{len(items)}] adds one")
    old = items[index] if index < len(items) else None
    items[index : index + 1] = [_set(old, override, at + 1, kind.child("[]") if kind else None)]
    return SequenceNode(node.tag, items, node.start_mark, node.end_mark, node.flow_style)


def _with_pair(node: MappingNode, key: str, value: Node, override: Override, *, final: bool) -> MappingNode:
    """The mapping with one key set. The key of a final step is new: problems then name the override."""
    pairs = list(node.value)
    found = [index for index, (old, _) in enumerate(pairs) if old.tag != nodes.MERGE and old.value == key]
    new_key = ScalarNode(nodes.STR, key, override.mark, override.mark)
    if found:
        pairs[found[-1]] = (new_key if final else pairs[found[-1]][0], value)
    else:
        pairs.append((new_key, value))
    return MappingNode(node.tag, pairs, node.start_mark, node.end_mark, node.flow_style)

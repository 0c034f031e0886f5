"""The kinds of single values a field can hold: each reads itself, says what it expects, and knows its JSON Schema."""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from yaml.nodes import Node, ScalarNode

from airlane.frozen import frozen
from airlane.spec import nodes
from airlane.spec.bases import BASES, PATTERN, find_base
from airlane.spec.reading import INVALID, Place, came, clip, known_tag
from airlane.spec.suggest import did_you_mean

LARGEST_WHOLE = 2**31 - 1
LONGEST_VARIABLE_BYTES = 128 * 1024 - 1
"""Linux takes no longer string in a process's environment (execve(2), MAX_ARG_STRLEN)."""


class Kind(ABC):
    """What a field may hold.

    Kinds are dataclasses without equality and repr, or plain classes: what a dataclass writes is compiled at
    every start of `air`.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def words(self) -> str:
        """What is expected, as in "expected ..."."""

    @abstractmethod
    def read(self, node: Node, place: Place) -> Any:
        """The value, or INVALID once its problems are reported."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the YAML form."""

    def child(self, key: str) -> Kind | None:  # noqa: ARG002 - a single value has no parts
        """The kind of a part, by field name or "[]" for a list's item."""
        return None

    def from_override(self, text: str, mark: nodes.OverrideMark) -> Node:
        """The node of a value typed on the command line: a YAML scalar, list or map."""
        return override_value(text, mark)


def override_value(text: str, mark: nodes.OverrideMark) -> Node:
    """A value as YAML would take it after `name: `; only what opens with [, {, " or ' is parsed further.

    Raises:
        NodeError: a list, map or quoted text that is not well formed.
    """
    if text[:1] in ("[", "{", '"', "'"):
        root = nodes.compose(text)
        if root is not None:
            _mark_all(root, mark)
            return root
    return nodes.plain_scalar(text, mark) if text else nodes.text_scalar(text, mark)


def _mark_all(node: Node, mark: nodes.OverrideMark) -> None:
    node.start_mark = node.end_mark = mark
    for child in nodes.children(node):
        _mark_all(child, mark)


@frozen(kw_only=True)
class Text(Kind):
    """A piece of text. `any_scalar` takes numbers and booleans, too, exactly as written.

    `null_is_text`: `--override name=null` sets the text "null" instead of unsetting the field.
    """

    rule: str | None = None
    rule_words: str = ""
    not_blank: bool = False
    max_length: int | None = None
    max_bytes: int | None = None
    trimmed: bool = False
    any_scalar: bool = False
    null_is_text: bool = False
    hint: str | None = None
    change: Callable[[str], str] | None = None

    @property
    def words(self) -> str:
        most = f", at most {self.max_length} characters" if self.max_length else ""
        return f"{self.rule_words or ('any single value' if self.any_scalar else 'text')}{most}"

    def read(self, node: Node, place: Place) -> Any:
        text = read_text(node, place, any_scalar=self.any_scalar, hint=self.hint)
        if text is None:
            return INVALID
        value = text.strip() if self.trimmed else text
        complaint = self._complaint(value)
        if complaint:
            place.report(complaint, hint=self.hint)
            return INVALID
        return self.change(value) if self.change else value

    def _complaint(self, value: str) -> str | None:
        if (self.rule or self.not_blank) and not value.strip():
            return f"empty: expected {self.words}"
        if self.rule and not re.fullmatch(self.rule, value):
            return f"expected {self.rule_words}, got {clip(value)!r}"
        if self.max_length and len(value) > self.max_length:
            return f"{len(value)} characters; at most {self.max_length} are allowed"
        if self.max_bytes and len(value.encode()) > self.max_bytes:
            return f"{len(value.encode()):,} bytes; at most {self.max_bytes:,} fit in an environment variable"
        return None

    def schema(self) -> dict[str, Any]:
        shape: dict[str, Any] = {"type": ["string", "number", "boolean"] if self.any_scalar else "string"}
        if self.rule:
            shape["pattern"] = f"^\\s*(?:{self.rule})\\s*$" if self.trimmed else f"^(?:{self.rule})$"
        elif self.not_blank:
            shape["pattern"] = "\\S"
        if self.max_length and not self.trimmed:
            shape["maxLength"] = self.max_length
        return shape

    def from_override(self, text: str, mark: nodes.OverrideMark) -> Node:
        unset = text == "null" and not self.null_is_text
        return nodes.plain_scalar(text, mark) if unset else nodes.text_scalar(text, mark)


def read_text(node: Node, place: Place, *, any_scalar: bool = False, hint: str | None = None) -> str | None:
    """The text of a scalar, as written; reports anything else, and text that no process can take."""
    if not known_tag(node, place):
        return None
    text = str(node.value)
    if not isinstance(node, ScalarNode):
        place.report(f"expected text, got {came(node)}", hint=hint)
    elif nodes.is_null(node):
        place.report("expected text, got nothing", hint='write "" for empty text')
    elif node.tag != nodes.STR and not any_scalar:
        place.report(f"expected text, got {came(node)}", hint=f'put it in quotes: "{clip(text)}"')
    elif "\0" in text:
        place.report("text cannot hold the character \\0")
    else:
        return text
    return None


@frozen
class Command(Kind):
    """A shell script."""

    max_lines: int = 1000

    @property
    def words(self) -> str:
        return f"a shell script of at most {self.max_lines} lines"

    def read(self, node: Node, place: Place) -> Any:
        hint = "write it as a block: `command: |`, with the script indented below"
        text = read_text(node, place, hint=hint)
        if text is None:
            return INVALID
        lines = text.count("\n") + (not text.endswith("\n"))
        if not text.strip():
            place.report("empty: expected a shell script", hint=hint)
        elif lines > self.max_lines:
            place.report(
                f"{lines:,} lines; at most {self.max_lines:,} are allowed",
                hint="put the script in a file in code_source and call it",
            )
        else:
            return text
        return INVALID

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": "\\S"}

    def from_override(self, text: str, mark: nodes.OverrideMark) -> Node:
        return nodes.text_scalar(text, mark)


@frozen
class Whole(Kind):
    """A whole number; "2" in quotes is one, too."""

    minimum: int = 0

    @property
    def words(self) -> str:
        return f"a whole number, {self.minimum} or more"

    def read(self, node: Node, place: Place) -> Any:
        number = self._number(node) if known_tag(node, place) else INVALID
        if number is None:
            place.report(f"expected {self.words}, got {came(node)}")
            return INVALID
        if isinstance(number, int) and not self.minimum <= number <= LARGEST_WHOLE:
            most = f" and at most {LARGEST_WHOLE:,}" if number > LARGEST_WHOLE else ""
            place.report(f"expected {self.words}{most}, got {clip(str(node.value), 30)}")
            return INVALID
        return number

    @staticmethod
    def _number(node: Node) -> int | None:
        if not isinstance(node, ScalarNode):
            return None
        text = str(node.value)
        try:
            if node.tag == nodes.INT:
                value = nodes.scalar_value(node)
                return value if isinstance(value, int) else None
            return int(text) if node.tag == nodes.STR and re.fullmatch(r"[-+]?[0-9]+", text.strip()) else None
        except ValueError:  # more digits than Python converts
            return None

    def schema(self) -> dict[str, Any]:
        return {"type": ["integer", "string"], "minimum": self.minimum, "maximum": LARGEST_WHOLE, "pattern": "^[0-9]+$"}


@frozen
class Choice(Kind):
    """One of a few words, or what `pattern` (`pattern_words`) lets in; `near` are more words to suggest."""

    options: tuple[str, ...]
    pattern: str | None = None
    pattern_words: str | None = None
    near: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        shown = (*self.options, self.pattern_words) if self.pattern_words else self.options
        return f"one of {', '.join(shown)}"

    def read(self, node: Node, place: Place) -> Any:
        text = read_text(node, place)
        if text is None:
            return INVALID
        if text in self.options or (self.pattern and re.fullmatch(self.pattern, text)):
            return text
        near = did_you_mean(text, (*self.options, *self.near))
        place.report(f"expected {self.words}, got {clip(text)!r}", hint=near)
        return INVALID

    def schema(self) -> dict[str, Any]:
        if not self.pattern:
            return {"enum": list(self.options)}
        return {"anyOf": [{"enum": list(self.options)}, {"type": "string", "pattern": f"^{self.pattern}$"}]}

    def from_override(self, text: str, mark: nodes.OverrideMark) -> Node:
        return nodes.plain_scalar(text, mark) if text == "null" else nodes.text_scalar(text, mark)


class Base(Kind):
    """The name of an environment that Airlane ships, as a number or text."""

    @property
    def words(self) -> str:
        return f"one of {', '.join(BASES)} (databricks_ai_v5 is AI5)"

    def read(self, node: Node, place: Place) -> Any:
        text = read_text(node, place, any_scalar=True)
        if text is None:
            return INVALID
        base = find_base(text.strip()) if node.tag in (nodes.INT, nodes.STR) else None
        if base is None:
            place.report(f"expected {self.words}, got {clip(text)!r}", hint=did_you_mean(text, BASES))
            return INVALID
        return base

    def schema(self) -> dict[str, Any]:
        numbers = [int(base) for base in BASES if base.isdigit()]
        return {"anyOf": [{"enum": [*numbers, *BASES]}, {"type": "string", "pattern": PATTERN}]}

    def from_override(self, text: str, mark: nodes.OverrideMark) -> Node:
        return nodes.plain_scalar(text, mark)


class Remote(Kind):
    """Whether the branch is looked up at a git remote: true (origin), false, or the remote's name."""

    @property
    def words(self) -> str:
        return "true, false, or a remote's name (letters, digits, - . / _, not starting with -)"

    def read(self, node: Node, place: Place) -> Any:
        if isinstance(node, ScalarNode) and node.tag == nodes.BOOL:
            with contextlib.suppress(ValueError):  # then it is text, and refused below
                return nodes.scalar_value(node)
        text = read_text(node, place, any_scalar=True)
        if text is None:
            return INVALID
        if not re.fullmatch(r"[A-Za-z0-9./_][A-Za-z0-9./_-]*", text):
            place.report(f"expected {self.words}, got {clip(text)!r}")
            return INVALID
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": ["boolean", "string"], "pattern": "^[A-Za-z0-9./_][A-Za-z0-9./_-]*$"}

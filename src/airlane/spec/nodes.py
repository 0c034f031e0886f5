"""YAML text to a tree of nodes that know their place, and back.

The dialect is YAML 1.1 with three repairs: 1e-3 is a number, and neither 1:30 nor a date is one. Every scalar keeps the
text as written (`node.value`); its tag says what it means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

try:
    from yaml import CSafeDumper as _SafeDumper
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML without libyaml: slower, the same trees
    from yaml import SafeDumper as _SafeDumper  # type: ignore[assignment]
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

STR, INT, FLOAT, BOOL, NULL, MERGE, MAP, SEQ = (
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "merge", "map", "seq")
)
SCALAR_TAGS = frozenset({STR, INT, FLOAT, BOOL, NULL})

MAX_DEPTH = 100
MAX_ALIAS_GROWTH = 100_000
"""How many values aliases may add to those written; billions of them fit in a kilobyte of text."""

_BOOL = r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF"
_INT = r"[-+]?(?:0b[01][01_]*|0x[0-9a-fA-F][0-9a-fA-F_]*|0[0-7_]+|0|[1-9][0-9_]*)"
_FLOAT = (
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_TRUE = frozenset({"yes", "true", "on"})


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for tag, pattern, first_letters in (
        (BOOL, _BOOL, "yYnNtTfFoO"),
        (INT, _INT, "-+0123456789"),
        (FLOAT, _FLOAT, "-+.0123456789"),
        (NULL, "~|null|Null|NULL|", ["~", "n", "N", ""]),
        (MERGE, "<<", "<"),
    ):
        regexp = re.compile(f"^(?:{pattern})$")
        for letter in first_letters:
            table.setdefault(letter, []).append((tag, regexp))
    return table


class _Loader(_SafeLoader):
    yaml_implicit_resolvers = _resolvers()


class _Dumper(_SafeDumper):
    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


class NodeError(Exception):
    """The text is not a YAML tree we take; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.hint = hint


class OverrideMark(yaml.Mark):
    """The place of a node that an `--override` made."""

    def __init__(self, text: str) -> None:
        super().__init__("--override", 0, 0, 0, None, 0)
        self.text = text


def split_lines(text: str) -> list[str]:
    """The lines as YAML counts them."""
    return _LINE_BREAK.split(text)


def compose(text: str) -> Node | None:
    """The tree of the one document in the text, or None where there is none.

    Raises:
        NodeError: it is not YAML, not one document, too deep, or its aliases never end.
    """
    unprintable = _UNPRINTABLE.search(text)
    if unprintable:
        before = split_lines(text[: unprintable.start()])
        raise NodeError(f"YAML cannot hold the character {unprintable[0]!r}", len(before), len(before[-1]) + 1)
    loader = _Loader(text)
    try:
        root: Node | None = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text) from error
    except RecursionError as error:
        raise NodeError(f"nested more than {MAX_DEPTH} levels deep", 1, 1) from error
    finally:
        loader.dispose()
    if root is not None:
        _check_growth(root)
    return root


def serialize(root: Node) -> str:
    """The text of a tree; `compose` reads it back to an equal one. Comments are lost."""
    text = yaml.serialize(root, Dumper=_Dumper, allow_unicode=True, width=4096)
    return str(text)


def place_of(node: Node) -> tuple[int, int]:
    """The line and column of a node, both from 1."""
    mark = node.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def is_null(node: Node) -> bool:
    return bool(node.tag == NULL)


def scalar_value(node: Node) -> str | int | float | bool | None:
    """What a scalar means.

    Raises:
        ValueError: an explicit tag contradicts the text, or the number is too long.
    """
    text = str(node.value)
    if node.tag == NULL:
        return None
    if node.tag == BOOL:
        if not re.fullmatch(_BOOL, text):
            raise ValueError(text)
        return text.lower() in _TRUE
    if node.tag == INT:
        return _int(text)
    if node.tag == FLOAT:
        plain = text.replace("_", "").lower()
        return float(plain.replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _int(text: str) -> int:
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if digits.startswith(("0b", "0x")):
        return sign * int(digits, 0)
    if digits.startswith("0") and digits != "0":
        return sign * int(digits, 8)
    return sign * int(digits)


def plain_scalar(text: str, mark: OverrideMark) -> ScalarNode:
    """The node of a scalar written without quotes: its tag follows from its text."""
    for tag, regexp in (
        *_Loader.yaml_implicit_resolvers.get(text[:1], ()),
        *_Loader.yaml_implicit_resolvers.get("*", ()),
    ):
        if tag != MERGE and regexp.match(text):
            return ScalarNode(tag, text, mark, mark)
    return text_scalar(text, mark)


def text_scalar(text: str, mark: OverrideMark) -> ScalarNode:
    """The node of a piece of text that is text whatever it looks like."""
    return ScalarNode(STR, text, mark, mark, style="|" if "\n" in text else None)


def pairs(node: MappingNode) -> Iterator[tuple[Node, Node]]:
    """The keys and values of a mapping: what `<<` merges first, then its own; the last of equal keys counts."""
    for key, value in node.value:
        if key.tag == MERGE:
            sources = value.value if isinstance(value, SequenceNode) else [value]
            for source in reversed(sources):
                if isinstance(source, MappingNode):
                    yield from pairs(source)
    yield from own_pairs(node)


def own_pairs(node: MappingNode) -> Iterator[tuple[Node, Node]]:
    """The keys and values written in the mapping itself."""
    return ((key, value) for key, value in node.value if key.tag != MERGE)


def children(node: Node) -> Iterator[Node]:
    """The nodes right below a node."""
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, SequenceNode):
        yield from node.value


def _check_growth(root: Node) -> None:
    """Refuse trees that are too deep, contain themselves, or grow without measure through aliases."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: Node, depth: int) -> int:
        if isinstance(node, ScalarNode):
            sizes[id(node)] = 1
            return 1
        if id(node) in sizes:
            return sizes[id(node)]
        line, column = place_of(node)
        if id(node) in open_nodes:
            raise NodeError("an anchor contains an alias to itself", line, column)
        if depth > MAX_DEPTH:
            raise NodeError(f"nested more than {MAX_DEPTH} levels deep", line, column)
        open_nodes.add(id(node))
        total = 1 + sum(size(child, depth + 1) for child in children(node))
        open_nodes.discard(id(node))
        sizes[id(node)] = total
        return total

    if size(root, 0) > len(sizes) + MAX_ALIAS_GROWTH:
        raise NodeError(f"aliases add more than {MAX_ALIAS_GROWTH:,} values to this file", 1, 1)


_PLAINER: tuple[tuple[str, str, str | None], ...] = (
    ("mapping values are not allowed", "a `:` where no key can stand", "quote values with `: `; check the line above"),
    ("could not find expected ':'", "a key without its `:`", "write `name: value`"),
    ("did not find expected key", "this does not continue the map above it", "check the indentation and quotes"),
    ("expected <block end>", "this does not continue what is above it", "check the indentation and quotes"),
    ("did not find expected '-' indicator", "this does not continue the list above it", "check the indentation"),
    ("undefined alias", "an alias (*name) to an anchor (&name) that does not exist", None),
    ("expected a single document", "a second document", "one file holds one workload: remove the `---`"),
    ("but found another document", "a second document", "one file holds one workload: remove the `---`"),
    ("did not find expected node content", "no value where one is expected", "is a `[`, `{` or quote left open?"),
    ("cannot start any token", "no value can start like this", "put it in quotes"),
)
_NEVER_CLOSED: tuple[tuple[str, str, str], ...] = (
    ("found unexpected end of stream", "a quote that is never closed", ""),
    ("expected ',' or ']'", "a `[` that is never closed", "a `,` or `]` is missing before this"),
    ("expected ',' or '}'", "a `{` that is never closed", "a `,` or `}` is missing before this"),
)


def _syntax_error(error: yaml.MarkedYAMLError, text: str) -> NodeError:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    lines = split_lines(text)
    source = lines[line - 1] if line <= len(lines) else ""
    if "\t" in source[: column + 1] and not source[: column - 1].strip():
        return NodeError("a tab in the indentation", line, source.index("\t") + 1, "YAML indents with spaces")
    said = f"{error.context or ''} {error.problem or ''}"
    more = "".join([source[column - 1 :], *lines[line:]]).strip()
    start = error.context_mark or mark
    for phrase, never_closed, missing in _NEVER_CLOSED:
        if phrase in said and start:
            if more and missing:
                return NodeError(f"not valid YAML: {missing} (opened on line {start.line + 1})", line, column)
            return NodeError(f"not valid YAML: {never_closed}", start.line + 1, start.column + 1)
    for phrase, message, hint in _PLAINER:
        if phrase in said:
            return NodeError(f"not valid YAML: {message}", line, column, hint)
    return NodeError(f"not valid YAML: {error.problem or error.context}", line, column)

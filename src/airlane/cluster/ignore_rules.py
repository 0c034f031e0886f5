"""What ignore files leave out of a folder: patterns as in gitignore(5), in .gitignore, .rayignore and `excludes`.

Ray reads both files and asks no git, so neither is one needed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from airlane.frozen import frozen

IGNORE_FILES = (".gitignore", ".rayignore")
# What Ray leaves out as well (RAY_RUNTIME_ENV_DEFAULT_EXCLUDES).
ALWAYS = (".git", ".venv", "venv", "__pycache__")
_SPECIAL = re.compile(r"\\.|\*\*/|/\*\*$|\*+|\?|\[|/|.", re.DOTALL)
_CLASS = re.compile(r"\[([!^]?)((?:\]|\\.|\[:\w+:\]|[^\]\\])(?:\\.|\[:\w+:\]|[^\]\\])*)\]")
_NAMED_CLASSES = {
    "[:alnum:]": "a-zA-Z0-9",
    "[:alpha:]": "a-zA-Z",
    "[:blank:]": r" \t",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:punct:]": r"!-/:-@\[-`{-~",
    "[:space:]": r"\s",
    "[:upper:]": "A-Z",
    "[:xdigit:]": "0-9a-fA-F",
}


@frozen
class Pattern:
    """One line. `expression` matches whole paths, relative to the folder of the file that has the line."""

    expression: re.Pattern[str]
    negated: bool
    folders_only: bool

    def names(self, path: str, *, folder: bool) -> bool:
        return (folder or not self.folders_only) and self.expression.fullmatch(path) is not None


@frozen
class Rules:
    """The patterns of one file: `prefix` is its folder in the folder that is walked, "" or "a/b/".

    Where the file lies above that folder, `below` is the way from there to it.
    """

    patterns: tuple[Pattern, ...]
    prefix: str = ""
    below: str = ""

    def verdict(self, path: str, *, folder: bool) -> bool | None:
        """Whether the path is left out; None where no pattern names it. The last one that does decides."""
        if not path.startswith(self.prefix):
            return None
        seen = self.below + path[len(self.prefix) :]
        for pattern in reversed(self.patterns):
            if pattern.names(seen, folder=folder):
                return not pattern.negated
        return None


def left_out(chain: Sequence[Rules], path: str, *, folder: bool) -> bool:
    """Whether a path is left out, by rules from the outermost folder's to the innermost's, which have the last word."""
    for rules in reversed(chain):
        verdict = rules.verdict(path, folder=folder)
        if verdict is not None:
            return verdict
    return False


def read_rules(file: Path, *, prefix: str = "", below: str = "") -> tuple[Rules, ...]:
    """The rules of an ignore file; none where there is no such file. Raises OSError."""
    if not file.is_file():
        return ()
    return (Rules(parse(file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()), prefix, below),)


def rules_above(folder: Path, name: str) -> tuple[Rules, ...]:
    """What the files of that name say in the folders above, from the top of the repository that holds the folder.

    They do not count where they leave out the folder itself: it was named all the same. Raises OSError.
    """
    chain: tuple[Rules, ...] = ()
    for place in _repository_above(folder):
        steps = folder.relative_to(place).parts
        found = read_rules(place / name, below="/".join(steps) + "/")
        ways = ["/".join(steps[: count + 1]) for count in range(len(steps))]
        if any(Rules(rules.patterns).verdict(way, folder=True) for rules in found for way in ways):
            return ()
        chain += found
    return chain


def _repository_above(folder: Path) -> list[Path]:
    """The folders above this one that are in the same repository, the outermost first."""
    if (folder / ".git").exists():
        return []
    above: list[Path] = []
    for place in folder.parents:
        above.insert(0, place)
        if (place / ".git").exists():
            return above
    return []


def parse(lines: Iterable[str]) -> tuple[Pattern, ...]:
    """The patterns of an ignore file's lines. A line that cannot be read names nothing, as with git."""
    found = (_pattern(line) for line in lines)
    return tuple(pattern for pattern in found if pattern is not None)


def _pattern(line: str) -> Pattern | None:
    text = _without_trailing_spaces(line.rstrip("\r\n"))
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[1:] if negated else text
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    anchored = "/" in text
    text = text.removeprefix("/")
    if not text:
        return None
    try:
        expression = re.compile(("" if anchored else "(?:.*/)?") + _expression(text), re.DOTALL)
    except re.error:
        return None
    return Pattern(expression, negated, folders_only)


def _without_trailing_spaces(line: str) -> str:
    bare = line.rstrip(" ")
    escaped = (len(bare) - len(bare.rstrip("\\"))) % 2 == 1
    return f"{bare} " if escaped and bare != line else bare


def _expression(text: str) -> str:
    """A pattern as a regular expression."""
    parts: list[str] = []
    position = 0
    while position < len(text):
        found = _CLASS.match(text, position) or _SPECIAL.match(text, position)
        if found is None:
            raise re.error(text)
        parts.append(_class(found) if found.re is _CLASS else _part(found[0], at_start=_starts_step(text, position)))
        position = found.end()
    return "".join(parts)


def _starts_step(text: str, position: int) -> bool:
    return position == 0 or text[position - 1] == "/"


def _part(piece: str, *, at_start: bool) -> str:
    if piece == "**/":
        return "(?:.*/)?" if at_start else "[^/]*/"
    if piece == "/**":
        return "/.+"
    if piece.startswith("*"):
        return "[^/]*"
    if piece == "?":
        return "[^/]"
    if piece == "[":
        raise re.error(piece)  # it has no end
    return re.escape(piece[1:] if len(piece) > 1 else piece)


def _class(found: re.Match[str]) -> str:
    inner = found[2]
    for name, letters in _NAMED_CLASSES.items():
        inner = inner.replace(name, letters)
    if inner.startswith("]"):
        inner = "\\" + inner
    inner = inner.replace("[", r"\[").replace("&&", r"&\&").replace("||", r"|\|").replace("~~", r"~\~")
    return f"(?!/)[{'^' if found[1] else ''}{inner}]"

"""How the problems of a workload file look on a screen: plain text, for the CLI to style."""

from __future__ import annotations

import unicodedata

from airlane.errors import Problem, SpecError

MAX_SHOWN = 20
_WIDTH = 72
_SENTENCE_ENDS = (".", "?", "!", ":")


def render_problems(error: SpecError) -> str:
    """Every problem with its place, the line in question and what to do; then how many there are."""
    lines: list[str] = []
    for problem in error.problems[:MAX_SHOWN]:
        lines += render_problem(problem)
    count = len(error.problems)
    more = f", the first {MAX_SHOWN} shown" if count > MAX_SHOWN else ""
    if any(problem.field or problem.line for problem in error.problems):  # a file that cannot be read needs no help
        lines.append(f"{count} problem{'' if count == 1 else 's'}{more}. Fields and examples: air -h config")
    return "\n".join(lines)


def render_problem(problem: Problem) -> list[str]:
    """The lines of one problem."""
    name = f"{problem.field}: " if problem.field else ""
    head = f"{where(problem)}{name}{problem.message}"
    if not problem.source_lines or problem.column is None:
        return [_joined(head, problem.hint)]
    return [head, *_frame(problem, problem.column)]


def where(problem: Problem) -> str:
    """The file, line and column, ready to be followed by text; empty where there is no file."""
    if problem.file is None:
        return ""
    place = f"{problem.file}:{problem.line}:{problem.column}" if problem.line else problem.file
    return f"{place}  "


def _joined(head: str, hint: str | None) -> str:
    if not hint:
        return head
    if hint[:1].isupper():
        return f"{head} {hint}" if head.endswith(_SENTENCE_ENDS) else f"{head}. {hint}"
    return f"{head}; {hint}"


def _frame(problem: Problem, column: int) -> list[str]:
    before = problem.source_lines[-1][1][: column - 1]
    cut = max(0, column - 1 - _WIDTH // 2) if column > _WIDTH - 10 else 0
    shown = problem.source_lines[-1:] if cut else problem.source_lines
    frame = [f"{number:>5} | {_clipped(text, cut)}".rstrip() for number, text in shown]
    indent = " " * (_cells(_printable(before[cut:])) + (3 if cut else 0))
    return [*frame, f"      | {indent}^ {problem.hint or ''}".rstrip()]


def _clipped(text: str, cut: int) -> str:
    shown = _printable(text[cut:])
    start = "..." if cut and shown else ""
    return start + (shown if len(shown) <= _WIDTH else f"{shown[: _WIDTH - 3]}...")


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _cells(text: str) -> int:
    """Terminal columns: East Asian letters take two, combining marks none."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(bool(unicodedata.combining(letter)) for letter in text)

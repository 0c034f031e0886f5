"""Why a node's command failed, told from the end of its log and from how it ended."""

from __future__ import annotations

import os
import re
import signal as signals
from collections.abc import Iterator, Sequence
from pathlib import Path

from airlane.frozen import frozen
from airlane.logs.lines import Line, read_lines
from airlane.logs.rules import BARE, EXCEPTION, RULES, SPECIFIC, WEAK, Rule
from airlane.logs.tracebacks import Raised, find_raised

TAIL_BYTES = 256 << 10
HEAD_BYTES = 64 << 10
MOST_LINES = 8
LONGEST_LINE = 300
LONGEST_TITLE = 120
_LEAST_SPACE_BYTES = 64 << 10
# A failure that so many ordinary lines follow was most likely survived.
SURVIVED_LINES = 300
_SURVIVED_RANKS = 15

_BARE_EXCEPTION = re.compile(r"^(?:[a-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?:: .*|:?$)")

_BY_SIGNAL: dict[str, tuple[str, str | None]] = {
    "SIGKILL": ("killed (SIGKILL)", "something ended it from outside; most often that is memory"),
    "SIGTERM": ("ended by SIGTERM", "something asked it to stop from outside"),
    "SIGSEGV": ("segmentation fault", "python -X faulthandler shows where"),
    "SIGBUS": ("bus error", "num_workers=0 in the data loader, or a larger /dev/shm"),
    "SIGILL": ("the program has instructions this CPU lacks", "packages built for this CPU"),
    "SIGABRT": ("aborted (SIGABRT)", "the last lines of the log say by what"),
    "SIGFPE": ("arithmetic error (SIGFPE)", None),
    "SIGPIPE": ("a pipe was closed before its writer had ended", "under pipefail, head and grep -q end a pipe early"),
    "SIGINT": ("interrupted", None),
    "SIGXCPU": ("the CPU time limit was reached", "ulimit -t"),
}
_BY_EXIT_CODE: dict[int, tuple[str, str | None]] = {
    124: ("a time limit inside the command was reached", "timeout in the command ended its program"),
    126: ("a file in the command cannot be executed", "chmod +x it, or start it with bash or python"),
    127: ("command not found", "a package that brings it in environment.dependencies, or its full path"),
}
_BY_CRASH = frozenset({"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"})
_OOM_TITLE = "out of memory on the host"
_OOM_HINT = "fewer data loader workers or smaller batches, or a node with more memory"


@frozen
class Finding:
    """What the log says: a title (None where nothing is recognised), the lines that show it, what to try."""

    title: str | None
    lines: tuple[str, ...]
    hint: str | None = None


@frozen
class _Failure:
    """One sign of failure; the smallest (rank, index) is the cause."""

    rank: int
    index: int
    title: str
    lines: tuple[str, ...]
    hint: str | None
    killed: bool = False


def find_cause(log: Path, *, exit_code: int | None, signal: str | None, oom_kill: bool) -> Finding:
    """Why the command that wrote `log` failed; reads at most the log's first 64 KB and last 256 KB.

    `signal` is a name such as SIGKILL; `oom_kill`: the kernel killed something for memory meanwhile. The first failure
    in time is preferred to those that it caused. A log that cannot be read counts as empty.
    """
    lines = [line for piece in _pieces(log) for line in read_lines(piece)]
    ended_by = signal or _signal_of(exit_code)
    best = min(_failures(lines, exit_code), key=lambda failure: (failure.rank, failure.index), default=None)
    last = _last_lines(lines)
    if oom_kill and (ended_by == "SIGKILL" or best is None or best.killed or best.rank > BARE):
        return Finding(_OOM_TITLE, best.lines if best and best.killed else last, _OOM_HINT)
    by_signal = _BY_SIGNAL.get(ended_by) if ended_by else None
    if best and not (ended_by in _BY_CRASH and best.rank > SPECIFIC):
        return Finding(best.title, best.lines, best.hint)
    if ended_by:
        title, hint = by_signal or (f"ended by {ended_by}", None)
        return Finding(title, last, hint)
    if exit_code in _BY_EXIT_CODE:
        title, hint = _BY_EXIT_CODE[exit_code]
        return Finding(title, last, hint)
    if _is_full(log.parent):
        # The line that would have said so could not be written either.
        return Finding("no space left on the disk that holds this log", last, "free space there: air env prune")
    return Finding(None, last)


def _is_full(folder: Path) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _LEAST_SPACE_BYTES


def _pieces(log: Path) -> Iterator[bytes]:
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            if size > HEAD_BYTES + TAIL_BYTES:
                yield file.read(HEAD_BYTES)
                file.seek(size - TAIL_BYTES)
            yield file.read(HEAD_BYTES + TAIL_BYTES)
    except OSError:
        return


def _signal_of(exit_code: int | None) -> str | None:
    """What bash reports as 128 + n when a program died of signal n."""
    if exit_code is None or exit_code <= 128:  # noqa: PLR2004 - explained above
        return None
    try:
        return signals.Signals(exit_code - 128).name
    except ValueError:
        return None


def _failures(lines: Sequence[Line], exit_code: int | None) -> Iterator[_Failure]:
    raised, used = find_raised(lines)
    ordinary_after = _ordinary_after(lines, used)
    for one in raised:
        yield _aged(_from_exception(one, exit_code), ordinary_after)
    for index, line in enumerate(lines):
        if index not in used and line.text:
            failure = _from_line(lines, index, exit_code)
            if failure:
                yield _aged(failure, ordinary_after)


def _ordinary_after(lines: Sequence[Line], used: set[int]) -> list[int]:
    """For each line, how many lines after it belong to no traceback."""
    counts = [0] * len(lines)
    for index in range(len(lines) - 2, -1, -1):
        counts[index] = counts[index + 1] + (index + 1 not in used and bool(lines[index + 1].text))
    return counts


def _aged(failure: _Failure, ordinary_after: Sequence[int]) -> _Failure:
    if ordinary_after[failure.index] <= SURVIVED_LINES:
        return failure
    return _Failure(
        failure.rank + _SURVIVED_RANKS, failure.index, failure.title, failure.lines, failure.hint, failure.killed
    )


def _from_exception(raised: Raised, exit_code: int | None) -> _Failure:
    text = raised.exception.text.strip()
    said = (text, *raised.message[1:])
    shown = [*raised.frame, raised.exception.shown()]
    shown += [line.strip() for line in raised.message[1:] if line[:1].isspace()]
    found = _match(text, exit_code, in_message=False)
    for line in said[1:]:
        found = found or _match(line, exit_code, in_message=True)
        if found and line not in shown and line.strip() not in shown and found[1].string == line:
            shown.append(line.strip())
    rank, title, hint, killed = EXCEPTION, text, None, False
    if found:
        rank, title, hint, killed = _told(*found, exit_code)
    if raised.consequence:
        rank = max(rank, min(rank + _SURVIVED_RANKS, WEAK))
    return _Failure(rank, raised.index, _clip(title, LONGEST_TITLE), _fit(shown), hint, killed)


def _from_line(lines: Sequence[Line], index: int, exit_code: int | None) -> _Failure | None:
    text = lines[index].text
    found = _match(text, exit_code, in_message=False)
    if found:
        rank, title, hint, killed = _told(*found, exit_code)
        shown = [line.shown() for line in lines[index : index + 1 + found[0].after] if line.text.strip()]
        if title.startswith(("SyntaxError", "IndentationError", "TabError")):
            shown = [line.text.rstrip() for line in lines[max(0, index - 3) : index + 1]]
        return _Failure(rank, index, _clip(title, LONGEST_TITLE), _fit(shown), hint, killed)
    if _BARE_EXCEPTION.match(text):
        return _Failure(BARE, index, _clip(text, LONGEST_TITLE), _fit([lines[index].shown()]), None)
    return None


def _match(text: str, exit_code: int | None, *, in_message: bool) -> tuple[Rule, re.Match[str]] | None:
    """The rule that says most about a line."""
    best: tuple[Rule, re.Match[str]] | None = None
    for rule in RULES:
        if in_message and not rule.in_message:
            continue
        if best and _rank(rule, exit_code) >= _rank(best[0], exit_code):
            continue
        match = rule.pattern.search(text, 0, 4 * LONGEST_LINE)
        if match:
            best = rule, match
    return best


def _rank(rule: Rule, exit_code: int | None) -> int:
    return WEAK if rule.exit_codes and exit_code not in rule.exit_codes else rule.rank


def _told(rule: Rule, match: re.Match[str], exit_code: int | None) -> tuple[int, str, str | None, bool]:
    words = rule.words(match)
    hint = rule.hint.format_map(words) if rule.hint else None
    return _rank(rule, exit_code), rule.title.format_map(words), hint, rule.killed


def _last_lines(lines: Sequence[Line]) -> tuple[str, ...]:
    shown = [line.shown() for line in lines if line.text.strip()]
    return _fit(shown[-MOST_LINES:])


def _fit(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(_clip(line, LONGEST_LINE) for line in lines[:MOST_LINES])


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."

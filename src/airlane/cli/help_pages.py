"""The pages of `air -h` and `air COMMAND -h`: an example first, at most 80 columns, the same on every Python."""

from __future__ import annotations

import argparse
import textwrap

from airlane.cli.command import Command
from airlane.cli.parser import Parser
from airlane.cli.registry import COMMANDS, GROUPS

COLUMNS = 80
_LEFT = 24


def overview() -> str:
    """What `air` alone prints."""
    parts = [
        "air run -f train.yaml --watch     check, freeze the code, run, follow",
        "air get @last                     what happened, and why",
    ]
    for title, entries in GROUPS.items():
        parts += ["", title.capitalize(), *_rows([(name, entry.summary) for name, entry in entries.items()])]
    parts += ["", "Everywhere", *_options(Parser("").common)]
    parts += [
        "",
        "More",
        *_rows(
            [
                ("air COMMAND -h", "a command, with examples"),
                ("air -h config", "every field of a workload (air -h config.compute: one)"),
                ("air --version", "which Airlane this is"),
            ]
        ),
    ]
    return "\n".join(parts)


def group_page(group: str) -> str:
    """What the first words of several commands print when they stand alone."""
    rows = [(f"air {name}", entry.summary) for name, entry in COMMANDS.items() if name.startswith(f"{group} ")]
    return "\n".join([*_rows(rows), "", f"Examples and options of one: air {group} ACTION -h"])


def command_page(command: Command) -> str:
    """What `air COMMAND -h` prints."""
    parser = command.parser()
    summary = COMMANDS[command.name].summary
    parts = [*_examples(command.examples), "", f"{summary[0].upper()}{summary[1:]}.", ""]
    parts.append(f"Usage: air {command.name} {command.usage}".rstrip())
    own = [action for action in parser._actions if action not in parser.common._group_actions]  # noqa: SLF001
    if own:
        parts += ["", *_actions(own)]
    parts += ["", "Everywhere", *_options(parser.common)]
    if command.notes:
        parts += ["", *textwrap.wrap(command.notes, COLUMNS)]
    return "\n".join(parts)


def _examples(examples: tuple[tuple[str, str], ...]) -> list[str]:
    left = max(len(typed) for typed, _ in examples) + 3
    if all(left + len(does) <= COLUMNS for _, does in examples):
        return [f"{typed:<{left}}{does}" for typed, does in examples]
    return [line for typed, does in examples for line in (typed, f"    {does}")]


def _options(group: argparse._ArgumentGroup) -> list[str]:
    return _actions(group._group_actions)  # noqa: SLF001 - argparse has no public way to list them


def _actions(actions: list[argparse.Action]) -> list[str]:
    return _rows([(_name(action), action.help or "") for action in actions if action.help != argparse.SUPPRESS])


def _name(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return value
    options = ", ".join(action.option_strings)
    return options if action.nargs == 0 else f"{options} {value}"


def _rows(rows: list[tuple[str, str]]) -> list[str]:
    """Two columns; what does not fit beside its name is wrapped below the column."""
    lines: list[str] = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, COLUMNS - _LEFT) or [""]
        if len(name) + 4 > _LEFT:
            lines.append(f"  {name}")
        else:
            lines.append(f"  {name:<{_LEFT - 2}}{wrapped.pop(0)}".rstrip())
        lines += [" " * _LEFT + line for line in wrapped]
    return lines

"""The completion script of a shell, made from the parsers of all commands."""

from __future__ import annotations

import argparse
from typing import Any

from airlane.cli.registry import COMMANDS, FIRST_WORDS, load

_RUNS = "air list -q --all-status --limit 50"


def completion_script(shell: str) -> str:
    """The script for bash, zsh, fish or tcsh."""
    import shtab

    return str(shtab.complete(_whole_parser(), shell=shell))


def _whole_parser() -> argparse.ArgumentParser:
    """One argparse tree of all commands, for shtab alone; commands parse their own words."""
    parser = argparse.ArgumentParser(prog="air", add_help=False)
    parser.add_argument("--version", action="store_true", help="which Airlane this is")
    parser.add_argument("-h", "--help", action="store_true", help="help")
    commands = parser.add_subparsers()
    for first in FIRST_WORDS:
        _add_all(commands, first)
    return parser


def _add_all(commands: argparse._SubParsersAction[argparse.ArgumentParser], start: str) -> None:
    """What begins with these words: a command, or others below them."""
    word = start.rpartition(" ")[2]
    if start in COMMANDS:
        _add(commands, start, word)
        return
    depth = len(start.split())
    names = [name.split() for name in COMMANDS if name.startswith(f"{start} ")]
    following = tuple(dict.fromkeys(name[depth] for name in names))
    # shtab leaves out what has no help
    actions = commands.add_parser(word, add_help=False, help=", ".join(following)).add_subparsers()
    for action in following:
        _add_all(actions, f"{start} {action}")


def _add(commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, word: str) -> None:
    import shtab

    complete = {
        "FILE": shtab.glob("*.yaml", "*.yml"),
        "FOLDER": shtab.DIRECTORY,
        "RECORDING": shtab.FILE,
        "ID": _output(_RUNS),
        "SCOPE/KEY": _output("air secrets list"),
    }
    own = load(name).parser()
    for action in own._actions:  # noqa: SLF001 - argparse has no public way to list them
        if action.metavar in complete:
            action.complete = complete[str(action.metavar)]  # type: ignore[attr-defined] # how shtab is told
    commands.add_parser(word, parents=[own], add_help=False, help=COMMANDS[name].summary)


def _output(command: str) -> dict[str, Any]:
    """The words that a command prints when the key is pressed; what it complains about is not shown."""
    import shtab

    return {**shtab.cmd(f"{command} 2>/dev/null"), "tcsh": f"`{command}`"}  # tcsh cannot redirect stderr alone

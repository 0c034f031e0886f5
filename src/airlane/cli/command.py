"""What a command is: how its words are read, and what it does with them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from airlane.cli.parser import Parser
from airlane.cli.screen import Screen
from airlane.frozen import frozen

if TYPE_CHECKING:
    from airlane.api import Client


@frozen
class Context:
    """What every command may use: the global options, and where to write."""

    screen: Screen
    profile: str | None = None
    json: bool = False
    verbose: bool = False

    def client(self) -> Client:
        from airlane.api import Client

        return Client(profile=self.profile)


@frozen
class Command:
    """One command. `examples` are (what to type, what it does); `noun` is a word that may stand after the command.

    `execute` returns the exit code; what it raises is told to the user by the caller.
    """

    name: str
    usage: str
    examples: tuple[tuple[str, str], ...]
    configure: Callable[[Parser], None]
    execute: Callable[[Namespace, Context], int]
    noun: str | None = None
    notes: str = ""

    def parser(self) -> Parser:
        parser = Parser(self.name, example=self.examples[0][0])
        self.configure(parser)
        return parser

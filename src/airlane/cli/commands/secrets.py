"""air secrets: set, list and delete secrets; a value comes from a prompt or from stdin, never from the command line."""

from __future__ import annotations

import sys
import time
from argparse import Namespace

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.parser import Parser
from airlane.errors import EXIT_OK, ArgumentError


def _named(parser: Parser) -> None:
    parser.add_argument("ref", metavar="SCOPE/KEY", help="the name of the secret")


def _unnamed(_parser: Parser) -> None:
    """Nothing beside the options that every command has."""


def _set(values: Namespace, context: Context) -> int:
    context.client().secrets.set(values.ref, _value(values.ref))
    return _done(context, {"secret": values.ref}, f"{values.ref} is set.")


def _delete(values: Namespace, context: Context) -> int:
    context.client().secrets.delete(values.ref)
    return _done(context, {"deleted": values.ref}, f"{values.ref} is deleted.")


def _list(_values: Namespace, context: Context) -> int:
    refs = context.client().secrets.list()
    if context.json:
        context.screen.show(data_line({"secrets": list(refs)}, time.time()))
    elif refs:
        context.screen.show("\n".join(refs))
    else:
        context.screen.say("There are no secrets.\n  air secrets set hf/token")
    return EXIT_OK


def _value(ref: str) -> str:
    if sys.stdin.isatty():
        from getpass import getpass

        try:
            return getpass(f"Value of {ref} (not shown): ")
        except EOFError as error:  # Ctrl-D
            raise ArgumentError(f"\nNo value was given for {ref}.", hint=f"air secrets set {ref}") from error
    from airlane.store.secrets import strip_final_newline

    return strip_final_newline(sys.stdin.buffer.read().decode("utf-8", "surrogateescape"))


def _done(context: Context, facts: dict[str, str], words: str) -> int:
    if context.json:
        context.screen.show(data_line(facts, time.time()))
    else:
        context.screen.say(words)
    return EXIT_OK


COMMANDS = (
    Command(
        "secrets set",
        "SCOPE/KEY",
        (
            ("air secrets set hf/token", "asks for the value"),
            ("air secrets set hf/token < token.txt", "from a file (or a pipe)"),
        ),
        _named,
        _set,
        notes="In a workload: secrets: {HF_TOKEN: hf/token}. The command finds the value in $HF_TOKEN; logs show *** "
        "in its place. Values are kept in private files (0600) under $AIR_HOME/secrets.",
    ),
    Command("secrets list", "", (("air secrets list", "names only, never values"),), _unnamed, _list),
    Command("secrets delete", "SCOPE/KEY", (("air secrets delete hf/token", "forget it"),), _named, _delete),
)

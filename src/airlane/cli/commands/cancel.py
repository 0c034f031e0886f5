"""air cancel: stop runs."""

from __future__ import annotations

import sys
import time
from argparse import Namespace

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.parser import Parser
from airlane.cli.words import count
from airlane.errors import EXIT_OK, AirError


class _RefusedError(AirError):
    """It is not clear which runs, or nobody said yes. Exit code 1, as the reference client has it."""

    code = "INVALID_ARGS"
    kind = "USER"


def configure(parser: Parser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="runs: ids, beginnings of ids, or @last")
    parser.add_argument("--all", action="store_true", help="every run of yours that has not ended")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask (with --all)")


def execute(values: Namespace, context: Context) -> int:
    if bool(values.ids) == values.all:
        what = "ids and --all exclude each other" if values.all else "which run? An id, or --all, is missing"
        raise _RefusedError(f"air cancel: {what}", hint="air list")
    client = context.client()
    if values.all and not values.yes:
        _confirm(context)
    cancelled = client.cancel_all() if values.all else client.cancel(values.ids)
    if context.json:
        facts = {"cancelled": list(cancelled), **({"all": True} if values.all else {})}
        context.screen.show(data_line(facts, time.time()))
        return EXIT_OK
    for run_id in cancelled:
        context.screen.show(run_id)
    context.screen.say(f"Canceling {count(len(cancelled), 'run')}." if cancelled else "No run had to be canceled.")
    return EXIT_OK


def _confirm(context: Context) -> None:
    if context.json or not sys.stdin.isatty():
        raise _RefusedError("air cancel --all needs a yes", hint="air cancel --all --yes")
    context.screen.write_err("Cancel every run of yours that has not ended? [y/N] ")
    typed = sys.stdin.readline()
    if not typed.endswith("\n"):  # Ctrl-D
        context.screen.say()
    if typed.strip().lower() not in ("y", "yes"):
        raise _RefusedError("Nothing was canceled.")


COMMANDS = (
    Command(
        "cancel",
        "ID... | --all [options]",
        (
            ("air cancel 7k2m9q4d", "one run"),
            ("air cancel --all --yes", "every run of yours, without asking"),
        ),
        configure,
        execute,
        notes="Its processes get SIGTERM, and SIGKILL after stop_grace_s (30 s). A run that has ended stays as it is.",
    ),
)

"""air init: a folder that is ready to run."""

from __future__ import annotations

import shlex
import time
from argparse import Namespace
from pathlib import Path

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.parser import Parser
from airlane.cli.words import count
from airlane.errors import EXIT_OK, ArgumentError


def configure(parser: Parser) -> None:
    from airlane.api.starters import STARTERS

    kinds = ", ".join(STARTERS)
    parser.add_argument("kind", nargs="?", choices=tuple(STARTERS), metavar="KIND", help=f"{kinds}; none lists them")
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="a folder that is new or empty")


def execute(values: Namespace, context: Context) -> int:
    from airlane.api.starters import write_starter

    if values.kind is None:
        return _list(context)
    if values.folder is None:
        raise ArgumentError("air init: FOLDER is missing", hint=f"for example air init {values.kind} my-{values.kind}")
    written = write_starter(values.kind, values.folder)
    place = str(written.workload)
    following = f"air run -f {shlex.quote(f'./{place}' if place.startswith('-') else place)} --watch"
    if context.json:
        facts = {
            "kind": written.kind,
            "folder": str(written.folder),
            "files": list(written.files),
            "workload": str(written.workload),
            "next": following,
        }
        context.screen.show(data_line(facts, time.time()))
        return EXIT_OK
    look = context.screen.err_look
    context.screen.say(f"{look.ok} {written.folder}  {count(len(written.files), 'file')}; README.md says what they do")
    context.screen.say(f"  {following}")
    return EXIT_OK


def _list(context: Context) -> int:
    from airlane.api.starters import STARTERS

    if context.json:
        kinds = [{"kind": kind, "summary": starter.summary} for kind, starter in STARTERS.items()]
        context.screen.show(data_line({"kinds": kinds}, time.time()))
        return EXIT_OK
    column = max(map(len, STARTERS))
    context.screen.show("\n".join(f"{kind:<{column}}  {starter.summary}" for kind, starter in STARTERS.items()))
    context.screen.say("\nWrite one of them: air init KIND FOLDER")
    return EXIT_OK


COMMANDS = (
    Command(
        "init",
        "[KIND FOLDER]",
        (
            ("air init", "the kinds there are"),
            ("air init sft demo", "then: air run -f demo/train.yaml --watch"),
        ),
        configure,
        execute,
        notes="The folder holds a workload (train.yaml), the program that it runs and a README.md, all yours to "
        "change. It runs as it is, without GPUs and without network beyond your package index.",
    ),
)

"""air get: what happened to a run, and why."""

from __future__ import annotations

import time
from argparse import Namespace

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.parser import Parser
from airlane.cli.run_json import run_facts
from airlane.cli.run_pages import get_page
from airlane.errors import EXIT_OK


def configure(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="a run: its id, the beginning of one, or @last")


def execute(values: Namespace, context: Context) -> int:
    view = context.client().get(values.id).view()
    now = time.time()
    if context.json:
        context.screen.show(data_line(run_facts(view, now), now))
        return EXIT_OK
    workload = view.paths.workload.read_text(encoding="utf-8", errors="replace") if context.verbose else None
    context.screen.show(get_page(view, context.screen.out_look, now, workload=workload))
    return EXIT_OK


COMMANDS = (
    Command(
        "get",
        "[run] ID [options]",
        (
            ("air get @last", "the latest run"),
            ("air get 7k2m", "the beginning of an id is enough"),
            ("air get run 7k2m9q4d -v", "with the workload as it was submitted"),
        ),
        configure,
        execute,
        noun="run",
        notes="The exit code is 0 whatever became of the run.",
    ),
)

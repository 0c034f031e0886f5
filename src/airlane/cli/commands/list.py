"""air list: the latest runs."""

from __future__ import annotations

import time
from argparse import Namespace

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.parser import Parser, flatten, pairs, whole_number
from airlane.cli.run_json import list_facts
from airlane.cli.run_pages import run_table
from airlane.errors import EXIT_OK


def configure(parser: Parser) -> None:
    parser.add_argument("--limit", type=whole_number(1), default=20, metavar="N", help="at most so many (20)")
    parser.add_argument("-q", "--quiet", action="store_true", help="ids alone, one a line")
    parser.add_argument("--all-status", action="store_true", help="also runs that ended more than 24 hours ago")
    parser.add_argument("--all-users", action="store_true", help="also other people's runs")
    parser.add_argument(
        "--filter",
        action="append",
        nargs="+",
        metavar="KEY=VALUE",
        help="only runs that match: experiment=GLOB, accelerator_type=PART, num_accelerators=N, user=NAME",
    )


def execute(values: Namespace, context: Context) -> int:
    filters = pairs("--filter", flatten(values.filter))
    screen, now = context.screen, time.time()
    views = context.client().list(
        limit=values.limit,
        all_status=values.all_status,
        all_users=values.all_users,
        filters=filters,
        on_damage=lambda error: screen.say(f"left out: {error.message}"),
    )
    if context.json:
        screen.show(data_line({"runs": [list_facts(view, now) for view in views]}, now))
    elif values.quiet:
        for view in views:
            screen.show(view.record.id)
    elif views:
        screen.show(run_table(views, screen.out_look, now))
        if len(views) == values.limit and screen.out_is_terminal:
            screen.say(f"These are the latest {values.limit}. More: --limit {5 * values.limit}")
    else:
        screen.say(_nothing(values, context))
    return EXIT_OK


def _nothing(values: Namespace, context: Context) -> str:
    older = not values.all_status and bool(context.client().list(limit=1, all_status=True, all_users=values.all_users))
    if values.filter:
        return "No run of the last 24 hours matches.\n  with --all-status: older ones" if older else "No run matches."
    if older:
        return "No run waits, runs, or ended in the last 24 hours.\n  air list --all-status"
    return "There are no runs yet.\n  air run -f train.yaml"


COMMANDS = (
    Command(
        "list",
        "[runs] [options]",
        (
            ("air list", "what waits, runs, or ended in the last 24 hours"),
            ("air list --all-status", "old ones too"),
            ("air list --filter experiment='sft-*' num_accelerators=8", "some of them"),
            ("air cancel $(air list -q)", "ids for other commands"),
        ),
        configure,
        execute,
        noun="runs",
    ),
)

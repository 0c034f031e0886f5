"""air rerun: submit a run again, with the same code and settings."""

from __future__ import annotations

from argparse import Namespace

from airlane.cli.command import Command, Context
from airlane.cli.parser import Parser, flatten
from airlane.cli.submitting import submitted, watched
from airlane.errors import EXIT_OK


def configure(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="a run: its id, the beginning of one, or @last")
    parser.add_argument("--watch", action="store_true", help="follow node 0 until the run ends; exit with its outcome")
    parser.add_argument(
        "--override", action="append", nargs="+", metavar="FIELD=VALUE", help="set fields of the workload"
    )


def execute(values: Namespace, context: Context) -> int:
    client = context.client()
    overrides = flatten(values.override)
    run = submitted(lambda progress: client.rerun(values.id, overrides, progress=progress), context, watch=values.watch)
    return watched(run, context) if values.watch else EXIT_OK


COMMANDS = (
    Command(
        "rerun",
        "ID [options]",
        (
            ("air rerun @last --watch", "the same once more"),
            ("air rerun 7k2m --override parameters.lr=1e-4", "with another value"),
        ),
        configure,
        execute,
        notes="The code is the snapshot that was frozen then, not what the folder holds now.",
    ),
)

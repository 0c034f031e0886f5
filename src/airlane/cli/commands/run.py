"""air run: submit a workload, and follow it if asked to."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.parser import Parser, flatten
from airlane.cli.plan_pages import check_marks, dry_run_page, plan_facts
from airlane.cli.submitting import submitted, watched
from airlane.errors import EXIT_OK, ArgumentError


def configure(parser: Parser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="the workload (the same as -f FILE)")
    parser.add_argument("-f", "--file", dest="file_option", metavar="FILE", help="the workload, a YAML file")
    parser.add_argument("--watch", action="store_true", help="follow node 0 until the run ends; exit with its outcome")
    parser.add_argument(
        "--override",
        action="append",
        nargs="+",
        metavar="FIELD=VALUE",
        help="set fields of the workload, one or several",
    )
    parser.add_argument("--dry-run", action="store_true", help="check everything and show what would be done")
    parser.add_argument("--simulate", action="store_true", help="run without the accelerators that the file asks for")
    parser.add_argument(
        "--idempotency-key", metavar="KEY", help="submitting again with the same key gives the same run"
    )


def execute(values: Namespace, context: Context) -> int:
    file, overrides = _file_and_overrides(values)
    client = context.client()
    plan = client.plan(file, overrides, simulate=values.simulate, touch=not values.dry_run)
    screen = context.screen
    if values.dry_run:
        if context.json:
            screen.show(data_line(plan_facts(plan), time.time()))
        screen.say(dry_run_page(plan, screen.err_look))
        return EXIT_OK
    if plan.refusal is not None:
        raise plan.refusal
    for line in check_marks(plan, screen.err_look):
        screen.say(line)
    run = submitted(
        lambda progress: client.submit(plan, idempotency_token=values.idempotency_key, progress=progress),
        context,
        watch=values.watch,
    )
    return watched(run, context) if values.watch else EXIT_OK


def _file_and_overrides(values: Namespace) -> tuple[Path, tuple[str, ...]]:
    file, overrides = values.file, flatten(values.override)
    if file is None and values.file_option is None and overrides and _looks_like_a_file(overrides[-1]):
        overrides, file = overrides[:-1], overrides[-1]  # air run --override a.b=1 train.yaml
    if file is not None and values.file_option is not None:
        raise ArgumentError(
            f"air run: the workload is given twice: {values.file_option} and {file}", hint=f"air run -f {file}"
        )
    chosen = file or values.file_option
    if chosen is None:
        raise ArgumentError("air run: which workload? A YAML file is missing", hint="air run -f train.yaml")
    return Path(chosen), overrides


def _looks_like_a_file(word: str) -> bool:
    return "=" not in word and word.endswith((".yaml", ".yml"))


COMMANDS = (
    Command(
        "run",
        "[FILE] [options]",
        (
            ("air run train.yaml", "submit, and come back"),
            ("air run -f train.yaml --watch", "submit and follow"),
            ("air run -f train.yaml -p hpc --dry-run", "show what would be done"),
            ("air run -f train.yaml --override parameters.lr=1e-4 max_retries=0", "with other values"),
        ),
        configure,
        execute,
        notes="Every field of a workload: air run -h config. Ctrl-C in --watch stops watching, not the run (exit code "
        "130). Exit codes: 0 done (with --watch: SUCCESS), 1 the run or the request failed, 2 the input was wrong.",
    ),
)

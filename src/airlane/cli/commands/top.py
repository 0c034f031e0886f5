"""air top: a Ray cluster, live on this terminal, or one frame of it."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.parser import Parser
from airlane.cli.ray_job_options import CLUSTER_NOTES, job_target, takes_cluster
from airlane.errors import EXIT_OK, AirError, ArgumentError, RayUnreachableError

if TYPE_CHECKING:
    from airlane.top.values import Snapshot

EVERY_S = 2.0
_LEAST_S, _MOST_S = 0.5, 3600.0
_PIPE_COLUMNS = 120
# By the name of a tone: what they are is not imported before there is something to show.
STYLES: dict[str, tuple[str, ...]] = {
    "PLAIN": (),
    "DIM": ("dim",),
    "STRONG": ("bold",),
    "TITLE": ("bold",),
    "ACCENT": ("cyan",),
    "GOOD": ("green",),
    "WARN": ("yellow",),
    "BAD": ("red",),
    "PAST": ("cyan",),
    "TRACK": ("dim",),
    "CHOSEN": ("bold",),
}


def configure(parser: Parser) -> None:
    takes_cluster(parser)
    parser.add_argument(
        "--every", type=seconds, metavar="SECONDS", help=f"ask the cluster so often ({EVERY_S:g}); + and - change it"
    )
    parser.add_argument("--once", action="store_true", help="print one frame as text, and end; in JSON with --json")
    parser.add_argument("--record", type=Path, metavar="RECORDING", help="keep every round in a file (.zst: packed)")
    parser.add_argument("--replay", type=Path, metavar="RECORDING", help="show a recording in place of a cluster")


def execute(values: Namespace, context: Context) -> int:
    once = values.once or context.json
    if once and values.every is not None:
        raise ArgumentError("--every and --once exclude each other", hint="watch -n 5 air top --once")
    if not (once or (context.screen.out_is_terminal and sys.stdin.isatty())):
        raise ArgumentError("air top needs a terminal to show itself on", hint="air top --once prints one frame")
    import asyncio

    from airlane.top.opening import Wish, open_source

    client = context.client()
    wish = Wish(job_target(values, context), record=values.record, replay=values.replay)
    with open_source(client, wish, once=once) as opened:
        if once:
            return _once(context, asyncio.run(opened.source.snapshot()), opened.clock())
        from airlane.top.app import run
        from airlane.top.pace import paced_for_keys

        every_s, settings = values.every or EVERY_S, client.home.top
        with _told_how_to_report(verbose=context.verbose), paced_for_keys():
            run(opened.source, interval_s=every_s, settings_file=settings, clock=opened.clock)
    return EXIT_OK


@contextlib.contextmanager
def _told_how_to_report(*, verbose: bool) -> Iterator[None]:
    try:
        yield
    except AirError:
        raise
    except Exception as error:
        if verbose:
            raise
        hint = "again with -v shows where\nair top --record FILE keeps what it is shown, for a report"
        raise AirError(f"air top itself failed: {type(error).__name__}: {error}", hint=hint) from error


def _once(context: Context, snapshot: Snapshot, now: float) -> int:
    if not snapshot.answers:
        raise RayUnreachableError(snapshot.trouble or f"{snapshot.cluster} does not answer")
    screen = context.screen
    if context.json:
        from airlane.top.recording_codec import facts

        screen.show(data_line(facts(snapshot), time.time()))
        return EXIT_OK
    from airlane.top.once import frame
    from airlane.top.words import ASCII, UNICODE

    look = screen.out_look
    for line in frame(snapshot, now, look.columns or _PIPE_COLUMNS, UNICODE if screen.out_has_marks else ASCII):
        pieces = ((text, STYLES[tone.name]) for text, tone in line)
        screen.show("".join(look.paint(text, *styles) if styles else text for text, styles in pieces).rstrip())
    return EXIT_OK


def seconds(text: str) -> float:
    """A reader for how often a cluster is asked."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not _LEAST_S <= value <= _MOST_S:
        raise argparse.ArgumentTypeError(f"expected seconds from {_LEAST_S:g} to {_MOST_S:,.0f}, got {text!r}")
    return value


COMMANDS = (
    Command(
        "top",
        "[options]",
        (
            ("air top", "your only one, or that of Ray's variables"),
            ("air top --address http://HEAD:8265", "any other; its port alone is needed"),
            ("air top -p ray --once", "one frame as text; in JSON with --json"),
            ("air top --record seen.zst", "look, and keep what there was"),
            ("air top --replay seen.zst", "look at it again, anywhere"),
        ),
        configure,
        execute,
        notes=f"Keys: h. {CLUSTER_NOTES} What looks like a secret is masked in recordings.",
    ),
)

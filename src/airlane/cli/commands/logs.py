"""air logs: what a node of a run wrote, followed as it grows."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line, event_line
from airlane.cli.parser import Parser, whole_number
from airlane.cli.run_pages import verdict
from airlane.cli.run_words import cause_words, status_words
from airlane.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, NotFoundError
from airlane.logs.tail import whole_lines
from airlane.store.runs import RunView
from airlane.store.states import State

if TYPE_CHECKING:
    from airlane.api import Run

DEFAULT_TAIL = 10_000


def configure(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="a run: its id, the beginning of one, or @last")
    parser.add_argument("--node", type=whole_number(0), metavar="N", help="which node (0)")
    parser.add_argument(
        "--tail", type=whole_number(1), default=DEFAULT_TAIL, metavar="N", help="begin with the last N lines (10000)"
    )
    parser.add_argument("--retry", type=whole_number(0), metavar="N", help="which attempt, from 0 (the latest)")
    parser.add_argument(
        "--download-to", type=Path, metavar="FOLDER", help="copy the logs of all nodes (or of --node) into a folder"
    )


def execute(values: Namespace, context: Context) -> int:
    run = context.client().get(values.id)
    if values.download_to is not None:
        return _download(run, values, context)
    view = run.view()
    if view.state is State.PENDING and not context.json:
        context.screen.say(f"{run.id} is not running yet ({status_words(view)})")
    chunks = run.logs(node=values.node or 0, tail=values.tail, attempt=values.retry)
    try:
        shown = _show_json(chunks, values.node or 0, context) if context.json else _show(chunks, context)
    except KeyboardInterrupt:
        return _interrupted(run, context)
    view = run.view()
    return _ended(view, values, context, shown=shown)


def _show(chunks: Iterable[bytes], context: Context) -> bool:
    shown = False
    for chunk in chunks:
        context.screen.show_bytes(chunk)
        shown = True
    return shown


def _show_json(chunks: Iterable[bytes], node: int, context: Context) -> bool:
    shown = False
    for line in whole_lines(chunks):
        context.screen.show(event_line("LOG", time.time(), node=node, line=line.decode("utf-8", "replace")))
        shown = True
    return shown


def _ended(view: RunView, values: Namespace, context: Context, *, shown: bool) -> int:
    """The exit code mirrors the outcome of the run, or of the attempt that was asked for."""
    state = view.state
    if values.retry is not None:
        state = next((a.state or state for a in view.attempts if a.number == values.retry), state)
    screen, now = context.screen, time.time()
    if context.json:
        if not shown:
            screen.show(event_line("ERROR", now, message=_nothing(view, values)))
        facts = {"run_id": view.record.id, "status": state, "node": values.node or 0, "attempt_number": values.retry}
        screen.show(data_line(facts, now))
        return EXIT_OK if state is State.SUCCESS else EXIT_FAILED
    if not shown:
        screen.say(f"{screen.err_look.warn} {_nothing(view, values)}")
    if state is not State.SUCCESS:
        told = verdict(view, screen.err_look, now) if values.retry is None else _attempt_words(view, values.retry)
        screen.say(told)
    return EXIT_OK if state is State.SUCCESS else EXIT_FAILED


def _nothing(view: RunView, values: Namespace) -> str:
    node = values.node or 0
    latest = view.attempts[-1].number if view.attempts else 0
    log = view.paths.log(attempt=latest if values.retry is None else values.retry, node=node)
    return f"node {node} wrote nothing" if log.exists() else f"node {node} has no log: it did not start"


def _attempt_words(view: RunView, number: int) -> str:
    attempt = view.attempts[number]
    return f"attempt {number} {attempt.state}: {cause_words(attempt.cause)}"


def _interrupted(run: Run, context: Context) -> int:
    if context.json:
        view = run.view()
        context.screen.show(data_line({"run_id": run.id, "status": view.state, "watching": False}, time.time()))
    else:
        context.screen.say(f"\nStopped following. The run goes on: air logs {run.id}")
    return EXIT_INTERRUPTED


def _download(run: Run, values: Namespace, context: Context) -> int:
    files = run.download_logs(values.download_to, node=values.node)
    if not files:
        raise NotFoundError(f"{run.id} has no log yet", hint=f"air get {run.id}")
    if context.json:
        facts = {"run_id": run.id, "files": [str(file) for file in files]}
        context.screen.show(data_line(facts, time.time()))
    else:
        context.screen.show("\n".join(str(file) for file in files))
    return EXIT_OK


COMMANDS = (
    Command(
        "logs",
        "ID [options]",
        (
            ("air logs @last", "node 0 of the latest run, followed until it ends"),
            ("air logs 7k2m --node 3 --retry 1", "another node, another attempt"),
            ("air logs 7k2m --download-to logs/", "the logs of all nodes"),
        ),
        configure,
        execute,
        notes="Lines of the log alone go to stdout. The exit code is the outcome of the run (0: SUCCESS, 1: any other "
        "end), or 130 after Ctrl-C, which leaves the run alone.",
    ),
)

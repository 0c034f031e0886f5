"""air ui: the page of the metrics."""

from __future__ import annotations

import time
from argparse import Namespace

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.parser import Parser
from airlane.errors import EXIT_OK


def configure(parser: Parser) -> None:
    parser.add_argument("--open", action="store_true", help="open it in a browser")
    parser.add_argument("--stop", action="store_true", help="stop Airlane's own MLflow server")


def execute(values: Namespace, context: Context) -> int:
    tracking = context.client().tracking
    if values.stop:
        stopped = tracking.stop()
        _answer(context, {"stopped": stopped}, "The MLflow server is stopped." if stopped else "It was not running.")
        return EXIT_OK
    page = tracking.start()
    if context.json:
        login_file = str(page.login_file) if page.login_file is not None else None
        facts = {"uri": page.uri, "public_uri": page.public_uri, "login_file": login_file}
        context.screen.show(data_line(facts, time.time()))
    else:
        context.screen.show(page.uri)
        if page.public_uri is not None:
            context.screen.say(f"From other machines: {page.public_uri}, with the login in {page.login_file}")
    if values.open:
        import webbrowser

        webbrowser.open(page.uri)
    return EXIT_OK


def _answer(context: Context, facts: dict[str, bool], words: str) -> None:
    if context.json:
        context.screen.show(data_line(facts, time.time()))
    else:
        context.screen.say(words)


COMMANDS = (
    Command(
        "ui",
        "[options]",
        (
            ("air ui", "start the MLflow server if needed, and print its address"),
            ("air ui --open", "and open it in a browser"),
            ("air ui --stop", "stop the server; its data stay"),
        ),
        configure,
        execute,
        notes="Where the profile or MLFLOW_TRACKING_URI names a server of yours, its address is printed, and nothing "
        "is started or stopped.",
    ),
)

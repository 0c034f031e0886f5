"""air env: the environments that runs use."""

from __future__ import annotations

import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.layout import hanging, table
from airlane.cli.live import LiveLine
from airlane.cli.parser import Parser
from airlane.cli.run_words import home_relative
from airlane.cli.screen import Look
from airlane.cli.words import ago, count, duration, iso, local_time, size
from airlane.errors import EXIT_OK

if TYPE_CHECKING:
    from airlane.api import EnvironmentInfo

_HEADINGS = ("KEY", "BASE", "PYTHON", "SIZE", "USED", "DEPENDENCIES")
_KEY = 8
_LABEL = 14


def _list(_values: Namespace, context: Context) -> int:
    infos, now = context.client().environments.list(), time.time()
    if context.json:
        context.screen.show(data_line({"environments": [_facts(info) for info in infos]}, now))
    elif infos:
        context.screen.show(env_table(infos, context.screen.out_look, now))
    else:
        context.screen.say("No environment was built yet. Runs build what they need.")
    return EXIT_OK


def _show(values: Namespace, context: Context) -> int:
    info, now = context.client().environments.show(values.key), time.time()
    if context.json:
        context.screen.show(data_line(_facts(info), now))
    else:
        context.screen.show(env_page(info, context.screen.out_look, now))
    return EXIT_OK


def _build(values: Namespace, context: Context) -> int:
    client = context.client()
    plan = client.plan(values.file)
    line = LiveLine(context.screen)
    try:
        built = client.environments.build(plan.environment, progress=lambda words: line.update("environment", words))
    finally:
        line.close()
    if context.json:
        facts = {"key": built.key, "folder": str(built.folder), "cached": built.duration_s is None}
        context.screen.show(data_line(facts, time.time()))
        return EXIT_OK
    took = "it was there already" if built.duration_s is None else f"built in {duration(built.duration_s)}"
    name = built.key[:_KEY] if built.key else plan.environment.base
    context.screen.say(f"{context.screen.err_look.ok} environment {name}  {took}")
    return EXIT_OK


def _prune(values: Namespace, context: Context) -> int:
    gone = context.client().environments.prune(older_than_days=values.older_than, dry_run=values.dry_run)
    if context.json:
        keys = [info.key for info in gone]
        context.screen.show(data_line({"removed": keys, "dry_run": values.dry_run}, time.time()))
        return EXIT_OK
    for info in gone:
        context.screen.show(info.key)
    freed = size(sum(info.size_bytes for info in gone))
    verb = "Would remove" if values.dry_run else "Removed"
    context.screen.say(f"{verb} {count(len(gone), 'environment')} ({freed})." if gone else "Nothing to remove.")
    return EXIT_OK


def env_table(infos: Sequence[EnvironmentInfo], look: Look, now: float) -> str:
    """The table of `air env list`; on a terminal, dependencies are cut so that it fits."""
    rows = [
        (
            info.key[:_KEY],
            info.base,
            info.python_version,
            size(info.size_bytes),
            ago(now - info.last_used_at),
            ", ".join(info.dependencies) or "-",
        )
        for info in infos
    ]
    return table(_HEADINGS, rows, look, shrinks=_HEADINGS.index("DEPENDENCIES"))


def env_page(info: EnvironmentInfo, look: Look, now: float) -> str:
    """Everything about one environment."""
    rows = [
        ("key", info.key),
        ("base", info.base),
        ("dependencies", ", ".join(info.dependencies)),
        ("python", f"{info.python_version}, {info.platform}"),
        ("packages", f"{count(info.packages, 'package')}, {size(info.size_bytes)}"),
        ("moved pins", ", ".join(info.moved)),
        ("built", f"{local_time(info.created_at)} in {duration(info.build_s)}"),
        ("used", ago(now - info.last_used_at)),
        ("folder", home_relative(info.folder)),
    ]
    shown = (hanging(f"{label:<{_LABEL}}", text, look, indent=_LABEL) for label, text in rows if text)
    return "\n".join(line for lines in shown for line in lines)


def _facts(info: EnvironmentInfo) -> dict[str, Any]:
    return {
        "key": info.key,
        "base": info.base,
        "dependencies": list(info.dependencies),
        "python_version": info.python_version,
        "platform": info.platform,
        "packages": info.packages,
        "size_bytes": info.size_bytes,
        "created_at": iso(info.created_at),
        "last_used_at": iso(info.last_used_at),
        "build_seconds": info.build_s,
        "folder": str(info.folder),
    }


def _nothing(_parser: Parser) -> None:
    """Nothing beside the options that every command has."""


def _takes_key(parser: Parser) -> None:
    parser.add_argument("key", metavar="KEY", help="its key, or the beginning of one")


def _takes_file(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a workload")


def _takes_age(parser: Parser) -> None:
    parser.add_argument("--older-than", type=_days, metavar="DAYS", help="only what no run used for so many days")
    parser.add_argument("--dry-run", action="store_true", help="remove nothing; show what would be removed")


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1
    if not 0 <= days < float("inf"):
        raise ArgumentTypeError(f"expected a number of days, got {text!r}")
    return days


COMMANDS = (
    Command("env list", "", (("air env list", "the last used first"),), _nothing, _list),
    Command("env show", "KEY", (("air env show 51ac03", "the beginning of a key is enough"),), _takes_key, _show),
    Command(
        "env build",
        "FILE",
        (("air env build train.yaml", "so that the next run does not wait for it"),),
        _takes_file,
        _build,
    ),
    Command(
        "env prune",
        "[options]",
        (
            ("air env prune --older-than 30", "what no run used for a month"),
            ("air env prune --dry-run", "what would be removed"),
        ),
        _takes_age,
        _prune,
        notes="An environment that a run is using stays, whatever its age.",
    ),
)

"""air doctor: check what runs need."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.layout import hanging
from airlane.cli.parser import Parser
from airlane.cli.screen import Look
from airlane.cli.words import count
from airlane.errors import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from airlane.api import Finding


def configure(_parser: Parser) -> None:
    """Nothing beside the options that every command has."""


def execute(_values: Namespace, context: Context) -> int:
    checks = context.client().doctor()
    failed = [check for check in checks if check.ok is False]
    if context.json:
        facts = [
            {"name": check.name, "ok": check.ok, "detail": check.detail, "hint": check.hint or None} for check in checks
        ]
        context.screen.show(data_line({"ok": not failed, "checks": facts}, time.time()))
    else:
        context.screen.show(doctor_page(checks, context.screen.out_look))
    return EXIT_FAILED if failed else EXIT_OK


def doctor_page(checks: Sequence[Finding], look: Look) -> str:
    """One line a check, and below it what to do where it is not well."""
    column = max((len(check.name) for check in checks), default=0)
    indent = column + len("✓ ") + len("  ")
    lines: list[str] = []
    for check in checks:
        mark = look.warn if check.ok is None else look.ok if check.ok else look.bad
        lines += hanging(f"{mark} {check.name:<{column}}  ", check.detail, look, indent=indent)
        if check.hint and not check.ok:
            for line in check.hint.splitlines():
                lines += hanging(" " * indent, line, look, indent=indent)
    failed = sum(check.ok is False for check in checks)
    lines += ["", f"{count(failed, 'problem')}." if failed else "Ready."]
    return "\n".join(line.rstrip() for line in lines)


COMMANDS = (
    Command(
        "doctor",
        "[options]",
        (("air doctor", "this machine"), ("air doctor -p hpc", "a profile")),
        configure,
        execute,
        notes="The exit code is 1 if a check failed.",
    ),
)

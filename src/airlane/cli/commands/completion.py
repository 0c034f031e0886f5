"""air completion: tab completion for a shell."""

from __future__ import annotations

import time
from argparse import Namespace

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.parser import Parser
from airlane.errors import EXIT_OK

SHELLS = ("bash", "zsh", "fish", "tcsh")


def configure(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def execute(values: Namespace, context: Context) -> int:
    from airlane.cli.completion_script import completion_script

    script = completion_script(values.shell)
    if context.json:
        context.screen.show(data_line({"shell": values.shell, "script": script}, time.time()))
    else:
        context.screen.show(script)
    return EXIT_OK


COMMANDS = (
    Command(
        "completion",
        "SHELL",
        (
            ('eval "$(air completion bash)"', "in ~/.bashrc"),
            ("air completion zsh > ~/.zfunc/_air", "a folder of $fpath"),
            ("air completion fish > ~/.config/fish/completions/air.fish", "for fish"),
        ),
        configure,
        execute,
    ),
)

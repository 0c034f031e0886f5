"""air schema: the JSON Schema of a workload."""

from __future__ import annotations

import json
import time
from argparse import Namespace

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.parser import Parser
from airlane.errors import EXIT_OK


def configure(_parser: Parser) -> None:
    """Nothing beside the options that every command has."""


def execute(_values: Namespace, context: Context) -> int:
    from airlane.spec.json_schema import json_schema

    schema = json_schema()
    if context.json:
        context.screen.show(data_line(schema, time.time()))
    else:
        context.screen.show(json.dumps(schema, indent=2, ensure_ascii=False))
    return EXIT_OK


COMMANDS = (
    Command(
        "schema",
        "",
        (("air schema > workload.schema.json", "completion and checks in an editor"),),
        configure,
        execute,
        notes="Put this line first in a workload: # yaml-language-server: $schema=workload.schema.json",
    ),
)

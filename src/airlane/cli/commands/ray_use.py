"""air ray status, env, exec and logs: clusters in use."""

from __future__ import annotations

import shlex
import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.parser import Parser, whole_number
from airlane.cli.ray_pages import status_facts, status_page
from airlane.errors import EXIT_OK, ArgumentError

if TYPE_CHECKING:
    from airlane.api.clusters import Cluster

_TAIL = 1000


def _takes_cluster(parser: Parser) -> None:
    parser.add_argument("cluster", nargs="?", metavar="CLUSTER", help="its name or run id; the only one, if not given")


def _find(values: Namespace, context: Context) -> Cluster:
    return context.client().clusters.find(values.cluster)


def _status(values: Namespace, context: Context) -> int:
    cluster = _find(values, context)
    status, state, view, now = cluster.status(), cluster.state(), cluster.run.view(), time.time()
    if state is None:  # it has ended just now
        return _status(values, context)
    if context.json:
        context.screen.show(data_line(status_facts(view, state, status), now))
    else:
        context.screen.show(status_page(view, state, status, context.screen.out_look, now))
    return EXIT_OK


def _env(values: Namespace, context: Context) -> int:
    variables = _find(values, context).variables()
    if context.json:
        context.screen.show(data_line({"variables": variables}, time.time()))
    else:
        # A token in the caller's environment would win over the file of this cluster's.
        lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
        context.screen.show("\n".join([*lines, "unset RAY_AUTH_TOKEN"]))
        if sys.stdout.isatty():
            context.screen.say('to set them: eval "$(air ray env)"')
    return EXIT_OK


def _takes_command(parser: Parser) -> None:
    parser.add_argument("--cluster", metavar="CLUSTER", help="its name or run id; the only one, if not given")
    parser.add_argument("words", nargs="+", metavar="COMMAND", help="the command and its words, after --")


def _exec(values: Namespace, context: Context) -> int:
    if context.json:
        raise ArgumentError("air ray exec has no --json: its output is the command's", hint="air ray exec -h")
    command = values.words[1:] if values.words[0] == "--" else values.words
    if not command:
        raise ArgumentError("air ray exec: COMMAND is missing", hint="air ray exec -- python train.py")
    _find(values, context).become(command)


def _takes_log(parser: Parser) -> None:
    _takes_cluster(parser)
    parser.add_argument("--node", type=whole_number(0), default=0, metavar="N", help="which node (0)")
    parser.add_argument("--file", metavar="NAME", help="one of these logs, such as raylet.out")
    parser.add_argument(
        "--tail", type=whole_number(1), default=_TAIL, metavar="N", help=f"with --file, the last N lines ({_TAIL})"
    )


def _logs(values: Namespace, context: Context) -> int:
    cluster, screen = _find(values, context), context.screen
    if values.file is None:
        names = cluster.ray_logs(values.node)
        screen.show(data_line({"files": list(names)}, time.time()) if context.json else "\n".join(names))
        return EXIT_OK
    text = cluster.ray_log(values.node, values.file, values.tail)
    screen.show(data_line({"file": values.file, "text": text}, time.time()) if context.json else text.rstrip("\n"))
    return EXIT_OK


COMMANDS = (
    Command(
        "ray status",
        "[CLUSTER]",
        (("air ray status", "nodes, what is in use, and what waits"),),
        _takes_cluster,
        _status,
    ),
    Command(
        "ray env",
        "[CLUSTER]",
        (
            ('eval "$(air ray env)"', "then ray.init(), ray job and ray status here find the cluster"),
            ("air ray env 7k2m9q4d --json", "for other programs"),
        ),
        _takes_cluster,
        _env,
        notes="The token stays in its file, which only you can read. On a host without a node of the cluster, "
        "RAY_ADDRESS is its ray:// address. The Python and the Ray there must be of the cluster's versions; "
        "air ray exec has them.",
    ),
    Command(
        "ray exec",
        "[options] -- COMMAND...",
        (
            ("air ray exec -- python train.py", "a driver on the head"),
            ("air ray exec -- ray memory", "one of Ray's own tools"),
            ("air ray exec --cluster 7k2m9q4d -- bash", "a shell there"),
        ),
        _takes_command,
        _exec,
        notes="It runs on the head's host, in the cluster's environment or container, with your input and terminal; "
        "its exit code is that of air.",
    ),
    Command(
        "ray logs",
        "[CLUSTER] [options]",
        (
            ("air ray logs", "the names of the logs that Ray keeps on the head"),
            ("air ray logs --node 1 --file raylet.out", "one of them"),
            ("air logs 7k2m9q4d", "what the nodes of the cluster's run wrote"),
        ),
        _takes_log,
        _logs,
    ),
)

"""air ray dashboard: the page of a cluster, from here."""

from __future__ import annotations

import shlex
import time
from argparse import Namespace
from contextlib import closing

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.parser import Parser, whole_number
from airlane.errors import EXIT_INTERRUPTED, EXIT_OK, BackendError

DASHBOARD_PORT = 8265


def configure(parser: Parser) -> None:
    parser.add_argument("cluster", nargs="?", metavar="CLUSTER", help="its name or run id; the only one, if not given")
    parser.add_argument(
        "--port", type=whole_number(1), default=DASHBOARD_PORT, metavar="N", help=f"the port here ({DASHBOARD_PORT})"
    )
    parser.add_argument(
        "--print", action="store_true", help="print the ssh command that forwards it, for another machine"
    )


def execute(values: Namespace, context: Context) -> int:
    from airlane.api.tunnel import free_port, open_tunnel, ssh_argv

    screen = context.screen
    target = context.client().clusters.find(values.cluster).dashboard()
    ssh = shlex.join(ssh_argv(values.port, target.host, target.address))
    if context.json:
        url = f"http://{target.address}" if target.is_here else None
        facts = {"url": url, "host": target.host, "address": target.address, "ssh": ssh}
        screen.show(data_line({**facts, "token_file": str(target.token_file)}, time.time()))
        return EXIT_OK
    if values.print:
        screen.show(ssh)
        return EXIT_OK
    asks = f"It asks for the cluster's token: cat {shlex.quote(str(target.token_file))}"
    if target.is_here:
        screen.show(f"http://{target.address}")
        screen.say(asks)
        return EXIT_OK
    port = free_port(values.port)
    with closing(open_tunnel(port, host=target.host, dashboard=target.address, relay=target.relay)) as tunnel:
        screen.show(f"http://127.0.0.1:{port}")
        screen.say(f"The dashboard on {target.host}, for as long as this runs. Ctrl-C ends it.\n{asks}")
        try:
            tunnel.serve()
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED
    raise BackendError(f"ssh to {target.host} has ended", hint="air ray dashboard opens it again")


COMMANDS = (
    Command(
        "ray dashboard",
        "[CLUSTER] [options]",
        (
            ("air ray dashboard", "make it a page of this machine, and print its address"),
            ("air ray dashboard --print", "the ssh command to type on another machine"),
        ),
        configure,
        execute,
        notes="It goes through ssh where that asks for no password, else through the scheduler.",
    ),
)

"""air ray up, list and down: clusters come and go."""

from __future__ import annotations

import re
import sys
import time
from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from airlane.cli.command import Command, Context
from airlane.cli.envelope import data_line
from airlane.cli.live import LiveLine, StillLine
from airlane.cli.parser import Parser, whole_number
from airlane.cli.ray_pages import allocated_line, cluster_facts, cluster_table, node_line, ready_page
from airlane.cli.run_pages import verdict
from airlane.cli.words import count
from airlane.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, ArgumentError, InterruptedCommandError

if TYPE_CHECKING:
    from airlane.api import Client
    from airlane.api.clusters import Cluster, ClusterRequest
    from airlane.cluster.state import ClusterState
    from airlane.store.runs import RunView

_TIME = re.compile(r"(?:(?P<days>\d+)d)?(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m?)?")


def _configure_up(parser: Parser) -> None:
    parser.add_argument("--nodes", type=whole_number(1), default=1, metavar="N", help="how many nodes (1)")
    parser.add_argument("--gpus-per-node", type=whole_number(1), metavar="G", help="GPUs on each node (all it has)")
    parser.add_argument(
        "--cpus-per-node", type=whole_number(1), metavar="C", help="cores on each node, which then has no GPU"
    )
    parser.add_argument("--image", metavar="IMAGE", help="a container image with Ray: a reference, or an archive")
    parser.add_argument("--time", type=minutes, metavar="TIME", help="take it down after so long: 4h, 90m, 1d12h")
    parser.add_argument("--name", metavar="NAME", help="a name to find it by")
    parser.add_argument("--public", action="store_true", help="let the dashboard listen on every address of the head")


def _up(values: Namespace, context: Context) -> int:
    client = context.client()
    plan = client.clusters.plan(_request(values, client))
    if plan.refusal is not None:
        raise plan.refusal
    line = StillLine(context.screen)
    try:
        cluster = client.clusters.up(plan, progress=line.update)
    except KeyboardInterrupt as error:
        raise InterruptedCommandError("Interrupted while submitting.", hint="air ray list") from error
    finally:
        line.close()
    return _Waiting(cluster, context).run()


def _request(values: Namespace, client: Client) -> ClusterRequest:
    from airlane.api.clusters import DEFAULT_NAME, ClusterRequest

    if values.gpus_per_node is not None and values.cpus_per_node is not None:
        raise ArgumentError("air ray up: --gpus-per-node and --cpus-per-node exclude each other", hint="air ray up -h")
    gpus, cpus = values.gpus_per_node, values.cpus_per_node
    if gpus is None and cpus is None:
        size = client.clusters.node_size(values.nodes)
        gpus, cpus = size.gpus or None, size.cpus
    per_node, kind = (gpus, f"GPU_{gpus}xANY") if gpus is not None else (cpus, f"CPU_{cpus}xCORE")
    image = values.image
    if image is not None and Path(image).exists():
        image = str(Path(image).absolute())
    name = values.name or DEFAULT_NAME
    if not re.fullmatch("[A-Za-z0-9_-]{1,100}", name):
        raise ArgumentError(f"air ray up: --name: expected letters, digits, - and _, got {name!r}")
    return ClusterRequest(values.nodes, kind, per_node, image, values.time, name, values.public)


class _Waiting:
    """Until a cluster is ready: a line for what is done, and one that says what goes on."""

    def __init__(self, cluster: Cluster, context: Context) -> None:
        self._cluster = cluster
        self._context = context
        self._screen = context.screen
        self._line: LiveLine | None = LiveLine(context.screen)
        self._told: set[str] = set()

    def run(self) -> int:
        cluster, screen = self._cluster, self._screen
        view, state = cluster.run.view(), None
        try:
            for view, state in cluster.follow():
                self._show(view, state)
        except KeyboardInterrupt:
            self._close()
            screen.say(
                f"Stopped waiting. The cluster goes on: air ray status {cluster.id}\n  air ray down {cluster.id}"
            )
            return EXIT_INTERRUPTED
        finally:
            self._close()
        if state is None or not state.ready:
            return self._failed(view)
        if self._context.json:
            screen.show(data_line(cluster_facts(view, state), time.time()))
        else:
            screen.show(ready_page(view, state, profile=self._context.profile))
        return EXIT_OK

    def _failed(self, view: RunView) -> int:
        if self._context.json:
            from airlane.cli.run_json import run_facts

            self._screen.show(data_line(run_facts(view, time.time()), time.time()))
        self._screen.say(verdict(view, self._screen.err_look, time.time()))
        return EXIT_FAILED

    def _show(self, view: RunView, state: ClusterState | None) -> None:
        look = self._screen.err_look
        if view.attempts and view.attempts[-1].hosts:
            self._tell("allocated", allocated_line(view, look))
        if state is not None:
            self._tell("0", node_line(0, state.host, state.address, look))
            for node in state.nodes:
                self._tell(str(node.node), node_line(node.node, node.host, node.address, look))
        phase = view.phase or "starting"
        detail = view.status.detail if view.status is not None else None
        if state is not None:
            phase, detail = "joining", f"{len(state.nodes)} of {view.record.nodes} nodes"
        elif view.attempts:
            phase, detail = "starting", "Ray's head"
        self._line = self._line or LiveLine(self._screen)
        self._line.update(phase, detail)

    def _tell(self, key: str, line: str) -> None:
        if key not in self._told:
            self._told.add(key)
            self._close()
            self._screen.say(line)

    def _close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


def minutes(text: str) -> int:
    """How long a time such as 4h, 90m or 1d12h is; a number alone is minutes."""
    found = _TIME.fullmatch(text.strip())
    parts = {name: int(value) for name, value in (found.groupdict() if found else {}).items() if value}
    total = parts.get("days", 0) * 1440 + parts.get("hours", 0) * 60 + parts.get("minutes", 0)
    if not total:
        raise ArgumentTypeError(f"expected a time such as 4h, 90m or 1d12h, got {text!r}")
    return total


def _nothing(_parser: Parser) -> None:
    """Nothing beside the options that every command has."""


def _list(_values: Namespace, context: Context) -> int:
    clusters, now, screen = context.client().clusters.list(), time.time(), context.screen
    found = [(cluster.run.view(), cluster.state()) for cluster in clusters]
    if context.json:
        screen.show(data_line({"clusters": [cluster_facts(view, state) for view, state in found]}, now))
    elif found:
        screen.show(cluster_table(found, screen.out_look, now))
    else:
        screen.say("There is no Ray cluster.\n  air ray up")
    return EXIT_OK


def _configure_down(parser: Parser) -> None:
    parser.add_argument("cluster", nargs="?", metavar="CLUSTER", help="its name or run id; the only one, if not given")
    parser.add_argument("--all", action="store_true", help="every cluster of yours")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask (with --all)")


def _down(values: Namespace, context: Context) -> int:
    clusters, screen = context.client().clusters, context.screen
    if values.all and values.cluster is not None:
        raise ArgumentError("air ray down: a cluster and --all exclude each other", hint="air ray down --all")
    chosen = clusters.list() if values.all else (clusters.find(values.cluster),)
    if values.all and chosen and not values.yes:
        _confirm(len(chosen), context)
    line = LiveLine(screen)
    try:
        for cluster in chosen:
            line.update("stopping", cluster.id)
            cluster.down()
    finally:
        line.close()
    if context.json:
        screen.show(data_line({"down": [cluster.id for cluster in chosen]}, time.time()))
    else:
        names = ", ".join(cluster.id for cluster in chosen)
        screen.say(f"{screen.err_look.ok} down  {names}" if chosen else "There is no Ray cluster.")
    return EXIT_OK


def _confirm(number: int, context: Context) -> None:
    if context.json or not sys.stdin.isatty():
        raise ArgumentError("air ray down --all needs a yes", hint="air ray down --all --yes")
    context.screen.write_err(f"Take down {count(number, 'Ray cluster')}? [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ArgumentError("Nothing was taken down.")


COMMANDS = (
    Command(
        "ray up",
        "[options]",
        (
            ("air ray up", "a cluster on this machine"),
            ("air ray up -p hpc --nodes 2 --time 4h", "whole nodes of a profile, for four hours"),
            ("air ray up -p hpc --nodes 2 --cpus-per-node 32 --image ray.tar.gz", "in containers"),
        ),
        _configure_up,
        _up,
        notes="A cluster is a run: air list shows it, air logs and air get tell about it. Only its token opens it. "
        "Ctrl-C stops waiting, not the cluster.",
    ),
    Command("ray list", "", (("air ray list", "clusters that have not ended"),), _nothing, _list),
    Command(
        "ray down",
        "[CLUSTER] [options]",
        (
            ("air ray down", "the only one"),
            ("air ray down 7k2m9q4d", "by its run's id, or its name"),
            ("air ray down --all --yes", "every cluster of yours"),
        ),
        _configure_down,
        _down,
        notes="Comes back when nothing of the cluster is left. Ray clusters of others are not touched.",
    ),
)

"""Ray clusters on the screen, and in JSON."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from airlane.cli.layout import table
from airlane.cli.run_words import place_words, status_words
from airlane.cli.screen import Look
from airlane.cli.words import ago, count, duration, iso, local_time, size
from airlane.cluster.state import ClusterState
from airlane.cluster.status import ClusterStatus, Demand, RayNode, Use
from airlane.store.runs import RunView
from airlane.store.states import State

_LABEL = 11
_HEADINGS = ("RUN", "NAME", "STATUS", "NODES", "OFFERS", "STARTED", "WHERE")
_BYTES = ("memory", "object_store_memory")


def totals(state: ClusterState) -> str:
    """What the nodes offer together: "16 GPUs, 192 CPUs"."""
    words = ((state.gpus, "GPU"), (state.cpus, "CPU"))
    return ", ".join(count(number, noun) for number, noun in words if number)


def allocated_line(view: RunView, look: Look) -> str:
    """Where the nodes are, and until when."""
    hosts = ", ".join(dict.fromkeys(view.attempts[-1].hosts))
    until = end_of(view)
    limit = f"   until {local_time(until)[11:16]}" if until is not None else ""
    place = view.status.place if view.status is not None else None
    return f"{look.ok} {'allocated':<{_LABEL}} {hosts}   {place or place_words(view.record)}{limit}"


def end_of(view: RunView) -> float | None:
    """When the time of the cluster is over; None without a limit."""
    limit = view.record.limits.timeout_s
    return view.attempts[-1].started_at + limit if limit is not None and view.attempts else None


def node_line(node: int, host: str, address: str, look: Look) -> str:
    return f"{look.ok} {'worker' if node else 'head':<{_LABEL}} {host:<{_LABEL}} {address}".rstrip()


def ready_page(view: RunView, state: ClusterState, *, profile: str | None = None) -> str:
    """What stands on the screen once a cluster is ready: where it is, and how it is used.

    `profile` is the one that was named; the commands need it, too.
    """
    where = f" -p {profile}" if profile is not None else ""
    name = f"{where} {view.record.id}"
    flag = f"{where} --cluster {view.record.id}"
    forwards = "" if _is_here(state) else "   (forwards it to this machine)"
    rows = [
        ("dashboard", f"air ray dashboard{name}{forwards}"),
        ("connect", f'eval "$(air ray env{name})" && python train.py'),
        ("driver", f"air ray exec{flag} -- python train.py"),
        ("client", f"ray://{state.client}"),
        ("jobs", _jobs_words(state)),
        ("submit", f"air ray job submit{flag} -- python train.py"),
        ("stop", f"air ray down{name}"),
    ]
    lines = [f"Ray cluster ready at {state.address}     {totals(state)}"]
    lines += [f"  {label:<{_LABEL}} {text}" for label, text in rows]
    if view.record.ray is not None and view.record.ray.public:
        lines.append(
            f"! The dashboard listens on every address of {state.host}. Whoever has the token can run programs there "
            f"as you; the token and what it opens travel unencrypted."
        )
    return "\n".join(lines)


def _jobs_words(state: ClusterState) -> str:
    """Where Ray's Jobs API listens, and from where that can be reached."""
    on_head = f", on {state.host} alone" if state.dashboard.startswith("127.") else ""
    return f"http://{state.dashboard}{on_head}"


def _is_here(state: ClusterState) -> bool:
    return state.host == socket.gethostname()


def cluster_table(clusters: Sequence[tuple[RunView, ClusterState | None]], look: Look, now: float) -> str:
    """The table of `air ray list`."""
    rows = [
        (
            view.record.id,
            view.record.experiment_name,
            cluster_words(view, state),
            str(view.record.nodes),
            totals(state) if state is not None else "",
            ago(now - view.started_at) if view.started_at is not None else "-",
            place_words(view.record),
        )
        for view, state in clusters
    ]
    return table(_HEADINGS, rows, look, shrinks=_HEADINGS.index("NAME"))


def cluster_words(view: RunView, state: ClusterState | None) -> str:
    """How far a cluster is: what its run does, then who is missing, then "ready"."""
    if view.state is not State.RUNNING:
        return " ".join((str(view.state), status_words(view))).strip()
    if state is None:
        return "starting"
    return "ready" if state.ready else f"{len(state.nodes)} of {view.record.nodes} nodes"


def status_page(view: RunView, state: ClusterState, status: ClusterStatus, look: Look, now: float) -> str:
    """Nodes, what is in use, and what waits."""
    name = view.record.experiment_name
    lines = [f"{view.record.id}  {name}   {cluster_words(view, state)}   {state.address}"]
    until = end_of(view)
    if until is not None:
        lines.append(f"ends in {duration(max(0.0, until - now))}")
    rows = [_node_row(node, state) for node in sorted(status.nodes, key=_by_rank)]
    lines += ["", table(("NODE", "HOST", "ADDRESS", "STATE", "CPU", "GPU"), rows, look, shrinks=1), ""]
    lines += [f"{_resource(use):<20} {_amount(use)}" for use in status.use]
    if status.demands:
        lines += ["", *(_demand_words(demand) for demand in status.demands)]
    return "\n".join(lines)


def _by_rank(node: RayNode) -> tuple[int, str]:
    rank = node.name.removeprefix("node-")
    return (int(rank) if rank.isdigit() else 1 << 30, node.name)


def _node_row(node: RayNode, state: ClusterState) -> tuple[str, ...]:
    hosts = {f"node-{joined.node}": joined.host for joined in state.nodes}
    name = node.name.removeprefix("node-") + (" (head)" if node.head else "")
    why = f": {node.why}" if node.why and node.state != "ALIVE" else ""
    return (name, hosts.get(node.name, ""), node.address, f"{node.state}{why}", f"{node.cpus:g}", f"{node.gpus:g}")


def _resource(use: Use) -> str:
    return use.resource.replace("_", " ")


def _amount(use: Use) -> str:
    if use.resource in _BYTES:
        return f"{size(int(use.used))} of {size(int(use.total))}"
    return f"{use.used:g} of {use.total:g}"


def _demand_words(demand: Demand) -> str:
    shape = ", ".join(f"{amount:g} {name}" for name, amount in demand.shape.items())
    return f"waiting: {count(demand.count, 'request')} for {shape}"


def cluster_facts(view: RunView, state: ClusterState | None) -> dict[str, Any]:
    """A cluster, as JSON; the token itself is never told."""
    facts: dict[str, Any] = {
        "run_id": view.record.id,
        "name": view.record.experiment_name,
        "status": view.state,
        "ready": state is not None and state.ready,
        "num_nodes": view.record.nodes,
        "started_at": iso(view.started_at),
        "ends_at": iso(end_of(view)),
        "profile": view.record.profile,
    }
    if state is not None:
        facts |= {
            "address": state.address,
            "client_address": f"ray://{state.client}",
            "dashboard_address": state.dashboard,
            "head_host": state.host,
            "cpus": state.cpus,
            "gpus": state.gpus,
            "nodes": [
                {"node": n.node, "host": n.host, "address": n.address, "cpus": n.cpus, "gpus": n.gpus}
                for n in state.nodes
            ],
        }
    return facts


def status_facts(view: RunView, state: ClusterState, status: ClusterStatus) -> dict[str, Any]:
    """The same with what its dashboard says."""
    return {
        **cluster_facts(view, state),
        "ray_nodes": [
            {
                "name": node.name,
                "address": node.address,
                "state": node.state,
                "head": node.head,
                "cpus": node.cpus,
                "gpus": node.gpus,
            }
            for node in status.nodes
        ],
        "resources": {use.resource: {"used": use.used, "total": use.total} for use in status.use},
        "waiting": [{"count": demand.count, "resources": dict(demand.shape)} for demand in status.demands],
    }

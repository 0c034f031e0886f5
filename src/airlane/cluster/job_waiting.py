"""What a job's entrypoint asks for, beside what the nodes of a cluster have: pure words and numbers.

Source: Ray 2.60. /api/cluster_status has what is in use on each node, some seconds old, with names in camel case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airlane.cluster.jobs import JobRequest, RayJob
from airlane.errors import CapacityError

_OPTIONS = {"CPU": "--entrypoint-num-cpus", "GPU": "--entrypoint-num-gpus", "memory": "--entrypoint-memory"}


def asked_for(request: JobRequest) -> dict[str, float]:
    """The resources that must be free on one node for the entrypoint; nothing where none were asked for."""
    amounts = {"CPU": request.num_cpus, "GPU": request.num_gpus, "memory": request.memory_bytes, **request.resources}
    return {name: float(amount) for name, amount in amounts.items() if amount}


def check_capacity(asked: Mapping[str, float], rows: Sequence[Mapping[str, Any]], *, url: str) -> None:
    """Refuse what no node that lives can ever hold; `rows` are those of /api/v0/nodes.

    Raises:
        CapacityError: with the numbers.
    """
    nodes = [row.get("resources_total") or {} for row in rows if row.get("state") == "ALIVE"]
    if not asked or any(_holds(node, asked) for node in nodes):
        return
    if not nodes:
        raise CapacityError(f"the Ray cluster at {url} has no node that lives", hint="air ray job list")
    most = {name: max(float(node.get(name, 0)) for node in nodes) for name in asked}
    short = next((name for name, amount in asked.items() if most[name] < amount), None)
    if short is None:
        told = f"no node of the Ray cluster at {url} has {amounts_words(asked)} together"
    else:
        told = f"no node of the Ray cluster at {url} has {amounts_words({short: asked[short]})}"
    raise CapacityError(
        f"{told}, which the entrypoint asks for. The most on one node: {amounts_words(most)}",
        hint=f"ask for less with {_OPTIONS.get(short or '', '--entrypoint-resources')}: for the entrypoint alone\n"
        "--may-grow submits it all the same, to a cluster that adds nodes by itself",
    )


def waiting_words(job: RayJob, asked: Mapping[str, float], usage: Any) -> str:
    """Why a job is PENDING; `usage` is the answer of /api/cluster_status, of whatever form.

    What another submitted is not known to have asked for anything: then all that waits is told.
    """
    if asked and (free := _free(usage)) and not any(_holds(node, _camel_cased(asked)) for node in free):
        most = {name: max(node.get(_camel(name), 0.0) for node in free) for name in asked}
        return f"waits for a node with {amounts_words(asked)} free; the most free on one: {amounts_words(most)}"
    if job.has_runtime_env:
        return "sets up the runtime environment"
    waiting = [] if asked else _demands(usage)
    return f"starts, or waits for resources: {'; '.join(map(amounts_words, waiting))}" if waiting else "starts"


def amounts_words(amounts: Mapping[str, float]) -> str:
    """Resources for people: "2 GPUs, 4 CPUs, 16.0 GB of memory, 1 licence"."""
    return ", ".join(_amount_words(name, amount) for name, amount in amounts.items())


def _amount_words(name: str, amount: float) -> str:
    if name == "memory":
        return f"{amount / 1e9:.1f} GB of memory"
    if name in ("CPU", "GPU"):
        return f"{amount:g} {name}{'' if amount == 1 else 's'}"
    return f"{amount:g} {name}"


def _holds(node: Mapping[str, Any], asked: Mapping[str, float]) -> bool:
    return all(float(node.get(name, 0)) >= amount for name, amount in asked.items())


def _free(usage: Any) -> list[dict[str, float]]:
    """What is free on each node; nothing where the answer cannot be read."""
    try:
        nodes = usage["data"]["clusterStatus"]["loadMetricsReport"]["usageByNode"].values()
        return [{name: float(total) - float(used) for name, (used, total) in node.items()} for node in nodes]
    except (KeyError, TypeError, AttributeError, ValueError):
        return []


def _demands(usage: Any) -> list[dict[str, float]]:
    """What waits on the cluster for resources, of whatever job; nothing where the answer cannot be read."""
    try:
        demand = usage["data"]["clusterStatus"]["loadMetricsReport"]["resourceDemand"]
        return [{name: float(amount) for name, amount in shape.items()} for shape, _ in demand]
    except (KeyError, TypeError, AttributeError, ValueError):
        return []


def _camel_cased(asked: Mapping[str, float]) -> dict[str, float]:
    return {_camel(name): amount for name, amount in asked.items()}


def _camel(name: str) -> str:
    """As Ray's dashboard writes a name in its answers: "special_hardware" as "specialHardware"."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)

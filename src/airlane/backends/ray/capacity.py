"""What a run asks of each node of a Ray cluster, and whether the cluster can ever give it.

Ray itself never refuses: a request that no node can hold is pending for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airlane.backends.base import Compute
from airlane.backends.ray.options import RayOptions
from airlane.cluster.status import NODES
from airlane.errors import BackendError, CapacityError
from airlane.frozen import frozen
from airlane.spec.accelerators import ANY_MODEL, parse_accelerator_type

if TYPE_CHECKING:
    from airlane.cluster.rest import Dashboard
    from airlane.store.records import RunRecord

_MODEL = "accelerator_type:"
# A bundle must ask for something, and a simulated node needs next to nothing.
_SIMULATED_CPUS = 1.0
# Ray counts in ten-thousandths; a node of a model has 1 of it, so that this leaves room for everybody.
_A_TRACE = 0.001
_MOST_SHAPES = 5
_NODES_OWN = ("node:", "memory", "object_store_memory")


@frozen
class ListedNode:
    """A node as the cluster's list has it. `why` is why it died."""

    node_id: str
    name: str
    address: str
    alive: bool
    head: bool
    total: Mapping[str, float]
    why: str | None = None

    @property
    def model(self) -> str | None:
        """Ray's name for its GPUs; None where it has none, or Ray could not tell."""
        return next((name.removeprefix(_MODEL) for name in self.total if name.startswith(_MODEL)), None)


def read_nodes(dashboard: Dashboard) -> tuple[ListedNode, ...]:
    """Every node that the cluster knows, dead ones too.

    Raises what the dashboard raises; BackendError when it answers in another form.
    """
    answer = dashboard.get_json(NODES)
    try:
        return tuple(_listed(row) for row in answer["data"]["result"]["result"] if row["node_id"])
    except (KeyError, TypeError, AttributeError) as error:
        raise BackendError(
            f"{dashboard.url} answers with a list of nodes that cannot be read: {error!r}", hint="air doctor"
        ) from error


def _listed(row: Mapping[str, Any]) -> ListedNode:
    total = row.get("resources_total") or {}
    return ListedNode(
        node_id=row["node_id"],
        name=row.get("node_name") or row["node_ip"],
        address=row["node_ip"],
        alive=row["state"] == "ALIVE",
        head=bool(row.get("is_head_node")),
        total={name: float(amount) for name, amount in total.items()},
        why=row.get("state_message"),
    )


def bundle(asked: Compute | RunRecord, options: RayOptions) -> dict[str, float]:
    """The resources of one node of a run.

    GPUs come with CPUs, one each unless the profile says otherwise, as Ray's own trainers ask: without any, Ray would
    fill the node's cores with other programs while the GPUs wait for data.
    """
    number = float(asked.accelerators_per_node)
    parsed = parse_accelerator_type(asked.accelerator_type)
    model = parsed.model if parsed is not None else ANY_MODEL
    found = dict(options.resources)
    if asked.simulate:
        found["CPU"] = _SIMULATED_CPUS
    elif asked.accelerator_type.startswith("CPU_"):
        found["CPU"] = number
    else:
        found["GPU"] = number
        if options.cpus_per_accelerator:
            found["CPU"] = number * options.cpus_per_accelerator
        if model != ANY_MODEL:
            found[_MODEL + options.model(model)] = _A_TRACE
    return found


def check(compute: Compute, nodes: Sequence[ListedNode], options: RayOptions, *, url: str) -> tuple[str, ...]:
    """Lines for people about where the run would go.

    Raises:
        CapacityError: the cluster can never hold the run; the message says what it has.
    """
    need = bundle(compute, options)
    alive = [node for node in nodes if node.alive]
    fitting = sum(_fits(need, node.total) for node in alive)
    cluster = f"the Ray cluster at {url}"
    if fitting < compute.nodes and not options.autoscales:
        raise _too_little(compute, need, alive, fitting, cluster=cluster)
    lines = [f"{_count(compute.nodes, 'node')} with {_words(need)}; {cluster} has {fitting} like that"]
    if fitting < compute.nodes:
        lines.append(f"the run waits until the cluster has grown by {_count(compute.nodes - fitting, 'node')}")
    if options.storage is None:
        lines.append("checkpoints stay on the nodes: storage in the profile names a folder that all nodes share")
    return tuple(lines)


def missing_words(need: Mapping[str, float], count: int, totals: Sequence[Mapping[str, float]]) -> str | None:
    """What the cluster lacks for so many nodes, even when nothing else runs there; None where it lacks nothing."""
    fitting = sum(_fits(need, total) for total in totals)
    if fitting >= count:
        return None
    have = f"{_count(fitting, 'node')} with" if fitting else "no node with"
    return f"the Ray cluster has {have} {_words(need)} (asked for: {count})"


def waiting_words(
    need: Mapping[str, float], count: int, nodes: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]
) -> str:
    """Why nodes are waited for that only are busy, from what each has in all and what of it is free."""
    fitting = [free for total, free in nodes if _fits(need, total)]
    free_now = sum(_fits(need, free) for free in fitting)
    if free_now >= count:
        return f"{_count(free_now, 'node')} with {_words(need)} {_are(free_now)} free: Ray is setting them aside"
    return f"{free_now} of {_count(len(fitting), 'node')} with {_words(need)} {_are(free_now)} free; asked for {count}"


def shapes(nodes: Sequence[ListedNode]) -> tuple[str, ...]:
    """What the nodes have, those that have the same together: "3 nodes with 2 GPUs, 2 CPUs"."""
    counted = Counter(_words(_offer(node)) for node in nodes)
    found = [f"{_count(count, 'node')} with {words or 'nothing'}" for words, count in counted.most_common()]
    more = len(found) - _MOST_SHAPES
    return (*found[:_MOST_SHAPES], f"{more} other kinds of nodes") if more > 1 else tuple(found)


def _offer(node: ListedNode) -> dict[str, float]:
    return {name: amount for name, amount in node.total.items() if amount and not name.startswith(_NODES_OWN)}


def _fits(need: Mapping[str, float], has: Mapping[str, float]) -> bool:
    return all(has.get(name, 0.0) >= amount - _A_TRACE / 100 for name, amount in need.items())


def _too_little(
    compute: Compute, need: Mapping[str, float], alive: Sequence[ListedNode], fitting: int, *, cluster: str
) -> CapacityError:
    subject = cluster[0].upper() + cluster[1:]
    if not alive:
        asked = f"{_count(compute.nodes, 'node')} with {_words(need)}"
        return CapacityError(f"{subject} has no living node (asked for: {asked})", hint="air doctor")
    there_are = f"its nodes: {'; '.join(shapes(alive))}"
    if fitting:
        most = fitting * compute.accelerators_per_node
        return CapacityError(
            f"{subject} has {_count(fitting, 'node')} with {_words(need)} (asked for: {compute.nodes})",
            hint=f"use num_accelerators: {most} or fewer; {there_are}",
        )
    return CapacityError(
        f"{subject} has no node with {_words(need)} (asked for: {compute.nodes})",
        hint="\n".join(filter(None, [_way_out(compute, need, alive), there_are])),
    )


def _way_out(compute: Compute, need: Mapping[str, float], alive: Sequence[ListedNode]) -> str | None:
    """What would make the run fit a node, if one thing does."""
    without_model = {name: amount for name, amount in need.items() if not name.startswith(_MODEL)}
    if without_model != need and any(_fits(without_model, node.total) for node in alive):
        any_model = f"accelerator_type: GPU_{compute.accelerators_per_node}x{ANY_MODEL} takes GPUs of any model"
        models = sorted({node.model for node in alive if node.model is not None and "GPU" in node.total})
        wanted = next(name for name in need if name.startswith(_MODEL)).removeprefix(_MODEL)
        if not models:
            return f"{any_model}; Ray does not tell the model of those that are there"
        return f'{any_model}; accelerators = {{ {wanted} = "{models[0]}" }} in the profile takes {models[0]} for it'
    without_cpus = {name: amount for name, amount in need.items() if name != "CPU"}
    if "GPU" in need and any(_fits(without_cpus, node.total) for node in alive):
        return "cpus_per_accelerator in the profile says how many CPUs go with a GPU; 0 asks for none"
    if "GPU" in need and not any(node.total.get("GPU") for node in alive):
        return "it has no GPU: try it with --simulate"
    return None


def _words(resources: Mapping[str, float]) -> str:
    """Resources for people: "8 × H100, 8 CPUs"."""
    parts = []
    model = next((name.removeprefix(_MODEL) for name in resources if name.startswith(_MODEL)), None)
    if gpus := resources.get("GPU"):
        parts.append(_number(gpus, "GPU") if model is None else f"{gpus:g} × {model}")
    if cpus := resources.get("CPU"):
        parts.append(_number(cpus, "CPU"))
    others = (name for name in sorted(resources) if name not in ("GPU", "CPU") and not name.startswith(_MODEL))
    return ", ".join([*parts, *(f"{resources[name]:g} × {name}" for name in others)])


def _number(amount: float, noun: str) -> str:
    return f"{amount:g} {noun}" + ("" if amount == 1 else "s")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _are(number: int) -> str:
    return "is" if number == 1 else "are"

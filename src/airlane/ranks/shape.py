"""What a launch asks of a cluster, and whether the cluster can ever give it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from airlane.errors import CapacityError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airlane.ranks.hosts import Host

GPU, CPU, AUTO = "gpu", "cpu", "auto"
_MOST_NAMED = 8


@dataclass(frozen=True)
class Request:
    """As the user asked. `most_nodes` None: all that fit. `per_node` is a number, or what to count on the nodes.

    `takes_gpus` True: each rank needs a GPU of its own; False: none; None: where the cluster has them.
    """

    least_nodes: int = 1
    most_nodes: int | None = None
    per_node: int | str | None = None
    takes_gpus: bool | None = None
    cpus_per_rank: float = 1.0


@dataclass(frozen=True)
class Shape:
    """What is placed: on each of `nodes` distinct nodes the same number of ranks."""

    nodes: int
    ranks_per_node: int
    gpus_per_rank: int
    cpus_per_rank: float

    @property
    def gpus(self) -> int:
        """A node's."""
        return self.ranks_per_node * self.gpus_per_rank

    @property
    def cpus(self) -> float:
        """A node's."""
        return self.ranks_per_node * self.cpus_per_rank

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node

    def fits(self, host: Host) -> bool:
        """Whether a node could ever hold its share."""
        return host.gpus >= self.gpus and host.cpus >= self.cpus

    def fits_now(self, host: Host) -> bool:
        return host.free_gpus >= self.gpus and host.free_cpus >= self.cpus

    @property
    def share(self) -> str:
        """A node's share in words: "8 GPUs and 8 CPUs"."""
        parts = [amount(self.gpus, "GPU")] if self.gpus else []
        parts += [amount(self.cpus, "CPU")] if self.cpus else []
        return " and ".join(parts) or "nothing"

    def __str__(self) -> str:
        each = f"{amount(self.ranks_per_node, 'rank')}{' each' if self.nodes > 1 else ''}"
        return f"{amount(self.nodes, 'node')}, {each}{', one GPU a rank' if self.gpus_per_rank else ''}"


def plan_shape(request: Request, hosts: Sequence[Host]) -> Shape:
    """Raises CapacityError with the numbers where the cluster can never hold it."""
    if not hosts:
        raise CapacityError("the Ray cluster has no node that is alive", hint="ray status")
    takes_gpus = request.takes_gpus
    if takes_gpus is None:
        takes_gpus = request.per_node == GPU or (request.per_node != CPU and any(host.gpus >= 1 for host in hosts))
    asked = Shape(request.most_nodes or request.least_nodes, 1, int(takes_gpus), request.cpus_per_rank)
    if isinstance(request.per_node, int):
        asked = replace(asked, ranks_per_node=request.per_node)
    elif takes_gpus or request.per_node in (CPU, AUTO):
        asked = replace(asked, ranks_per_node=_count(asked, hosts, all_nodes=request.most_nodes is None))
    fitting = sum(asked.fits(host) for host in hosts)
    if fitting < request.least_nodes:
        raise _refusal(replace(asked, nodes=request.least_nodes), hosts)
    return replace(asked, nodes=fitting if request.most_nodes is None else min(fitting, request.most_nodes))


def _count(asked: Shape, hosts: Sequence[Host], *, all_nodes: bool) -> int:
    """How many ranks each of the nodes can hold: as many as the least of those that are needed; 1 if none can."""
    room = sorted((_room(asked, host) for host in hosts), reverse=True)
    able = [count for count in room if count > 0]
    needed = able if all_nodes else able[: asked.nodes]
    return min(needed, default=1)


def _room(asked: Shape, host: Host) -> int:
    """How many ranks fit on a node; with GPUs, these alone are counted: CPUs that lack are named, not hidden."""
    if asked.gpus_per_rank:
        return int(host.gpus // asked.gpus_per_rank)
    return int(host.cpus // asked.cpus_per_rank) if asked.cpus_per_rank else int(host.cpus)


def _refusal(asked: Shape, hosts: Sequence[Host]) -> CapacityError:
    fitting = sum(asked.fits(host) for host in hosts)
    wanted = f"{amount(asked.nodes, 'node')} with {asked.share}{' each' if asked.nodes > 1 else ''}"
    has = f"{fitting or 'none'} of the cluster's {amount(len(hosts), 'node')} can hold that ({_contents(hosts)})"
    return CapacityError(f"no room for {wanted}: {has}", hint=_possible(asked, hosts))


def _possible(asked: Shape, hosts: Sequence[Host]) -> str:
    """A line that this cluster can hold."""
    flag = "--gpus-per-node" if asked.gpus_per_rank else "--nproc-per-node"
    fitting = sum(asked.fits(host) for host in hosts)
    if fitting:
        return f"air-ranks --nodes {fitting} {flag} {asked.ranks_per_node} ..."
    most = max(int(min(_room(asked, host), host.cpus // (asked.cpus_per_rank or 1))) for host in hosts)
    if most > 0:
        return f"air-ranks --nodes 1 {flag} {most} ..."
    if asked.gpus_per_rank and any(host.gpus for host in hosts):
        return f"air-ranks --cpus-per-rank 0 {flag} {asked.ranks_per_node} ..."
    return "air-ranks --cpu-only ..." if asked.gpus_per_rank else "air-ranks --cpus-per-rank 0 ..."


def _contents(hosts: Sequence[Host]) -> str:
    """What the nodes have: each by name where they are few, counted by size where they are many."""
    if len(hosts) <= _MOST_NAMED:
        return "; ".join(f"{host.label}: {_has(host)}" for host in hosts)
    sizes = Counter(_has(host) for host in hosts)
    return "; ".join(f"{count} with {size}" for size, count in sizes.most_common())


def _has(host: Host) -> str:
    return f"{amount(host.gpus, 'GPU')}, {amount(host.cpus, 'CPU')}"


def waiting_for(shape: Shape, hosts: Iterable[Host]) -> str:
    """Why a shape that fits the cluster is not placed yet, in words."""
    able = [host for host in hosts if shape.fits(host)]
    free = [host for host in able if shape.fits_now(host)]
    busy = [host for host in able if host not in free]
    if len(able) < shape.nodes:
        return f"{amount(shape.nodes, 'node')} with {shape.share} are needed, and {len(able)} are there"
    if not busy:
        return "the nodes are free, and Ray has not placed the ranks yet"
    named = "; ".join(f"{host.label}: {_free(shape, host)} free" for host in busy[:_MOST_NAMED])
    more = f"; and {len(busy) - _MOST_NAMED} more" if len(busy) > _MOST_NAMED else ""
    return f"{len(free)} of {amount(shape.nodes, 'node')} with {shape.share} free ({named}{more})"


def _free(shape: Shape, host: Host) -> str:
    if host.free_gpus < shape.gpus:
        return f"{host.free_gpus:g} of {amount(host.gpus, 'GPU')}"
    return f"{host.free_cpus:g} of {amount(host.cpus, 'CPU')}"


def amount(count: float, noun: str) -> str:
    """Such as "1 node", "2 nodes" or "0.5 CPUs"."""
    return f"{count:g} {noun}{'' if count == 1 else 's'}"

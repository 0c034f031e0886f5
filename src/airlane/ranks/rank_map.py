"""Which seat is which rank: nodes in order, GPUs in order on each node. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from airlane.errors import BackendError
from airlane.ranks.hosts import in_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airlane.ranks.hosts import Host
    from airlane.ranks.shape import Shape


@dataclass(frozen=True)
class SeatFacts:
    """What a seat found out where it was placed. GPUs are named as Ray grants them: an index, a UUID or a MIG device.

    `gpu_order` is the order that the node's raylet was given them in; empty where it counts them itself.
    """

    seat: int
    node_id: str
    gpus: tuple[str, ...] = ()
    gpu_order: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """One rank and where it is. `gpus` are all that its node's ranks were granted: LOCAL_RANK is an index into them."""

    rank: int
    local_rank: int
    node_rank: int
    seat: int
    host: Host
    gpus: tuple[str, ...]


@dataclass(frozen=True)
class RankMap:
    """Every place, by rank."""

    places: tuple[Place, ...]

    @property
    def nodes(self) -> int:
        return self.places[-1].node_rank + 1

    def on_node(self, node_rank: int) -> tuple[Place, ...]:
        return tuple(place for place in self.places if place.node_rank == node_rank)

    def by_seat(self, seat: int) -> Place:
        return next(place for place in self.places if place.seat == seat)

    def lines(self) -> list[str]:
        """A line for each node."""
        shown = []
        for node in range(self.nodes):
            here = self.on_node(node)
            ranks = spans(place.rank for place in here)
            gpus = f"   GPUs {','.join(here[0].gpus)}" if here[0].gpus else ""
            shown.append(f"node {node}  {here[0].host.label}   {'rank' if len(here) == 1 else 'ranks'} {ranks}{gpus}")
        return shown


def number(
    facts: Sequence[SeatFacts], hosts: Mapping[str, Host], shape: Shape, topology: tuple[str, ...] = ()
) -> RankMap:
    """Number the ranks. Raises BackendError where the seats are not on distinct nodes, as many on each as planned."""
    seats: dict[str, list[SeatFacts]] = {}
    for fact in facts:
        seats.setdefault(fact.node_id, []).append(fact)
    if len(seats) != shape.nodes or any(len(here) != shape.ranks_per_node for here in seats.values()):
        found = ", ".join(f"{len(here)} on {hosts[node].label}" for node, here in seats.items())
        raise BackendError(f"Ray placed {found} ranks where {shape} were wanted", hint="air-ranks ... (once more)")
    places: list[Place] = []
    for node_rank, host in enumerate(in_order((hosts[node] for node in seats), topology)):
        here = sorted(seats[host.node_id], key=_gpu_key)
        gpus = tuple(gpu for fact in here for gpu in fact.gpus)
        for local_rank, fact in enumerate(here):
            places.append(Place(len(places), local_rank, node_rank, fact.seat, host, gpus))
    return RankMap(tuple(places))


def _gpu_key(fact: SeatFacts) -> tuple[int, int, str, int]:
    """By the raylet's own order, then indexes as numbers, then other names as text; without GPUs by seat."""
    first = fact.gpus[0] if fact.gpus else ""
    place = fact.gpu_order.index(first) if first in fact.gpu_order else len(fact.gpu_order)
    return place, int(first) if first.isdigit() else 0, first, fact.seat


def spans(numbers: Iterable[int]) -> str:
    """Whole numbers as people write them: "0-2, 5"."""
    ordered = sorted(set(numbers))
    parts: list[list[int]] = []
    for each in ordered:
        if parts and each == parts[-1][-1] + 1:
            parts[-1].append(each)
        else:
            parts.append([each])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)

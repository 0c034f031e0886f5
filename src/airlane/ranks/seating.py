"""From a cluster to numbered seats: what is feasible, placed, taken and counted, and without which nodes."""

from __future__ import annotations

from dataclasses import dataclass

from airlane.ranks.crew import Crew
from airlane.ranks.door import raylet_is_gone
from airlane.ranks.kit import build_kit
from airlane.ranks.placement import Placement
from airlane.ranks.rank_map import RankMap, number
from airlane.ranks.shape import Shape, plan_shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airlane.ranks.door import Cluster
    from airlane.ranks.hosts import Host
    from airlane.ranks.settings import Settings


@dataclass(frozen=True)
class Seated:
    """Seats that are taken, and which of them is which rank."""

    shape: Shape
    crew: Crew
    ranks: RankMap
    placement: Placement


class Seating:
    """Holds what was taken of the cluster; `release` gives it back, and is harmless twice."""

    def __init__(
        self, cluster: Cluster, settings: Settings, say: Callable[[str], None], stopped: Callable[[], bool]
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._say = say
        self._stopped = stopped
        self._kit = build_kit()
        self._excluded: frozenset[str] = frozenset()
        self._placement: Placement | None = None
        self._seated: Seated | None = None

    @property
    def current(self) -> Seated | None:
        """The seats there are now."""
        return self._seated

    def _hosts(self) -> tuple[Host, ...]:
        return tuple(host for host in self._cluster.hosts() if host.node_id not in self._excluded)

    def feasible(self) -> Shape:
        """What will be placed. Raises CapacityError where the cluster can never hold it."""
        return plan_shape(self._settings.request, self._hosts())

    def seated(self) -> Seated | None:
        """The seats there are, or new ones; None when stopped before they were taken.

        Raises CapacityError, BackendError; SeatLostError where an actor ended before it could say where it is.
        """
        if self._seated is None:
            self._seated = self._take()
        return self._seated

    def _take(self) -> Seated | None:
        shape = self.feasible()
        self._placement = Placement(self._cluster, shape, self._excluded)
        if not self._placement.wait(self._settings.timeout_s, self._say, self._stopped):
            return None
        crew = Crew(self._cluster.ray, self._placement, self._kit)
        facts = crew.take_seats(self._stopped)
        if facts is None:
            return None
        hosts = {host.node_id: host for host in self._cluster.hosts()}
        ranks = number(facts, hosts, shape, self._settings.topology)
        self._say(f"{shape} · Ray cluster at {self._cluster.address}")
        for line in ranks.lines():
            self._say(f"  {line}")
        return Seated(shape, crew, ranks, self._placement)

    def exclude_missing(self, lost: Iterable[int]) -> frozenset[int]:
        """The nodes of lost ranks that do not answer any more take no seats from now on; returns all ranks on them."""
        if self._seated is None:
            return frozenset()
        ranks, places = set(lost), self._seated.ranks.places
        gone = {
            host.node_id for host in {place.host for place in places if place.rank in ranks} if raylet_is_gone(host)
        }
        self._excluded |= gone
        return frozenset(place.rank for place in places if place.host.node_id in gone)

    def release(self) -> None:
        """Remove the placement group, and with it the seats."""
        placement, self._placement, self._seated = self._placement, None, None
        if placement is not None:
            placement.remove()

"""The seats of a placement: one Ray actor for each rank, and all that is said between them and the launcher."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from airlane.errors import BackendError
from airlane.ranks import seat as seat_module
from airlane.ranks.rank_map import SeatFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from airlane.ranks.order import Order
    from airlane.ranks.placement import Placement

_FOLLOW_S = 2.0
_SILENCE_S = 30.0
_SEATED_S = 120.0
_STEP_S = 0.5
_REASON = re.compile(r"The actor (?:died|is dead) because ([^.\n]+)")


@dataclass(frozen=True)
class Event:
    """What happened to a rank's process, told by its keeper. `at_s` is by the launcher's clock."""

    name: str
    at_s: float
    code: int | None = None
    signal: int | None = None
    out_of_memory: bool = False
    asked: bool = False
    why: str = ""
    state: str = ""
    waits_in: str = ""
    left: bool = False


@dataclass(frozen=True)
class News:
    """What a seat has to tell. `lost` says why it will never tell anything again."""

    seat: int
    events: tuple[Event, ...] = ()
    out: bytes = b""
    errors: bytes = b""
    is_last: bool = False
    lost: str | None = None


class SeatLostError(Exception):
    """A seat does not answer; `seat` is its number, and the text says what Ray knows."""

    def __init__(self, seat: int, words: str) -> None:
        super().__init__(words)
        self.seat = seat


class Crew:
    """Seats are numbered as they were asked for; only `rank_map` makes ranks of them."""

    def __init__(self, ray: Any, placement: Placement, kit: bytes) -> None:
        self._ray = ray
        shape = placement.shape
        ray.cloudpickle.register_pickle_by_value(seat_module)  # the nodes may have no Airlane
        from ray.util.scheduling_strategies import (  # type: ignore[import-not-found,unused-ignore]
            PlacementGroupSchedulingStrategy,
        )

        actor = ray.remote(seat_module.Seat)
        self._seats = [
            actor.options(
                num_cpus=shape.cpus_per_rank,
                num_gpus=shape.gpus_per_rank,
                max_concurrency=2,  # one call follows, one asks for something meanwhile
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    placement_group=placement.group, placement_group_bundle_index=bundle
                ),
            ).remote()
            for bundle in range(shape.nodes)
            for _ in range(shape.ranks_per_node)
        ]
        self._kit = kit
        self._ahead_s = [0.0] * len(self._seats)
        self._following: dict[Any, tuple[int, float]] = {}

    def take_seats(self, stopped: Callable[[], bool]) -> list[SeatFacts] | None:
        """Wait until all seats are taken; None when stopped before. Raises SeatLostError; BackendError when overdue."""
        asked = {seat.facts.remote(): number for number, seat in enumerate(self._seats)}
        waiting, deadline = list(asked), time.monotonic() + _SEATED_S
        while waiting:
            if stopped():
                return None
            if time.monotonic() > deadline:
                raise BackendError(
                    f"Ray has not started {len(waiting)} actors within {_SEATED_S:g} s", hint="ray status"
                )
            _, waiting = self._ray.wait(waiting, num_returns=len(waiting), timeout=_STEP_S)
        facts = []
        for reference, number in asked.items():
            found = self._answer(number, reference)
            gpus, order = tuple(found["gpus"]), tuple(found["gpu_order"])
            facts.append(SeatFacts(number, found["node_id"], gpus, order))
        self._compare_clocks()
        return facts

    def _compare_clocks(self) -> None:
        """How far each node's clock is ahead of ours, so that ends on different nodes can be put in order."""
        for number, seat in enumerate(self._seats):
            before = time.time()
            theirs = float(self._answer(number, seat.clock.remote()))
            self._ahead_s[number] = theirs - (before + time.time()) / 2

    def hold_port(self, seat: int) -> int:
        """A port on a seat's node that is kept free for it. Raises SeatLostError."""
        return int(self._answer(seat, self._seats[seat].hold_port.remote()))

    def start(self, orders: Mapping[int, Order], call: bytes | None) -> None:
        """Start a rank in each seat. Raises SeatLostError."""
        kit, stored = self._ray.put(self._kit), None if call is None else self._ray.put(call)
        started = [
            (number, self._seats[number].start.remote(kit, order.to_json().encode(), order.mark, stored))
            for number, order in orders.items()
        ]
        for number, reference in started:
            self._answer(number, reference)
        for number in orders:
            self._follow(number)

    def _follow(self, number: int) -> None:
        self._following[self._seats[number].follow.remote(_FOLLOW_S)] = (number, time.monotonic())

    def news(self, wait_s: float) -> list[News]:
        """What the seats have to tell; waits so long for the first."""
        references = list(self._following)
        ready, _ = self._ray.wait(references, num_returns=1, timeout=wait_s) if references else ([], [])
        if ready:  # and whatever else is there
            ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        told = [self._told(self._following.pop(reference)[0], reference) for reference in ready]
        for each in told:
            if not each.is_last:
                self._follow(each.seat)
        return told + self._silent()

    def _told(self, number: int, reference: Any) -> News:
        try:
            events, out, errors, over = self._answer(number, reference)
        except SeatLostError as error:
            return News(number, is_last=True, lost=str(error))
        return News(number, tuple(self._event(number, event) for event in events), out, errors, over)

    def _event(self, number: int, told: Mapping[str, Any]) -> Event:
        fields = {
            name: told[name] for name in ("code", "signal", "asked", "why", "state", "waits_in", "left") if name in told
        }
        at_s = float(told["at"]) - self._ahead_s[number]
        return Event(str(told["event"]), at_s, out_of_memory=bool(told.get("oom")), **fields)

    def _silent(self) -> list[News]:
        """Seats whose answer is overdue: the machine, or the network, hangs."""
        now = time.monotonic()
        found = []
        for reference, (number, asked_at) in list(self._following.items()):
            if now - asked_at > _FOLLOW_S + _SILENCE_S:
                del self._following[reference]
                found.append(News(number, is_last=True, lost=f"no answer for {_SILENCE_S:g} s"))
        return found

    def tell(self, numbers: Iterable[int], request: str) -> None:
        """Ask the keepers for something; nobody waits for an answer."""
        for number in numbers:
            self._seats[number].tell.remote(request)

    def result(self, number: int) -> bytes:
        """What the function of a rank returned. Raises SeatLostError."""
        return bytes(self._answer(number, self._seats[number].result.remote()))

    def _answer(self, number: int, reference: Any) -> Any:
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(reference, timeout=_SILENCE_S)
        except exceptions.RayTaskError as error:
            raise BackendError(f"a rank's seat failed: {error}", hint="ray status") from error
        except exceptions.GetTimeoutError as error:
            raise SeatLostError(number, f"no answer for {_SILENCE_S:g} s") from error
        except exceptions.RayError as error:
            raise SeatLostError(number, why_lost(type(error).__name__, str(error))) from error


def why_lost(kind: str, text: str) -> str:
    """What Ray says of an actor that is gone, in few words. Source: what Ray 2.60 says when each of them is killed."""
    if kind == "ActorUnavailableError":
        return "its Ray worker does not answer"
    if kind == "OutOfMemoryError" or "OUT_OF_MEMORY" in text:
        return "Ray killed its worker, because the node ran out of memory"
    reason = _REASON.search(text)
    if reason is None:
        return f"Ray: {kind}"
    if "node has died" in reason[1]:
        return "its node has died"
    return "its Ray worker has died" if "worker process" in reason[1] else f"Ray ended its worker ({reason[1]})"

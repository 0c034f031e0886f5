"""Before the workload: do all ranks reach one another, and how fast? Who does not, and who is slow, is named."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field

from airlane.errors import NodeFailedError
from airlane.ranks.decide import DONE, STOPPED
from airlane.ranks.order import KIT, PYTHON
from airlane.ranks.screen import Screen
from airlane.ranks.settings import RankCommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airlane.ranks.launcher import Launcher
    from airlane.ranks.outcome import Outcome
    from airlane.ranks.rank_map import RankMap

_SLOW = 0.5  # of what is usual
_COMPARABLE = 3


@dataclass
class Measured:
    """What the ranks told, as it comes; bandwidths in bytes a second."""

    started: set[int] = field(default_factory=set)
    joined: set[int] = field(default_factory=set)
    inside: dict[int, float] = field(default_factory=dict)
    pairs: dict[tuple[int, int], float] = field(default_factory=dict)
    whole: list[float] = field(default_factory=list)

    def hear(self, rank: int, line: bytes) -> None:
        """A line of a rank; what is not ours is passed over."""
        try:
            told = json.loads(line)
            step = told["preflight"]
        except (ValueError, TypeError, KeyError):
            return
        if step == "started":
            self.started.add(rank)
        elif step == "joined":
            self.joined.add(rank)
        elif step == "node":
            node, speed = int(told["node"]), float(told["bytes_per_s"])
            self.inside[node] = min(speed, self.inside.get(node, speed))
        elif step == "pair":
            first, second = told["nodes"]
            self.pairs[first, second] = float(told["bytes_per_s"])
        elif step == "all":
            self.whole.append(float(told["bytes_per_s"]))


class Listening(Screen):
    """In place of the screen: measures are taken from stdout, all else is shown."""

    def __init__(self, screen: Screen, measured: Measured) -> None:
        self._screen = screen
        self._measured = measured

    def rank(self, rank: int, lines: Iterable[bytes], *, is_error: bool) -> None:
        for line in lines:
            if is_error:
                self._screen.rank(rank, [line], is_error=True)
            else:
                self._measured.hear(rank, line)

    def say(self, *lines: str) -> None:
        self._screen.say(*lines)


def preflight(launcher: Launcher, screen: Screen) -> None:
    """Measure on the seats of a launch. Raises NodeFailedError, with the node that others cannot reach."""
    measured = Measured()
    command = RankCommand((PYTHON, f"{KIT}/airlane/ranks/preflight_rank.py"))
    outcome = launcher.try_once(command, screen=Listening(screen, measured))
    seated = launcher.seating.current
    if outcome.why == STOPPED or seated is None:
        return
    hosts = {place.node_rank: place.host.label for place in seated.ranks.places}
    screen.say(*(f"  preflight  {line}" for line in measure_lines(measured, hosts)))
    if outcome.why != DONE:
        raise failure(outcome, measured, seated.ranks)
    for line in slow_nodes(measured, hosts):
        screen.say(f"! {line}")


def measure_lines(measured: Measured, hosts: Mapping[int, str]) -> list[str]:
    """What was measured, smallest part first."""
    lines = [f"inside node {node} ({hosts[node]})  {rate(speed)}" for node, speed in sorted(measured.inside.items())]
    lines += [
        f"node {first} - node {second} ({hosts[first]} - {hosts[second]})  {rate(speed)}"
        for (first, second), speed in sorted(measured.pairs.items())
    ]
    return lines + ([f"all-reduce over all ranks  {rate(min(measured.whole))}"] if measured.whole else [])


def slow_nodes(measured: Measured, hosts: Mapping[int, str]) -> list[str]:
    """Nodes that are slow inside, or towards every neighbour, where there are enough to compare."""
    lines = []
    for node, speed in sorted(measured.inside.items()):
        usual = statistics.median(measured.inside.values())
        if len(measured.inside) >= _COMPARABLE and speed < _SLOW * usual:
            lines.append(f"node {node} ({hosts[node]}) is slow: {rate(speed)} inside it, and {rate(usual)} are usual")
    if len(measured.pairs) < _COMPARABLE:
        return lines
    usual = statistics.median(measured.pairs.values())
    for node in sorted(hosts):
        own = [speed for pair, speed in measured.pairs.items() if node in pair]
        if own and max(own) < _SLOW * usual:
            lines.append(
                f"node {node} ({hosts[node]}) is slow: {rate(max(own))} to others, and {rate(usual)} are usual"
            )
    return lines


def failure(outcome: Outcome, measured: Measured, ranks: RankMap) -> NodeFailedError:
    """The node whose ranks came least far; where all came as far, that of the first rank that failed."""
    for reached in (measured.started, measured.joined):
        absent = [place for place in ranks.places if place.rank not in reached]
        if absent and len(absent) < len(ranks.places):
            place = absent[0]
            break
    else:
        place = ranks.places[outcome.first.rank if outcome.first is not None else 0]
    words = "\n".join(f"    {line}" for line in outcome.words)
    return NodeFailedError(
        f"preflight: node {place.node_rank} ({place.host.label}) does not take part in an all-reduce\n{words}",
        host=place.host.address,
        hint="ray status",
    )


def rate(bytes_per_s: float) -> str:
    """Such as "11.2 GB/s" or "830 MB/s"."""
    if bytes_per_s >= 1e9:  # noqa: PLR2004 - a gigabyte
        return f"{bytes_per_s / 1e9:.1f} GB/s"
    return f"{bytes_per_s / 1e6:.0f} MB/s"

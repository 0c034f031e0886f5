"""What is said of a generation that is over: the cause first, then what followed from it. Pure."""

from __future__ import annotations

from airlane.ranks.decide import DONE, HUNG, PORT_TAKEN, STOPPED
from airlane.ranks.ends import folded
from airlane.ranks.stacks import grouped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from airlane.ranks.ends import RankEnd
    from airlane.ranks.outcome import Outcome
    from airlane.ranks.rank_map import RankMap


def outcome_lines(outcome: Outcome, ranks: RankMap | None, took_s: float) -> list[str]:
    """`ranks` is None where seats were lost before they were numbered."""
    if outcome.why == DONE:
        return [f"✓ all of {len(outcome.ends)} ranks exited with code 0 after {duration(took_s)}"]
    if outcome.why == HUNG:
        return [f"  {line}" for line in grouped(outcome.stacks, outcome.states)]
    if outcome.why == STOPPED:
        return [f"stopped after {duration(took_s)}, as asked"]
    if outcome.first is None:
        return []
    if ranks is None:
        return [f"✗ a rank {outcome.first.words}"]
    return _failure(outcome, outcome.first, ranks)


def _failure(outcome: Outcome, first: RankEnd, ranks: RankMap) -> list[str]:
    place = ranks.places[first.rank]
    gpu = f", GPU {place.gpus[place.local_rank]}" if place.gpus else ""
    where = f"node {place.node_rank} ({place.host.label}{gpu})"
    lines = [f"✗ rank {first.rank} on {where} {first.words}, {duration(first.at_s - outcome.began_s)} after its start"]
    lines += [f"    {line}" for line in outcome.words]
    return lines + [f"  {line}" for line in folded(outcome.ends, first)]


def again_line(outcome: Outcome, restarts: int, most: int) -> str:
    """Why another generation follows."""
    if outcome.why == PORT_TAKEN:
        return "! somebody else listens on the master port: once more, with another port"
    return f"starting again: restart {restarts} of {most}"


def duration(seconds: float) -> str:
    """Such as "0.4 s", "41 s", "3m 02s" or "2h 05m"."""
    if seconds < 10:  # noqa: PLR2004 - where tenths begin to matter
        return f"{max(seconds, 0):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {rest:02}s" if minutes else f"{rest} s"

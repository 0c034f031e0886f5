"""One generation, from the start of its ranks until nothing of them is left."""

from __future__ import annotations

import time
from dataclasses import replace

from airlane.ranks.decide import DONE, FAILED, HUNG, LOST, PORT_TAKEN, STOPPED
from airlane.ranks.ends import RankEnd, first_failure
from airlane.ranks.outcome import Outcome
from airlane.ranks.stacks import state_in_words
from airlane.ranks.watchdog import Watchdog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from airlane.ranks.crew import Crew, Event, News
    from airlane.ranks.output import Output
    from airlane.ranks.rank_map import RankMap

# Ranks that another rank's failure ends get SIGTERM, and so long to answer it: all are gone within three seconds.
_FAILURE_GRACE_S = 1.5
_TICK_S = 0.25
_OVERDUE_S = 10.0
_STACKS_S = 20.0
# What libraries say of a port that somebody else listens on.
_TAKEN = ("EADDRINUSE", "Address already in use", "address already in use", "errno: 98")


class Asked:
    """What the user, or the scheduler, asks of the whole launch by a signal; `number` None: nothing yet."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.times = 0

    def hear(self, number: int) -> None:
        self.number = self.number or number
        self.times += 1


class Following:
    """`run` returns when every rank's seat has said that nothing is left, or will never say anything again."""

    def __init__(
        self,
        crew: Crew,
        ranks: RankMap,
        output: Output,
        *,
        asked: Asked,
        watchdog_s: float | None,
        stop_grace_s: float,
        say: Callable[[str], None],
    ) -> None:
        self._crew = crew
        self._ranks = ranks
        self._rank_of = {place.seat: place.rank for place in ranks.places}
        self._output = output
        self._asked = asked
        self._stop_grace_s = stop_grace_s
        self._say = say
        self._watchdog = Watchdog(watchdog_s, time.monotonic())
        self._watchdog_s = watchdog_s
        self._began_s = time.time()
        self._ends: dict[int, RankEnd] = {}
        self._states: dict[int, str] = {}
        self._stacks: dict[int, list[str]] = {}
        self._over: set[int] = set()
        self._stopping_since: float | None = None
        self._give_up_at: float | None = None
        self._killed = False
        self._hung = False

    def run(self) -> Outcome:
        """Raises ReaderGoneError; then nothing has been ended yet."""
        while len(self._over) < len(self._rank_of) and not self._is_overdue():
            for news in self._crew.news(_TICK_S):
                self._hear(news)
            self._look()
        for place in self._ranks.places:
            if place.rank not in self._over and place.rank not in self._ends:
                self._end(RankEnd(place.rank, time.time(), lost="its processes do not end", asked=True))
        return self._outcome()

    def _hear(self, news: News) -> None:
        rank = self._rank_of[news.seat]
        if news.out or news.errors:
            self._watchdog.heard(time.monotonic())
        self._output.take(rank, news.out, news.errors, is_last=news.is_last)
        for event in news.events:
            self._note(rank, event)
        if news.lost is not None and rank not in self._ends:
            self._end(RankEnd(rank, time.time(), lost=news.lost))
        if news.is_last:
            self._over.add(rank)

    def _note(self, rank: int, event: Event) -> None:
        if event.name == "failed":
            self._end(RankEnd(rank, event.at_s, error=event.why))
        elif event.name == "lost":
            self._end(RankEnd(rank, event.at_s, lost="its keeper was killed"))
        elif event.name == "ended":
            end = RankEnd(rank, event.at_s, exit_code=event.code, signal=event.signal, asked=event.asked)
            self._end(replace(end, out_of_memory=event.out_of_memory))
        elif event.name == "state":
            self._states.setdefault(rank, state_in_words(event.state, event.waits_in))

    def _end(self, end: RankEnd) -> None:
        """Only a rank's first end counts: one that was lost has none after it."""
        self._ends.setdefault(end.rank, end)

    def _look(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        if self._asked.number is not None and self._stopping_since is None:
            self._stop(self._stop_grace_s)
        if self._asked.times > 1 and not self._killed:
            self._killed = True
            self._crew.tell(self._living(), "kill")
        if self._stopping_since is None and any(end.failed for end in self._ends.values()):
            self._stop(_FAILURE_GRACE_S)
        if self._stopping_since is None and self._watchdog.barks(now):
            self._dump(now)

    def _stop(self, grace_s: float) -> None:
        self._stopping_since = time.monotonic()
        self._give_up_at = self._stopping_since + grace_s + _OVERDUE_S
        self._crew.tell(self._living(), f"stop {grace_s:g}")

    def _dump(self, now: float) -> None:
        self._hung = True
        self._stopping_since, self._give_up_at = now, now + _STACKS_S + _OVERDUE_S
        self._say(f"✗ no rank has written anything for {self._watchdog_s:g} s: asking each where it is")
        self._stacks = self._output.collect_stacks()
        self._crew.tell(self._living(), "dump")

    def _living(self) -> list[int]:
        return [place.seat for place in self._ranks.places if place.rank not in self._over]

    def _is_overdue(self) -> bool:
        return self._give_up_at is not None and time.monotonic() > self._give_up_at

    def _outcome(self) -> Outcome:
        ends = tuple(self._ends[rank] for rank in sorted(self._ends))
        if self._hung:
            stacks = {place.rank: self._stacks.get(place.rank, []) for place in self._ranks.places}
            return Outcome(HUNG, self._began_s, ends, stacks=stacks, states=self._states)
        first = first_failure(ends)
        if first is None:
            return Outcome(STOPPED if self._asked.number is not None else DONE, self._began_s, ends)
        why = LOST if first.lost is not None else PORT_TAKEN if self._is_port_taken(first) else FAILED
        words = [] if first.lost is not None else self._output.last_words(first.rank)
        return Outcome(why, self._began_s, ends, first, words)

    def _is_port_taken(self, first: RankEnd) -> bool:
        """Whether rank 0 could not listen. It may have ended after the others, which had no one to connect to."""
        zero = self._ends.get(0)
        if zero is None or not zero.failed or zero.asked:
            return False
        said = self._output.errors(0)
        return first.error is None and any(word in line for line in said for word in _TAKEN)

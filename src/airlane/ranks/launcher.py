"""A launch: seats, one generation of ranks after the other as decide.py says, and an end that leaves nothing."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, replace
from pathlib import Path

from airlane.errors import EXIT_FAILED, EXIT_OK, AirError
from airlane.ranks.crew import SeatLostError
from airlane.ranks.decide import DONE, EXIT_HUNG, HUNG, LOST, PORT_TAKEN, STOPPED, Spent, decide
from airlane.ranks.ends import RankEnd
from airlane.ranks.following import Asked, Following
from airlane.ranks.order import Order
from airlane.ranks.outcome import Outcome
from airlane.ranks.output import Output
from airlane.ranks.report import again_line, outcome_lines
from airlane.ranks.seating import Seating
from airlane.ranks.variables import Generation, rank_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from airlane.ranks.door import Cluster
    from airlane.ranks.rank_map import Place
    from airlane.ranks.screen import Screen
    from airlane.ranks.seating import Seated
    from airlane.ranks.settings import RankCommand, Settings

_SIGNALED = 128


@dataclass(frozen=True)
class Ended:
    """How a launch ended: the exit code of `air-ranks`, and what each rank's function returned."""

    code: int
    outcome: Outcome | None = None
    results: tuple[bytes, ...] = ()


class Launcher:
    """`run` once; then `close` gives back what it has taken of the cluster, however `run` ended."""

    def __init__(self, cluster: Cluster, settings: Settings, screen: Screen, *, python: str, asked: Asked) -> None:
        self._settings = settings
        self._screen = screen
        self._python = python
        self._asked = asked
        self._id = f"{time.strftime('%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        self.seating = Seating(cluster, settings, screen.say, lambda: asked.number is not None)

    def run(self) -> Ended:
        """Raises AirError where the cluster cannot hold it, and ReaderGoneError."""
        self.seating.feasible()
        if self._settings.preflight:
            from airlane.ranks.preflight import preflight

            preflight(self, self._screen)
        spent, count = Spent(), 0
        while True:
            generation = self._explained(self.try_once(self._settings.command, count, spent.restarts))
            decision = decide(generation.why, spent, max_restarts=self._settings.max_restarts)
            again = decision.again and self._asked.number is None
            if not (again and generation.why == PORT_TAKEN):
                seated = self.seating.current
                ranks = None if seated is None else seated.ranks
                self._screen.say(*outcome_lines(generation, ranks, time.time() - generation.began_s))
            if not again:
                return self._ended(generation)
            spent, count = decision.spent, count + 1
            self._screen.say(again_line(generation, spent.restarts, self._settings.max_restarts))
            if decision.replace:
                self.seating.release()

    def _explained(self, outcome: Outcome) -> Outcome:
        """Where ranks were lost: whether their nodes are."""
        missing = self.seating.exclude_missing(outcome.lost)
        ends = tuple(
            replace(end, lost="its node does not answer any more") if end.rank in missing and end.lost else end
            for end in outcome.ends
        )
        first = next((end for end in ends if outcome.first is not None and end.rank == outcome.first.rank), None)
        return replace(outcome, ends=ends, first=first)

    def try_once(
        self, command: RankCommand, count: int = 0, restarts: int = 0, *, screen: Screen | None = None
    ) -> Outcome:
        """One generation, of the workload or of another program whose output goes to a screen of its own."""
        began_s = time.time()
        seated: Seated | None = None
        try:
            seated = self.seating.seated()
            if seated is None:
                return Outcome(STOPPED, began_s)
            first = seated.ranks.places[0]
            port = seated.crew.hold_port(first.seat)
            generation = Generation(count, restarts, first.host.address, port)
            seated.crew.start(self._orders(seated, generation, command), command.call)
        except SeatLostError as error:
            rank = error.seat if seated is None else seated.ranks.by_seat(error.seat).rank
            end = RankEnd(rank, time.time(), lost=str(error))
            return Outcome(LOST, began_s, (end,), end)
        return self._follow(seated, generation, screen)

    def _follow(self, seated: Seated, generation: Generation, screen: Screen | None) -> Outcome:
        settings = self._settings
        folder = None
        if settings.log_dir is not None and screen is None:
            folder = Path(settings.log_dir) / self._id / str(generation.number)
        if screen is None:
            where = f"   logs {folder}" if folder is not None else ""
            self._screen.say(f"  master  {generation.address}:{generation.port}{where}")
        output = Output(screen or self._screen, seated.ranks, folder, shown_local_ranks=settings.shown_local_ranks)
        try:
            return Following(
                seated.crew,
                seated.ranks,
                output,
                asked=self._asked,
                watchdog_s=settings.watchdog_s,
                stop_grace_s=settings.stop_grace_s,
                say=self._screen.say,
            ).run()
        finally:
            output.close()

    def _orders(self, seated: Seated, generation: Generation, command: RankCommand) -> dict[int, Order]:
        return {place.seat: self._order(place, seated, generation, command) for place in seated.ranks.places}

    def _order(self, place: Place, seated: Seated, generation: Generation, command: RankCommand) -> Order:
        settings = self._settings
        return Order(
            argv=command.argv,
            folder=settings.folder,
            python=self._python,
            mark=f"{self._id}.{generation.number}.{place.rank}.{secrets.token_hex(4)}",
            script=command.script,
            shipped=settings.working_dir,
            sent=dict(settings.sent),
            own=rank_variables(place, seated.ranks, generation, settings, settings.run_id or self._id),
        )

    def _ended(self, outcome: Outcome) -> Ended:
        if outcome.why == DONE:
            return Ended(EXIT_OK, outcome, self._results())
        if self._asked.number is not None:
            return Ended(_SIGNALED + self._asked.number, outcome)
        if outcome.why == HUNG:
            return Ended(EXIT_HUNG, outcome)
        return Ended(EXIT_FAILED if outcome.first is None else outcome.first.code, outcome)

    def _results(self) -> tuple[bytes, ...]:
        seated = self.seating.current
        if self._settings.command.call is None or seated is None:
            return ()
        try:
            return tuple(seated.crew.result(place.seat) for place in seated.ranks.places)
        except SeatLostError as error:
            raise AirError(f"a rank's result is lost: {error}", hint="launch(..., max_restarts=1)") from error

    def close(self) -> None:
        """Remove the placement group; what is left of the ranks ends with it."""
        self.seating.release()

"""Asking without being held up: every question has a thread of its own for as long as it takes, and never two.

The threads are daemons, and not of a pool, because leaving must not wait for a head that does not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from airlane.errors import AirError
from airlane.top.fields import text

T = TypeVar("T")

# What takes long is asked less often: of our own time it may have a twenty-fifth, and of the head's a half.
_REST_OF_CPU = 25.0
_REST_OF_WAIT = 2.0
_LONGEST_REST_S = 15.0
_MOST_WORDS = 500


class Flight(Generic[T]):
    """Something that is being done in a thread."""

    def __init__(self, name: str, do: Callable[[], T], then: Callable[[Flight[T]], None] | None = None) -> None:
        self._do, self._then = do, then
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._lock = threading.Lock()
        self.landed = False
        self.value: T | None = None
        self.error: Exception | None = None
        self.cpu_s = 0.0
        self.began = self.ended = time.monotonic()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self.landed:
                return
            future = loop.create_future()
            self._waiting.append((loop, future))
        await future

    async def result(self) -> T:
        """What came of it. Raises what it raised."""
        await self.wait()
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value] # there where there is no error

    def _run(self) -> None:
        began = time.thread_time()
        try:
            self.value = self._do()
        except Exception as error:  # noqa: BLE001 # told to whoever waits: an odd answer ends no monitor
            self.error = error
        self.cpu_s, self.ended = time.thread_time() - began, time.monotonic()
        if self._then is not None:
            self._then(self)
        with self._lock:
            self.landed = True
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            with contextlib.suppress(RuntimeError):  # that loop is closed, and nobody waits any more
                loop.call_soon_threadsafe(_land, future)


def _land(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a question brought, and when."""

    data: T
    at: float


class Question(Generic[T]):
    """One kind of question: its last answer, and what became of it when it was last asked."""

    def __init__(self, name: str, ask: Callable[[], T], *, every_s: float = 0.0) -> None:
        """It is asked at most `every_s`."""
        self.name = name
        self._ask, self._every_s = ask, every_s
        self._flight: Flight[T] | None = None
        self._due = 0.0
        self.answer: Answer[T] | None = None
        self.error: Exception | None = None
        self.landed_at = -math.inf  # by our own clock

    @property
    def asked_since_s(self) -> float | None:
        """For how long an answer has been waited for; None where none is."""
        flight = self._flight
        return None if flight is None or flight.landed else time.monotonic() - flight.began

    def ask(self) -> Flight[T] | None:
        """Ask, unless it is still being asked, or not due yet."""
        if self.asked_since_s is not None or time.monotonic() < self._due:
            return None
        self._flight = Flight(f"air top: {self.name}", self._ask, self._landed)
        return self._flight

    def _landed(self, flight: Flight[T]) -> None:
        self.error, self.landed_at = flight.error, flight.ended
        if flight.error is not None:
            self._due = 0.0
            return
        self.answer = Answer(flight.value, time.time())  # type: ignore[arg-type] # there where there is no error
        rest_s = max(_REST_OF_CPU * flight.cpu_s, _REST_OF_WAIT * (flight.ended - flight.began))
        self._due = flight.began + max(self._every_s, min(rest_s, _LONGEST_REST_S))


async def wait_for_all(flights: list[Flight[T]], patience_s: float) -> None:
    """Until all have landed, or so long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            for flight in flights:
                await flight.wait()


def trouble_words(error: Exception | None, *names: str) -> str | None:
    """Why there is no answer, in few words: without the name of the cluster, which stands above it."""
    if error is None:
        return None
    if isinstance(error, AirError):
        told = error.message
        for name in names:
            told = told.removeprefix("the Ray cluster at ").removeprefix(name).lstrip(": ")
    elif isinstance(error, ValueError):
        told = f"answers in a form that is not known: {error}"
    else:
        told = f"cannot be read: {error!r}"
    return text(told, _MOST_WORDS)  # it may hold what the other side wrote

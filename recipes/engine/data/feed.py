"""The packs of one rank, made ahead of the training by a thread of their own."""

from __future__ import annotations

from collections import deque
from threading import Condition, Thread
from types import TracebackType
from typing import Self

from recipes.engine.data.corpus import Corpus, Pack
from recipes.engine.data.plan import GlobalBatch, Plan, packs_of_rank

AHEAD = 4  # steps that are ready before they are asked for


class Feed:
    """For each step from the first to the last: what all learn from, and this rank's packs.

    Rank r has the packs r, r + world, r + 2 world ... of a step; every rank has as many, if need be by empty ones. What
    goes wrong in the thread is raised where the next step is asked for. `close`, or leaving `with`, ends the thread.
    """

    def __init__(
        self, corpus: Corpus, plan: Plan, *, rank: int = 0, world: int = 1, first_step: int = 1, last_step: int
    ) -> None:
        self._corpus, self._plan = corpus, plan
        self._rank, self._world = rank, world
        self._first_step, self._last_step = first_step, last_step
        self._ready: deque[tuple[GlobalBatch, list[Pack]]] = deque()
        self._changed = Condition()
        self._closed = False
        self._ended = False
        self._error: BaseException | None = None
        self._thread = Thread(target=self._work, name="feed", daemon=True)
        self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[GlobalBatch, list[Pack]]:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended)
            if self._ready:
                step = self._ready.popleft()
                self._changed.notify_all()
                return step
        if self._error:
            raise self._error
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the thread, and forget what it has made."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        try:
            self._make()
        except BaseException as error:  # noqa: BLE001 - the one who asks for the next step gets it
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _make(self) -> None:
        for step in range(self._first_step, self._last_step + 1):
            batch = self._plan.step(step)
            made = (batch, packs_of_rank(self._corpus, batch, self._rank, self._world))
            with self._changed:
                self._changed.wait_for(lambda: self._closed or len(self._ready) < AHEAD)
                if self._closed:
                    return
                self._ready.append(made)
                self._changed.notify_all()

"""Following a run: its phases, its state and its log, as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from airlane.frozen import frozen
from airlane.logs.tail import BLOCK_BYTES, follow, tail_offset
from airlane.store.runs import RunStore, RunView
from airlane.store.states import Phase, State

_FIRST_WAIT_S = 0.003
_LONGEST_WAIT_S = 0.1
_WAIT_GROWTH = 1.1
# A dead supervisor changes no file: the run is settled this often while nothing happens.
_SETTLE_EVERY_S = 1.0
_EVERYTHING = 1 << 62


@frozen
class PhaseChanged:
    """What the run is doing now; `phase` is None once it has ended."""

    phase: Phase | None
    detail: str | None


@frozen
class StatusChanged:
    """The run's state, and the one before."""

    state: State
    previous: State | None


@frozen
class LogChunk:
    """Bytes of a node's log, in order; a chunk may end inside a line."""

    node: int
    data: bytes


Update = PhaseChanged | StatusChanged | LogChunk


class Watcher:
    """Looks at a run's files again and again; nothing that the supervisor does waits for it."""

    def __init__(self, view: RunView, store: RunStore, settle: Callable[[RunView], RunView]) -> None:
        self._view = view
        self._store = store
        self._settle = settle
        self._signature: tuple[int, int] | None = None
        self._settle_at = time.monotonic() + _SETTLE_EVERY_S

    def view(self) -> RunView:
        """The run now: read again when its status file is another one, settled when nothing happened for a while."""
        signature = _signature(self._view.paths.status)
        if signature != self._signature:
            self._signature = signature
            self._view = self._store.view(self._view.paths)
            self._settle_at = time.monotonic() + _SETTLE_EVERY_S
        elif time.monotonic() > self._settle_at:
            self._view = self._settle(self._view)
            self._settle_at = time.monotonic() + _SETTLE_EVERY_S
        return self._view


def watch_run(watcher: Watcher) -> Iterator[Update]:
    """Every update until the run has ended and node 0's log is told to its end."""
    shown: tuple[State | None, Phase | None, str | None] = (None, None, None)
    log = _NodeLog()
    wait_s = _FIRST_WAIT_S
    while True:
        view = watcher.view()
        # Of an attempt that has ended, the rest of the log comes before the news about the next one.
        yield from log.to_attempt(view)
        news = (view.state, view.phase, view.status.detail if view.status is not None and view.phase else None)
        if news[1:] != shown[1:]:
            yield PhaseChanged(news[1], news[2])
        chunk = log.read()
        if chunk:
            yield LogChunk(0, chunk)
        if view.state.terminal:
            yield from log.rest()
        if news[0] is not shown[0]:
            yield StatusChanged(view.state, shown[0])
        if view.state.terminal:
            return
        wait_s = _FIRST_WAIT_S if chunk or news != shown else min(wait_s * _WAIT_GROWTH, _LONGEST_WAIT_S)
        shown = news
        if not chunk:
            time.sleep(wait_s)


class _NodeLog:
    """Node 0's log of the attempt that runs, read as it grows."""

    def __init__(self) -> None:
        self._attempt = -1
        self._path: Path | None = None
        self._offset = 0

    def to_attempt(self, view: RunView) -> Iterator[Update]:
        """Go to the latest attempt, having read the one before to its end."""
        attempts = view.attempts
        if attempts and attempts[-1].number != self._attempt:
            yield from self.rest()
            self._attempt = attempts[-1].number
            self._path = view.paths.log(attempt=self._attempt, node=0)
            self._offset = 0

    def read(self) -> bytes:
        if self._path is None:
            return b""
        try:
            with self._path.open("rb", buffering=0) as file:
                file.seek(self._offset)
                chunk = file.read(BLOCK_BYTES) or b""
        except FileNotFoundError:
            return b""
        self._offset += len(chunk)
        return chunk

    def rest(self) -> Iterator[Update]:
        while chunk := self.read():
            yield LogChunk(0, chunk)


def follow_log(watcher: Watcher, *, node: int, tail: int, attempt: int | None) -> Iterator[bytes]:
    """The last `tail` lines of a node's log and what comes after, until the attempt (or the run) has ended.

    Without `attempt`, the latest one is shown, and then those that follow it.
    """
    view = watcher.view()
    while not view.attempts and not view.state.terminal:
        time.sleep(_LONGEST_WAIT_S)
        view = watcher.view()
    number = attempt if attempt is not None else max(len(view.attempts) - 1, 0)
    while number < len(view.attempts):
        path = view.paths.log(attempt=number, node=node)
        yield from follow(path, offset=tail_offset(path, tail), ended=_ender(watcher, number))
        if attempt is not None:
            return
        number, tail = number + 1, _EVERYTHING
        view = _next_attempt(watcher, number)


def _ender(watcher: Watcher, attempt: int) -> Callable[[], bool]:
    """Whether an attempt is over, to be asked again and again."""

    def over() -> bool:
        view = watcher.view()
        return view.state.terminal or view.attempts[attempt].ended_at is not None

    return over


def _next_attempt(watcher: Watcher, number: int) -> RunView:
    """The run once its next attempt has begun, or it has ended."""
    while True:
        view = watcher.view()
        if view.state.terminal or len(view.attempts) > number:
            return view
        time.sleep(_LONGEST_WAIT_S)


def _signature(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns

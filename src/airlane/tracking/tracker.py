"""What the supervisor uses: it queues what happened, and one thread of its own talks to the tracking server.

The supervisor never waits for the network but in `begin_attempt` and `close`, and there no longer than it says.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from airlane.errors import AirError
from airlane.store.paths import Home, RunPaths
from airlane.store.records import LastMetric
from airlane.tracking.values import AttemptInfo, AttemptOutcome, TrackedRun

if TYPE_CHECKING:  # these import http.client, which only the thread should pay for
    from airlane.tracking.entry import Entry
    from airlane.tracking.targets import Link, Target

__all__ = ["AttemptInfo", "AttemptOutcome", "NoTracker", "TrackedRun", "Tracker", "make_tracker"]

FLUSH_EVERY_S = 3.0
RETRY_AFTER_S = (1.0, 2.0, 5.0, 10.0)
PATIENT_FAILURES = 2  # a run starts without tracking, and a finished one gives up, after so many in a row
OFF = "none"


class NoTracker:
    """Tracking is off."""

    error: str | None = None
    last_metric: LastMetric | None = None

    def open(self) -> None: ...

    def settled(self, timeout_s: float) -> bool:
        del timeout_s
        return True

    def begin_attempt(self, info: AttemptInfo, timeout_s: float) -> TrackedRun | None:
        del info, timeout_s
        return None

    def watch_metrics(self, files: Mapping[int, Path]) -> None:
        del files

    def end_attempt(self, outcome: AttemptOutcome) -> None:
        del outcome

    def close(self, timeout_s: float) -> None:
        del timeout_s


def make_tracker(
    uri: str | None,
    *,
    home: Home,
    python: Callable[[], Path],
    env: Mapping[str, str],
    on_node: RunPaths | None = None,
) -> Tracker | NoTracker:
    """The tracker for a tracking URI: None is the embedded server, "none" no tracking at all.

    `on_node` is the run's folder where this process runs on one of the run's nodes, and not beside the home's server.
    """
    if uri == OFF:
        return NoTracker()

    def target() -> Target:
        from airlane.tracking.targets import Embedded, FromNode, Remote

        if uri is not None:
            return Remote(uri, env)
        return Embedded(home, python) if on_node is None else FromNode(home, python, on_node)

    return Tracker(target, home, started=_started(home, beside=uri is None and on_node is None))


def _started(home: Home, *, beside: bool) -> Callable[[], bool]:
    """Whether the server is known to be past its start, without asking it; only one beside this process can be."""

    def started() -> bool:
        if not beside:
            return False
        from airlane.tracking import server

        return server.has_answered(home)

    return started


class Tracker:
    """Keeps MLflow informed about the attempts of one run. `error` says what is wrong, None while all is well."""

    def __init__(
        self,
        target: Callable[[], Target],
        home: Home,
        *,
        started: Callable[[], bool] = lambda: False,
        flush_every_s: float = FLUSH_EVERY_S,
    ) -> None:
        self.error: str | None = None
        self.last_metric: LastMetric | None = None
        self._started = started
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._worker = _Worker(self, target, home, self._orders, flush_every_s)
        self._thread: threading.Thread | None = None
        self._current: Entry | None = None
        self._closing = False
        self.first_answer = threading.Event()

    def open(self) -> None:
        """Start: the server is looked for, or started, while the environment is built."""
        thread = threading.Thread(target=self._worker.run, name="tracking", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # ulimit -u
            self.error = f"tracking: {error}"
            self.first_answer.set()
        else:
            self._thread = thread

    def settled(self, timeout_s: float) -> bool:
        """Whether there is nothing to wait for before the queue: the server is past its start, or is known to be down.

        Waits for that no longer than this.
        """
        return self._started() or self.first_answer.wait(timeout_s)

    def begin_attempt(self, info: AttemptInfo, timeout_s: float) -> TrackedRun | None:
        """Create the attempt's MLflow run; None when tracking is down or slow (`error` says why).

        What was missed is made up for when the server comes back before the run is over.
        """
        from airlane.tracking.entry import Entry

        if self._thread is None:
            return None
        entry = Entry(info)
        self._current = entry
        self._orders.put(lambda: self._worker.begin(entry))
        if not entry.answered.wait(timeout_s) and self.error is None:
            self.error = f"the tracking server was not ready within {timeout_s:g} s"
        return entry.tracked

    @property
    def tracked(self) -> TrackedRun | None:
        """The MLflow run of the current attempt, once there is one."""
        return self._current.tracked if self._current is not None else None

    def watch_metrics(self, files: Mapping[int, Path]) -> None:
        """Store the system metrics that the agents of these nodes write, as they come."""
        entry, files = self._current, dict(files)
        if entry is not None:
            self._orders.put(lambda: entry.watch(files))

    def end_attempt(self, outcome: AttemptOutcome) -> None:
        """Close the attempt's MLflow run and store its files; nothing happens for an attempt that never began."""
        entry, self._current = self._current, None
        if entry is not None:
            self._orders.put(lambda: self._worker.end(entry, outcome))

    def close(self, timeout_s: float) -> None:
        """Wait until everything is stored or has failed, no longer than this. May be called again, to wait longer."""
        if self._thread is None:
            return
        if not self._closing:
            self._closing = True
            self._orders.put(self._worker.close)
        self._thread.join(timeout_s)


class _Worker:
    """The thread's side."""

    def __init__(
        self,
        tracker: Tracker,
        target: Callable[[], Target],
        home: Home,
        orders: queue.SimpleQueue[Callable[[], None]],
        flush_every_s: float,
    ) -> None:
        self._tracker = tracker
        self._make_target = target
        self._home = home
        self._orders = orders
        self._flush_every_s = flush_every_s
        self._entries: list[Entry] = []
        self._refusals: list[str] = []
        self._target: Target | None = None
        self._link: Link | None = None
        self._uri: str | None = None
        self._settled = False
        self._busy = False
        self._closing = False
        self._gave_up = False
        self._failures = 0
        self._retry_at = 0.0

    def run(self) -> None:
        """The thread's body."""
        while True:
            self._round()
            if self._closing and self._finished():
                break
            self._take(self._wait_s())
        self._leave()

    def begin(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._retry_at = 0.0

    def end(self, entry: Entry, outcome: AttemptOutcome) -> None:
        entry.end(outcome)
        self._retry_at = 0.0

    def close(self) -> None:
        self._closing = True
        self._failures = min(self._failures, 1)
        self._retry_at = 0.0

    def _take(self, wait_s: float) -> None:
        try:
            self._orders.get(timeout=wait_s)()
            while True:
                self._orders.get_nowait()()
        except queue.Empty:
            return

    def _wait_s(self) -> float:
        if self._failures:
            return max(0.0, self._retry_at - time.monotonic())
        return 0.0 if self._busy else self._flush_every_s

    def _finished(self) -> bool:
        idle = not any(entry.ended for entry in self._entries)
        return self._orders.empty() and (idle or self._gave_up or self._failures >= PATIENT_FAILURES)

    def _round(self) -> None:
        """One pass over what is to be done."""
        if not self._gave_up and time.monotonic() >= self._retry_at:
            try:
                self._work()
            except AirError as error:
                self._fail(error.message, for_good=not error.retryable)
            except OSError as error:
                self._fail(f"tracking: {error}", for_good=False)
            except Exception as error:  # noqa: BLE001 - a defect here must not touch the run, nor go unnoticed
                self._fail(f"tracking stopped: {error.__class__.__name__}: {error}", for_good=True)
            else:
                self._failures = 0
                self._report(None)
        self._answer(give_up=self._gave_up or self._failures >= PATIENT_FAILURES)

    def _work(self) -> None:
        if self._target is None:
            self._target = self._make_target()
        if self._link is None or self._target.lost():
            self._link = self._connect(self._target)
            self._tracker.first_answer.set()
        link = self._link
        try:
            for entry in self._entries:
                entry.advance(link)
                self._tracker.last_metric = entry.last_metric or self._tracker.last_metric
            self._answer(give_up=False)
            self._busy = any(entry.upload_next(link.mlflow) for entry in self._entries)
        finally:
            for entry in self._entries:
                self._refusals += [refusal for refusal in entry.refusals if refusal not in self._refusals]
        self._entries = [entry for entry in self._entries if not entry.settled]
        if not self._settled and not self._busy:
            self._settle(link, self._target)

    def _connect(self, target: Target) -> Link:
        self._disconnect()
        link = target.connect()
        if link.kept_because is not None:
            if link.kept_because not in self._refusals:
                self._refusals.append(link.kept_because)
                for entry in self._entries:
                    entry.start_over()
        elif self._uri not in (None, link.mlflow.uri):
            moved = f"the MLflow server had to move from {self._uri} to {link.mlflow.uri}: its port was taken"
            self._refusals.append(moved)
        self._uri = link.mlflow.uri
        return link

    def _disconnect(self) -> None:
        if self._link is not None:
            self._link.mlflow.close()
            self._link = None

    def _leave(self) -> None:
        self._disconnect()
        if self._target is not None:
            try:
                self._target.close()
            except AirError as error:
                self._report(error.message)

    def _settle(self, link: Link, target: Target) -> None:
        """Close what killed supervisors left open, once."""
        from airlane.tracking.orphans import settle

        if link.kept_because is None:
            settle(self._home, link.mlflow, target.uri)
        self._settled = True

    def _fail(self, problem: str, *, for_good: bool) -> None:
        self._disconnect()
        self._busy = False
        self._gave_up = for_good
        self._retry_at = time.monotonic() + RETRY_AFTER_S[min(self._failures, len(RETRY_AFTER_S) - 1)]
        self._failures += 1
        self._report(problem)
        if for_good or self._failures >= PATIENT_FAILURES:
            self._tracker.first_answer.set()

    def _report(self, problem: str | None) -> None:
        self._tracker.error = "; ".join([*([problem] if problem else []), *self._refusals]) or None

    def _answer(self, *, give_up: bool) -> None:
        for entry in self._entries:
            if give_up or entry.tracked is not None or entry.settled:
                entry.answered.set()

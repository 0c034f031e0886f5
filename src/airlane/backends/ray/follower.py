"""Follows what one run on a Ray cluster tells, for as long as more may come."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol

from airlane.backends.ray.inbox import Inbox, Reads
from airlane.backends.ray.ledger import (
    LONGEST_SUBMISSION_S,
    Coming,
    JobRecord,
    RayFiles,
    read_position,
    time_of,
    write_position,
)
from airlane.backends.ray.replica import Sink
from airlane.errors import AirError, RayAnswerError
from airlane.store.paths import RunPaths

if TYPE_CHECKING:
    from airlane.cluster.jobs import RayJob

SILENCE_S = 600.0
SILENCE_AFTER_THE_END_S = 60.0
# So long after somebody looked at the run, everything is brought in less than a second; later, in a few.
WATCHED_S = 15.0
UNWATCHED_PAUSE_S = 3.0
_LOOK_EVERY_S = 0.25
_ASK_WATCHED_S, _ASK_UNWATCHED_S = 3.0, 15.0
_CONFIRM_S = 5.0
_NO_NODE = "Agent for node id"


class Asks(Protocol):
    """What is needed of a cluster's jobs (cluster.jobs.Jobs)."""

    def get(self, submission_id: str) -> RayJob | None: ...


class Follower:
    """Follows one run's outbox; whoever makes one holds the run's mirror lock."""

    def __init__(
        self,
        run: RunPaths,
        record: JobRecord,
        dashboard: Reads,
        jobs: Asks,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._run = run
        self._files = RayFiles(run)
        self._record = record
        self._dashboard = dashboard
        self._jobs = jobs
        self._clock = clock
        self._sleep = sleep
        self._job_over = False
        self._unknown_since: float | None = None
        self._asked_at = -inf
        self._began_at = self._heard_at = clock()
        self._trouble: str | None = None

    def run(self) -> None:
        """Return when no more comes, or has not for long."""
        while (inbox := self._try_to_open()) is None:
            if self._job_over or self._is_to_leave():
                return
            self._rest(_LOOK_EVERY_S)
        inbox.follow(partial(self._is_over, inbox), wait=self._rest)

    def bring(self, *, patience_s: float = inf) -> None:
        """Bring what is there now, and find out whether more may come.

        Raises AirError or OSError when it cannot be brought.
        """
        inbox = self._open()
        if inbox is None:
            return
        try:
            inbox.sync(patience_s=patience_s)
        except RayAnswerError as error:
            if not (self._job_over and _has_no_node(error)):
                raise
            inbox.cut_off()
        if self._job_over and inbox.caught_up:
            inbox.cut_off()

    def _try_to_open(self) -> Inbox | None:
        try:
            inbox = self._open()
        except (AirError, OSError) as error:
            self._note(error)
            return None
        self._note(None)
        if inbox is None:
            self._say_that_all_is_here()
        return inbox

    def _open(self) -> Inbox | None:
        """The inbox, once it is known on which node the run's supervisor is."""
        job = self._ask()
        if job is not None and job.driver_node_id is not None:
            name, sink = self._record.name, Sink(self._run.root)
            return Inbox(self._dashboard, job.driver_node_id, name, sink, self._files.position)
        if self._job_over:
            write_position(self._files.position, replace(read_position(self._files.position), coming=Coming.CUT_OFF))
        return None

    def _ask(self) -> RayJob | None:
        """What the cluster says of the run's job. That it knows none counts only when it is said twice."""
        now = self._asked_at = self._clock()
        job = self._jobs.get(self._record.submission_id)
        if job is not None:
            self._unknown_since = None
            self._job_over = job.state.terminal
        elif now - self._record.submitted_at > LONGEST_SUBMISSION_S:
            self._unknown_since = self._unknown_since or now
            self._job_over = now - self._unknown_since >= _CONFIRM_S
        return job

    def _is_over(self, inbox: Inbox) -> bool:
        """After each time that something was asked of the cluster: whether that was the last time."""
        self._note(inbox.trouble)
        if inbox.caught_up and inbox.trouble is None:
            self._say_that_all_is_here()
        if self._job_over and (inbox.caught_up or _has_no_node(inbox.trouble)):  # known before it was asked
            with contextlib.suppress(OSError):
                inbox.cut_off()
                return True
        if self._clock() - self._asked_at > (_ASK_WATCHED_S if self._is_watched() else _ASK_UNWATCHED_S):
            with contextlib.suppress(AirError):  # the same trouble as with the files
                self._ask()
        return self._is_to_leave()

    def _note(self, trouble: Exception | None) -> None:
        if trouble is None:
            self._heard_at = self._clock()
        words = None if trouble is None else str(trouble)
        if words != self._trouble:
            self._trouble = words
            _say(words or "all is well again")

    def _is_to_leave(self) -> bool:
        """Where somebody has removed the run, or the cluster is silent: less is waited for once the end was decided."""
        patience_s = SILENCE_AFTER_THE_END_S if self._run.verdict.exists() else SILENCE_S
        return self._clock() - self._heard_at > patience_s or not self._files.job.exists()

    def _say_that_all_is_here(self) -> None:
        with contextlib.suppress(OSError):
            self._files.brought.touch(mode=0o600)
            os.utime(self._files.brought, (self._began_at, self._began_at))

    def _rest(self, pause_s: float) -> None:
        """Sleep; longer where nobody looks, but not longer than until somebody does."""
        if self._is_watched():
            self._sleep(pause_s)
        else:
            until = self._clock() + UNWATCHED_PAUSE_S
            while self._clock() < until and not self._is_watched():
                self._sleep(_LOOK_EVERY_S)
        self._began_at = self._clock()

    def _is_watched(self) -> bool:
        return time_of(self._files.wanted) > self._clock() - WATCHED_S


def _say(words: str) -> None:
    """Into the mirror's log; a full disk is no reason to end."""
    with contextlib.suppress(OSError):
        os.write(2, f"{time.strftime('%F %T')} {words}\n".encode(errors="replace"))


def _has_no_node(trouble: Exception | None) -> bool:
    """Whether the cluster has lost the node that the files are on."""
    return isinstance(trouble, RayAnswerError) and trouble.words.startswith(_NO_NODE)

"""Following a Ray job: its states and its log, as they come, until it has ended and every line was told once.

A connection that breaks is no end, and neither is a log that stops growing: only the job's own state says that it has
ended. Then the log is read once more, beyond what is known: the stream may have been behind.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Protocol

from airlane.cluster.job_log import LogReader
from airlane.cluster.jobs import Jobs, RayJob
from airlane.errors import AirError, NotFoundError, RayAnswerError, RayUnreachableError
from airlane.frozen import frozen

PATIENCE_S = 300.0  # without any answer
_SHORTEST_LOOK_S = 0.05
_LONGEST_LOOK_S = 1.0
_LOOKS_PER_AGE = 50  # the longer it runs, the less often it is looked at: each second after a minute
_LONGEST_PAUSE_S = 2.0
_ABSENT_ANSWERS = 3
_WHY_AFTER_S = 1.0
_WHY_EVERY_S = 3.0
_SMALL_BYTES = 4 << 20
_QUIET_S = 0.5
_LONGEST_DRAIN_S = 60.0
_LAST_LINES = 1000
_TRIES = 5
_SERVER_ERROR = 500


@frozen
class JobSeen:
    """The job is in another state than before, or is first seen."""

    job: RayJob


@frozen
class JobWaits:
    """Why it has not started, in words."""

    reason: str


@frozen
class JobOutput:
    """Bytes of its log, in order; they may end inside a line."""

    data: bytes


@frozen
class ConnectionLost:
    """The cluster does not answer; it is asked again."""

    error: AirError


@frozen
class ConnectionFound:
    """It answers again."""


@frozen
class OutputLost:
    """The end of the log cannot be read: its node has gone, for one."""

    error: AirError


Update = JobSeen | JobWaits | JobOutput | ConnectionLost | ConnectionFound | OutputLost


class Reader(Protocol):
    """What brings the log's pieces; see LogReader."""

    def take(self, timeout_s: float) -> bytes: ...
    def reconnect(self) -> None: ...
    def close(self) -> bytes: ...


class JobFollower:
    """One job, from now to its end. `why` says what a job waits for that has not started.

    `gone` says why a cluster that does not answer never will again. Of the log, the first `known_bytes` are not told.
    """

    def __init__(
        self,
        jobs: Jobs,
        submission_id: str,
        *,
        why: Callable[[RayJob], str | None] | None = None,
        gone: Callable[[], AirError | None] | None = None,
        known_bytes: int = 0,
        reader: Callable[[Jobs, RayJob, int], Reader] = LogReader,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._jobs, self._id = jobs, submission_id
        self._why, self._why_at = why, now() + _WHY_AFTER_S
        self._reason_told: str | None = None
        self._gone = gone
        self._make_reader = reader
        self._reader: Reader | None = None
        self._now, self._wait = now, wait
        self._began = now()
        self._job: RayJob | None = None
        self._seen_bytes = known_bytes
        self._recent: deque[bytes] = deque()
        self._recent_bytes = 0

    def updates(self) -> Iterator[Update]:
        """Every update until the job has ended and its log is told to its end.

        Raises:
            NotFoundError: the cluster does not know the job, or no longer; or it is gone itself.
            RayUnreachableError: the cluster has not answered for five minutes.
        """
        try:
            while True:
                job = yield from self._look()
                if self._reader is None and job.driver_node_id is not None:
                    self._reader = self._make_reader(self._jobs, job, self._seen_bytes)
                if job.state.terminal:
                    yield from self._finish(job)
                    return
                yield from self._reason(job)
                yield from self._output(self._pause_s())
        finally:
            if self._reader is not None:
                self._reader.close()

    def _look(self) -> Generator[Update, None, RayJob]:
        """The job now; told where it has changed. A connection that breaks meanwhile is told, too."""
        absent, lost_at, pause_s = 0, None, _SHORTEST_LOOK_S
        while True:
            try:
                job = self._jobs.get(self._id)
            except (RayUnreachableError, RayAnswerError) as error:
                self._give_up(error, lost_at)
                if lost_at is None:
                    lost_at = self._now()
                    yield from self._lost(error)
            else:
                if lost_at is not None:
                    lost_at = None
                    yield ConnectionFound()
                if job is not None:
                    yield from self._seen(job)
                    return job
                absent += 1
                if absent >= _ABSENT_ANSWERS:
                    raise NotFoundError(
                        f"the Ray cluster no longer knows job {self._id}: its head was restarted, or the job deleted"
                    )
            yield from self._output(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _give_up(self, error: RayUnreachableError | RayAnswerError, lost_at: float | None) -> None:
        """Raise where asking again is of no use, or has not been of any for long."""
        if not _may_pass(error) or (lost_at is not None and self._now() - lost_at > PATIENCE_S):
            raise error
        reason = self._gone() if self._gone is not None else None
        if reason is not None:
            raise reason from error

    def _lost(self, error: AirError) -> Iterator[Update]:
        yield ConnectionLost(error)
        if self._reader is not None:
            self._reader.reconnect()

    def _seen(self, job: RayJob) -> Iterator[Update]:
        if job != self._job:
            self._job = job
            yield JobSeen(job)

    def _reason(self, job: RayJob) -> Iterator[Update]:
        if self._why is None or job.driver_node_id is not None or self._now() < self._why_at:
            return
        self._why_at = self._now() + _WHY_EVERY_S
        reason = self._why(job)
        if reason is not None and reason != self._reason_told:
            self._reason_told = reason
            yield JobWaits(reason)

    def _pause_s(self) -> float:
        return min(max((self._now() - self._began) / _LOOKS_PER_AGE, _SHORTEST_LOOK_S), _LONGEST_LOOK_S)

    def _output(self, within_s: float) -> Iterator[Update]:
        """What comes within so long; after that, the job is due to be looked at again."""
        if self._reader is None:
            self._wait(within_s)
            return
        until = self._now() + within_s
        while (left_s := until - self._now()) > 0:
            yield from self._told(self._reader.take(left_s))

    def _told(self, piece: bytes) -> Iterator[Update]:
        if not piece:
            return
        self._seen_bytes += len(piece)
        self._recent.append(piece)
        self._recent_bytes += len(piece)
        while self._recent_bytes - len(self._recent[0]) >= _SMALL_BYTES:
            self._recent_bytes -= len(self._recent.popleft())
        yield JobOutput(piece)

    def _finish(self, job: RayJob) -> Iterator[Update]:
        if self._reader is None:
            return  # no node has run it
        if self._seen_bytes >= _SMALL_BYTES:
            yield from self._drain(self._reader)
        yield from self._told(self._reader.close())
        for tries_left in reversed(range(_TRIES)):
            try:
                yield from self._beyond(job)
            except (RayUnreachableError, RayAnswerError) as error:
                if not tries_left:
                    yield OutputLost(error)
                    return
                self._wait(_LONGEST_PAUSE_S)
            else:
                return

    def _drain(self, reader: Reader) -> Iterator[Update]:
        """A long log is better read from the stream while that brings something than a second time from its start."""
        until = self._now() + _LONGEST_DRAIN_S
        while self._now() < until and (piece := reader.take(_QUIET_S)):
            yield from self._told(piece)

    def _beyond(self, job: RayJob) -> Iterator[Update]:
        """What the log has beyond what is known. A long one is read again only if its last lines are not known."""
        if self._seen_bytes >= _SMALL_BYTES:
            last = b"".join(self._jobs.log(job, lines=_LAST_LINES))
            if b"".join(self._recent).endswith(last):
                return
        left_bytes = self._seen_bytes
        for piece in self._jobs.log(job):
            new, left_bytes = piece[left_bytes:], max(0, left_bytes - len(piece))
            yield from self._told(new)


def _may_pass(error: RayUnreachableError | RayAnswerError) -> bool:
    """Whether to ask again: no answer, or one that says that the head itself is in trouble."""
    return isinstance(error, RayUnreachableError) or error.status >= _SERVER_ERROR

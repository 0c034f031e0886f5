"""Brings what a run on a Ray cluster tells into the user's run folder, also when nobody looks.

`python -I -m airlane.backends.ray.mirror RUN_FOLDER` is started with the run, and by whoever looks at it and sees none.
There is one for each run. It ends when no more can come, or when the cluster has been silent for long.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from airlane.backends.ray.ledger import (
    LONGEST_SUBMISSION_S,
    Coming,
    JobRecord,
    RayFiles,
    read_job,
    read_position,
    read_token,
    take,
    write_position,
)
from airlane.errors import AirError, RayAnswerError
from airlane.store.locks import taken_by_another
from airlane.store.paths import Home, RunPaths
from airlane.store.uploaded import note_kept

if TYPE_CHECKING:  # whoever only looks whether there is a mirror must not pay for what one needs
    from airlane.backends.ray.inbox import Inbox, Reads
    from airlane.cluster.jobs import RayJob

SILENCE_S = 600.0
SILENCE_AFTER_THE_END_S = 60.0
# So long after somebody looked at the run, everything is brought in less than a second; later, in a few.
WATCHED_S = 15.0
UNWATCHED_PAUSE_S = 3.0
FRESH_S = 1.0
_LOOK_EVERY_S = 0.25
_ASK_WATCHED_S, _ASK_UNWATCHED_S = 3.0, 15.0
_CONFIRM_S = 5.0
_LOOKER_TIMEOUT_S = 3.0
_LOOKER_PATIENCE_S = 3.0
_STALLED_S = 30.0
_START_PATIENCE_S = 1.0  # whoever asks whether there is a mirror holds the lock for a moment
_PAUSE_S = 0.05
_NO_NODE = "Agent for node id"
# The shell leaves at once: nobody has to wait for the mirror, or is its parent.
_APART = '"$@" </dev/null >>"$0" 2>&1 &'


class Asks(Protocol):
    """What is needed of a cluster's jobs (cluster.jobs.Jobs)."""

    def get(self, submission_id: str) -> RayJob | None: ...


class Mirror:
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
            if self._job_over or self._is_silent():
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
        return inbox

    def _open(self) -> Inbox | None:
        """The inbox, once it is known on which node the run's supervisor is."""
        job = self._ask()
        if job is not None and job.driver_node_id is not None:
            from airlane.backends.ray.inbox import Inbox
            from airlane.backends.ray.replica import Sink

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
        return self._is_silent()

    def _note(self, trouble: Exception | None) -> None:
        if trouble is None:
            self._heard_at = self._clock()
        words = None if trouble is None else str(trouble)
        if words != self._trouble:
            self._trouble = words
            _say(words or "all is well again")

    def _is_silent(self) -> bool:
        """For longer than the cluster is waited for, which is not long once it was decided how the run has ended."""
        decided = self._run.verdict.exists() or not self._files.job.exists()
        return self._clock() - self._heard_at > (SILENCE_AFTER_THE_END_S if decided else SILENCE_S)

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
        return _time_of(self._files.wanted) > self._clock() - WATCHED_S


def ensure_mirror(run: RunPaths) -> bool:
    """Start the run's mirror, unless there is one, or no more can come; whether it was started. Raises OSError."""
    files = RayFiles(run)
    if read_job(run) is None or read_position(files.position).coming is not Coming.OPEN:
        return False
    _want(files)
    if _is_held(files.lock):
        return False
    os.close(os.open(files.log, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    program = [sys.executable, "-I", "-m", "airlane.backends.ray.mirror", str(run.root)]
    subprocess.run(["/bin/sh", "-c", _APART, str(files.log), *program], check=False, cwd="/", start_new_session=True)
    return True


def catch_up(run: RunPaths, *, to_the_end: bool = False) -> bool:
    """Bring what there is now, or have the mirror do it; whether the run's files may be others than before.

    `to_the_end` is for a run whose job is over: return when all of it is here that ever will be. In either case a
    cluster that does not answer is not waited for, beyond a few seconds.
    """
    files = RayFiles(run)
    record = read_job(run)
    if record is None or read_position(files.position).coming is not Coming.OPEN:
        return False
    with contextlib.suppress(OSError):  # a folder that this user may only read
        if to_the_end:
            _bring_the_end(run, record)
        else:
            _bring_the_news(run, record)
    return True


def _bring_the_news(run: RunPaths, record: JobRecord) -> None:
    files = RayFiles(run)
    asked_at = time.time()
    _want(files)
    lock = take(files.lock)
    if lock is not None:
        try:
            with contextlib.suppress(AirError):  # that it does not answer is found out by who asks for its state
                _mirror(run, record, timeout_s=_LOOKER_TIMEOUT_S).bring(patience_s=_LOOKER_PATIENCE_S)
                _note_kept(run)
        finally:
            os.close(lock)
        return
    while _time_of(files.brought) < asked_at - FRESH_S and time.time() < asked_at + _LOOKER_PATIENCE_S:
        time.sleep(_PAUSE_S)


def _bring_the_end(run: RunPaths, record: JobRecord) -> None:
    files = RayFiles(run)
    came_at, came = time.time(), None
    while read_position(files.position).coming is Coming.OPEN and time.time() < came_at + _STALLED_S:
        _want(files)
        lock = take(files.lock)
        if lock is not None:
            try:
                with contextlib.suppress(AirError, OSError):
                    _mirror(run, record).bring()
                    _note_kept(run)
            finally:
                os.close(lock)
        news = _time_of(files.position), _time_of(files.brought)
        if news != came:
            came_at, came = time.time(), news
        time.sleep(_PAUSE_S)


def _mirror(run: RunPaths, record: JobRecord, *, timeout_s: float = 10.0) -> Mirror:
    """Raises ConfigError."""
    from airlane.cluster.jobs import Jobs
    from airlane.cluster.rest import Dashboard

    dashboard = Dashboard(record.url, read_token(run, record), timeout_s=timeout_s)
    return Mirror(run, record, dashboard, Jobs(dashboard))


def _note_kept(run: RunPaths) -> None:
    """What the run recorded on its own can be uploaded once nothing more of it comes. Raises OSError."""
    if read_position(RayFiles(run).position).coming is not Coming.OPEN and run.tracking.is_dir():
        note_kept(Home(run.root.parents[2]), run)


def _want(files: RayFiles) -> None:
    with contextlib.suppress(OSError):
        files.wanted.touch(mode=0o600)


def _time_of(path: Path) -> float:
    """When a file was last written; long ago where it never was."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _is_held(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return taken_by_another(descriptor)
    finally:
        os.close(descriptor)


def _say(words: str) -> None:
    """Into the mirror's log; a full disk is no reason to end."""
    with contextlib.suppress(OSError):
        os.write(2, f"{time.strftime('%F %T')} {words}\n".encode(errors="replace"))


def _has_no_node(trouble: Exception | None) -> bool:
    """Whether the cluster has lost the node that the files are on."""
    return isinstance(trouble, RayAnswerError) and trouble.words.startswith(_NO_NODE)


def main(folder: str) -> int:
    run = RunPaths(Path(folder))
    record = read_job(run)
    lock = take(RayFiles(run).lock, patience_s=_START_PATIENCE_S)
    if record is None or lock is None:
        return 0
    try:
        _mirror(run, record).run()
        _note_kept(run)
    except AirError as error:
        _say(error.message)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

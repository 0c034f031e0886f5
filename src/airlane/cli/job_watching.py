"""A Ray job while it is followed: its log on stdout and the rest on stderr, or one line of JSON an event."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from airlane.cli.command import Context
from airlane.cli.envelope import data_line, event_line
from airlane.cli.live import LiveLine
from airlane.cli.ray_job_pages import exit_code, job_facts, job_verdict
from airlane.cli.screen import OutputError
from airlane.cluster.job_following import ConnectionFound, ConnectionLost, JobOutput, JobSeen, JobWaits, OutputLost
from airlane.cluster.job_log import RayWords
from airlane.cluster.jobs import JobState, RayJob
from airlane.errors import EXIT_FAILED, EXIT_INTERRUPTED, RayUnreachableError
from airlane.logs.tail import LineCutter

if TYPE_CHECKING:
    from airlane.cluster.job_following import Update


def followed(updates: Iterable[Update], job_id: str, context: Context, *, again: str) -> int:
    """Show a job to its end; the exit code is its entrypoint's. Ctrl-C stops following, not the job."""
    following = _Following(_Json(context) if context.json else _Text(context))
    try:
        for update in updates:
            following.take(update)
    except KeyboardInterrupt:
        return following.interrupted(job_id, again)
    except (RayUnreachableError, OutputError) as error:
        error.hint = f"the job may go on: air ray job logs{again} {job_id}"
        raise
    finally:
        following.close()
    return following.ended()


class _Shown(Protocol):
    """How the news of a job are shown."""

    def state(self, job: RayJob, before: JobState | None) -> None: ...
    def waits(self, reason: str) -> None: ...
    def output(self, data: bytes) -> None: ...
    def remark(self, words: str) -> None: ...
    def interrupted(self, job: RayJob | None, job_id: str, again: str) -> None: ...
    def ended(self, job: RayJob) -> None: ...
    def close(self) -> object: ...


class _Following:
    """The job as it was last seen, and its log without Ray's own words."""

    def __init__(self, shown: _Shown) -> None:
        self._shown = shown
        self._job: RayJob | None = None
        self._words: RayWords | None = None

    def take(self, update: Update) -> None:
        match update:
            case JobSeen(job):
                self._see(job)
            case JobOutput(data):
                self._shown.output(self._words.feed(data) if self._words is not None else data)
            case JobWaits(reason):
                self._shown.waits(reason)
            case ConnectionLost(error):
                self._shown.remark(f"{error.message}: asking again")
            case ConnectionFound():
                self._shown.remark("the cluster answers again")
            case OutputLost(error):
                self._shown.remark(f"the end of the log cannot be read: {error.message}")

    def interrupted(self, job_id: str, again: str) -> int:
        self._shown.interrupted(self._job, job_id, again)
        return EXIT_INTERRUPTED

    def ended(self) -> int:
        if self._job is None or self._words is None:
            return EXIT_FAILED
        self._shown.output(self._words.rest())
        self._shown.ended(self._job)
        return exit_code(self._job)

    def close(self) -> None:
        self._shown.close()

    def _see(self, job: RayJob) -> None:
        before, self._job = self._job, job
        self._words = self._words or RayWords(job)
        if before is None or before.state is not job.state:
            self._shown.state(job, before.state if before is not None else None)


class _Text:
    """The log alone on stdout; on stderr what is waited for, in one rewritten line, and the verdict."""

    def __init__(self, context: Context) -> None:
        self._screen = context.screen
        self._line: LiveLine | None = None
        self._inside_line = False

    def state(self, job: RayJob, before: JobState | None) -> None:
        if job.state is JobState.PENDING:
            self.waits("starts")
        elif before is JobState.PENDING:
            self.close()

    def waits(self, reason: str) -> None:
        self._line = self._line or LiveLine(self._screen)
        self._line.update("pending", reason)

    def output(self, data: bytes) -> None:
        if data:
            self.close()
            self._screen.show_bytes(data)
            self._inside_line = not data.endswith(b"\n")

    def remark(self, words: str) -> None:
        self.close()
        self._end_line()
        self._screen.say(f"{self._screen.err_look.warn} {words}")

    def interrupted(self, job: RayJob | None, job_id: str, again: str) -> None:
        del job
        after = "" if self.close() else "\n"  # the ^C that the terminal shows went with the live line
        lines = (
            f"{after}Stopped following. The job goes on: air ray job logs{again} {job_id}",
            f"  to end it: air ray job stop{again} {job_id}",
        )
        self._screen.say("\n".join(lines))

    def ended(self, job: RayJob) -> None:
        self.close()
        self._end_line()
        self._screen.say(job_verdict(job, self._screen.err_look, time.time()))

    def close(self) -> bool:
        line, self._line = self._line, None
        return line is not None and line.close()

    def _end_line(self) -> None:
        """The log may end inside a line: what follows on a terminal begins a new one."""
        if self._inside_line and self._screen.out_is_terminal:
            self._screen.say()
        self._inside_line = False


class _Json:
    """One object a line: STATUS, WAITING, LOG, ERROR; at the end an envelope."""

    def __init__(self, context: Context) -> None:
        self._screen = context.screen
        self._cutter = LineCutter()

    def state(self, job: RayJob, before: JobState | None) -> None:
        self._event("STATUS", status=job.state, previous_status=before)

    def waits(self, reason: str) -> None:
        self._event("WAITING", reason=reason)

    def output(self, data: bytes) -> None:
        self._log(self._cutter.feed(data))

    def remark(self, words: str) -> None:
        self._event("ERROR", message=words)

    def interrupted(self, job: RayJob | None, job_id: str, again: str) -> None:
        del again
        self._log(self._cutter.rest())
        facts = job_facts(job) if job is not None else {"submission_id": job_id}
        self._screen.show(data_line({**facts, "watching": False}, time.time()))

    def ended(self, job: RayJob) -> None:
        self._log(self._cutter.rest())
        self._screen.show(data_line(job_facts(job), time.time()))

    def close(self) -> None:
        """Nothing is held open."""

    def _log(self, lines: list[bytes]) -> None:
        for line in lines:
            self._event("LOG", line=line.decode("utf-8", "replace"))

    def _event(self, kind: str, **facts: object) -> None:
        self._screen.show(event_line(kind, time.time(), **facts))

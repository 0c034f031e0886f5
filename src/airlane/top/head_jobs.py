"""What a monitor does with one job: read its log as it grows, and ask for its end."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import threading
from collections.abc import Callable

from airlane.cluster.job_following import JobFollower, JobOutput, JobSeen, OutputLost
from airlane.cluster.job_log import RayWords
from airlane.cluster.jobs import Jobs, RayJob
from airlane.cluster.rest import Dashboard
from airlane.errors import AirError, ArgumentError, InterruptedCommandError, NotFoundError
from airlane.top.head_question import Flight

_NO_LOG = "is a driver that was started without a job: Ray keeps no log of it"


def stop(dashboard: Dashboard, job_id: str) -> str:
    """Ask a job to end; what became of that. Raises AirError."""
    jobs = Jobs(dashboard)
    job = jobs.get(job_id)
    if job is None:
        raise NotFoundError(f"the cluster no longer knows job {job_id}")
    if job.submission_id is None:
        raise ArgumentError(
            f"{job_id} is a driver that was started without a job: Ray cannot stop it", hint="end its process"
        )
    if job.state.terminal or not jobs.stop(job.submission_id):
        return f"{job_id} has ended: {job.state}"
    return f"{job_id} was asked to stop"


async def follow_log(dashboard: Dashboard, job_id: str, take: Callable[[str], None]) -> str | None:
    """Hand over a job's log until the job is over, or nobody waits any more. Nothing is taken after that."""
    loop, left = asyncio.get_running_loop(), threading.Event()

    def hand_over(text: str) -> None:
        if text and not left.is_set():
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lambda: None if left.is_set() else take(text))

    flight = Flight("air top: log", lambda: _follow(_Leaving(dashboard, left), job_id, hand_over))
    try:
        return await flight.result()
    except AirError as error:
        return error.message
    finally:
        left.set()


class _Leaving(Jobs):
    """The jobs of a cluster, until nobody wants to know of them any more: a follower asks for its job each second."""

    def __init__(self, dashboard: Dashboard, left: threading.Event) -> None:
        super().__init__(dashboard)
        self._left = left

    def get(self, submission_id: str) -> RayJob | None:
        if self._left.is_set():
            raise InterruptedCommandError("nobody reads the log any more")
        return super().get(submission_id)


def _follow(jobs: Jobs, job_id: str, take: Callable[[str], None]) -> str | None:
    decode = codecs.getincrementaldecoder("utf-8")("replace")
    words: RayWords | None = None
    lost: str | None = None
    for update in JobFollower(jobs, job_id).updates():
        match update:
            case JobSeen(job=job):
                if job.submission_id is None:
                    return f"{job_id} {_NO_LOG}"
                words = words or RayWords(job)
            case JobOutput(data=data):
                take(decode.decode(words.feed(data) if words is not None else data))
            case OutputLost(error=error):
                lost = error.message
            case _:
                pass
    take(decode.decode(words.rest() if words is not None else b"", final=True))
    return lost

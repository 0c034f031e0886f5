"""Ray's own jobs on any cluster we know: found, submitted with their code, followed, stopped."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from airlane.api.ray_job_code import CodeSent, Progress, send_code
from airlane.api.ray_target import JobTarget, Reached, reach
from airlane.cluster import runtime_env
from airlane.cluster.job_following import JobFollower, Update
from airlane.cluster.job_log import RayWords
from airlane.cluster.job_waiting import asked_for, check_capacity, waiting_words
from airlane.cluster.jobs import JobRequest, Jobs, JobState, RayJob
from airlane.cluster.status import NODES, USAGE
from airlane.errors import AirError, ArgumentError, BackendError, NotFoundError
from airlane.frozen import frozen
from airlane.logs.tail import whole_lines
from airlane.spec.suggest import did_you_mean

if TYPE_CHECKING:
    from airlane.api.client import Client

__all__ = ["CodeSent", "JobSubmission", "JobTarget", "LastLines", "RayJobs", "Submitted", "open_jobs"]

LAST = "@last"
_STOP_LOOK_S = 0.1
_PENDING_LOOKS = 50
_PREFIX = "raysubmit_"


@frozen
class JobSubmission:
    """What `air ray job submit` asks for: the command's words, and what goes with them."""

    words: tuple[str, ...]
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    submission_id: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory_bytes: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    may_grow: bool = False

    def request(self, env: Mapping[str, Any]) -> JobRequest:
        return JobRequest(
            entrypoint=shlex.join(self.words),
            submission_id=self.submission_id,
            runtime_env=env,
            metadata=self.metadata,
            num_cpus=self.num_cpus,
            num_gpus=self.num_gpus,
            memory_bytes=self.memory_bytes,
            resources=self.resources,
        )


@frozen
class Submitted:
    """A job that the cluster has taken."""

    submission_id: str
    request: JobRequest
    code: tuple[CodeSent, ...]


@frozen
class LastLines:
    """The last lines of a log, and how many bytes of it are known with them."""

    lines: tuple[bytes, ...]
    known_bytes: int


@contextlib.contextmanager
def open_jobs(client: Client, target: JobTarget, env: Mapping[str, str] | None = None) -> Iterator[RayJobs]:
    """The jobs of the cluster that is meant. A way to one on another machine is open as long as this is.

    Raises:
        NotFoundError, ConfigError, BackendError: no cluster is named, or it cannot be reached.
    """
    with contextlib.ExitStack() as stack:
        yield RayJobs(reach(client, target, os.environ if env is None else env, stack), env)


class RayJobs:
    """The jobs of one cluster."""

    def __init__(self, reached: Reached, env: Mapping[str, str] | None = None) -> None:
        self._reached = reached
        self._env = os.environ if env is None else env
        self._dashboard = reached.dashboard
        self._jobs = Jobs(reached.dashboard)

    @property
    def again(self) -> str:
        """The options that name this cluster in another command, each after a space."""
        return self._reached.again

    @property
    def url(self) -> str:
        """Its dashboard's, as it is reached from here."""
        return self._dashboard.url

    def submit(self, wanted: JobSubmission, progress: Progress | None = None) -> Submitted:
        """Pack and upload what the job brings along, and submit it.

        Raises:
            CapacityError: no node can ever hold what the entrypoint asks for.
            ArgumentError, SnapshotError: something of it cannot be.
            ConflictError: the cluster has a job of that id.
        """
        say = progress or (lambda _phase, _detail: None)
        runtime_env.check(wanted.runtime_env)
        asked = asked_for(wanted.request({}))
        if asked and not (wanted.may_grow or self._reached.grows):
            check_capacity(asked, self._node_rows(), url=self._dashboard.url)
        env, code = send_code(self._jobs, runtime_env.with_files(wanted.runtime_env), self._env, say)
        say("submitting", "")
        request = wanted.request(env)
        return Submitted(self._jobs.submit(request), request, code)

    def follow(self, job_id: str, request: JobRequest | None = None, *, known_bytes: int = 0) -> Iterator[Update]:
        """Every update of a submitted job until it has ended. With its request, what it waits for is told in numbers.

        Of its log, the first `known_bytes` are not told.
        """
        asked = asked_for(request) if request is not None else {}
        why = functools.partial(self.why, asked=asked)
        return JobFollower(self._jobs, job_id, why=why, gone=self._reached.ended, known_bytes=known_bytes).updates()

    def why(self, job: RayJob, asked: Mapping[str, float]) -> str | None:
        """What a job waits for; None where the cluster does not say."""
        with contextlib.suppress(AirError):
            return waiting_words(job, asked, self._dashboard.get_json(USAGE))
        return None

    def find(self, name: str) -> RayJob:
        """The job of an id, of the beginning of one, or @last.

        Raises:
            NotFoundError: there is none, or more than one.
        """
        if name != LAST and (job := self._jobs.get(name)) is not None:
            return job
        jobs = self._jobs.list()
        hint = f"air ray job list{self.again}"
        if name == LAST:
            submitted = [job for job in jobs if job.submission_id is not None]
            if not submitted:
                raise NotFoundError(
                    "no job was submitted to this Ray cluster", hint=f"air ray job submit{self.again} -- ..."
                )
            return submitted[0]
        found = [job for job in jobs if any(known.startswith(name) for known in _names(job))]
        if len(found) == 1:
            return found[0]
        if found:
            ids = "\n".join(f"{job.id}  {job.state}" for job in found[:10])
            raise NotFoundError(f"{len(found)} jobs begin with {name}: give more of the id", hint=ids)
        near = did_you_mean(name, [known for job in jobs for known in _names(job)])
        raise NotFoundError(f"the Ray cluster has no job {name}", hint=f"{near}\n{hint}" if near else hint)

    def list(self) -> tuple[RayJob, ...]:
        """Every job and driver, the newest first."""
        return self._jobs.list()

    def output(self, job: RayJob) -> Iterator[bytes]:
        """What a job has written so far, in pieces; nothing where no node has run it."""
        return RayWords(job).without(self._log(job))

    def last_lines(self, job: RayJob, count: int) -> LastLines:
        """The last lines of what a job has written so far."""
        known_bytes, ends_in_newline = 0, True

        def counted() -> Iterator[bytes]:
            nonlocal known_bytes, ends_in_newline
            for piece in self._log(job):
                known_bytes += len(piece)
                ends_in_newline = piece.endswith(b"\n")
                yield piece

        lines = deque((line + b"\n" for line in whole_lines(RayWords(job).without(counted()))), maxlen=count)
        if lines and not ends_in_newline:
            lines.append(lines.pop().removesuffix(b"\n"))
        return LastLines(tuple(lines), known_bytes)

    def _log(self, job: RayJob) -> Iterator[bytes]:
        return self._jobs.log(job) if job.driver_node_id is not None and job.submission_id is not None else iter(())

    def stop(self, job: RayJob) -> bool:
        """Ask a job to end; False where it has ended.

        Raises:
            ArgumentError: it is a driver that was not submitted, which Ray does not stop.
        """
        if job.submission_id is None:
            raise ArgumentError(
                f"{job.id} is a driver that was started without a job: Ray cannot stop it", hint="end its process"
            )
        return not job.state.terminal and self._jobs.stop(job.submission_id)

    def wait_until_ended(self, job: RayJob, *, wait: Callable[[float], None] = time.sleep) -> RayJob:
        """The job once it has ended; one that has not started, as it is after some seconds.

        Ray hands a request to stop to the process that is to start the command. Where that waits for resources, so
        does the request.

        Raises:
            NotFoundError: the cluster no longer knows it.
        """
        looks = 0
        while not job.state.terminal and not (job.state is JobState.PENDING and looks >= _PENDING_LOOKS):
            wait(_STOP_LOOK_S)
            looks += 1
            found = self._jobs.get(job.id)
            if found is None:
                raise NotFoundError(f"the Ray cluster no longer knows job {job.id}")
            job = found
        return job

    def _node_rows(self) -> Sequence[Mapping[str, Any]]:
        answer = self._dashboard.get_json(NODES)
        try:
            rows: list[dict[str, Any]] = answer["data"]["result"]["result"]
        except (KeyError, TypeError) as error:
            raise BackendError(f"{self.url} answers with a list of nodes that cannot be read") from error
        return rows


def _names(job: RayJob) -> tuple[str, ...]:
    """What a job may be called: its ids, and what of one Ray has not put before every one of its own."""
    ids = [name for name in (job.submission_id, job.job_id) if name]
    return (*ids, *(name.removeprefix(_PREFIX) for name in ids if name.startswith(_PREFIX)))

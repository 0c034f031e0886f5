"""Ray's own jobs, over the Jobs REST API of a cluster's head.

Source: Ray 2.60, ray/dashboard/modules/job. Any field of an answer but the state may be null: the time when a job ends,
the id of a driver that has not joined yet, the metadata where none were given.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode

from airlane.cluster.rest import Dashboard, Stream
from airlane.errors import BackendError, ConflictError, RayAnswerError, RayUnreachableError
from airlane.frozen import frozen

MOST_PACKAGE_BYTES = 100 << 20  # the dashboard refuses a body of this size or more (DASHBOARD_CLIENT_MAX_SIZE)
WHOLE = -1
_NOT_FOUND = 404
_SUBMIT_S = 60.0  # the first job of a cluster waits until its agent has joined it as a driver
_UPLOAD_S = 120.0  # the head stores a whole package before it answers
_SILENCE_S = 60.0  # of a log that is read to its end
_READ_LOG_S = 3600  # the head's own deadline for that; 30 s unless it is asked for more
_ID_LETTERS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz"
_EXIT_CODE = re.compile(r"failed with exit code (-?\d+)")


class JobState(StrEnum):
    """What Ray says of a job."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @property
    def terminal(self) -> bool:
        return self in (JobState.STOPPED, JobState.SUCCEEDED, JobState.FAILED)


@frozen
class RayJob:
    """One job. `submission_id` is None for a driver that was started otherwise; `job_id` until a driver has joined.

    Times are in seconds since the epoch. `exit_code` is the entrypoint's, negative for the signal that ended it, and
    None while it runs and where it never ran.
    """

    submission_id: str | None
    job_id: str | None
    state: JobState
    entrypoint: str = ""
    message: str | None = None
    started_at: float | None = None
    ended_at: float | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    driver_node_id: str | None = None
    exit_code: int | None = None
    error_type: str | None = None
    has_runtime_env: bool = False

    @property
    def id(self) -> str:
        """The name by which the cluster knows it."""
        return self.submission_id or self.job_id or ""


@frozen
class JobRequest:
    """What is to be submitted. The amounts are set aside for the entrypoint alone, apart from what it asks for."""

    entrypoint: str
    submission_id: str | None = None
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory_bytes: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """As the API takes it. What is not asked for is left out, so that older clusters understand it."""
        fields = {
            "entrypoint": self.entrypoint,
            "submission_id": self.submission_id,
            "runtime_env": dict(self.runtime_env) or None,
            "metadata": dict(self.metadata) or None,
            "entrypoint_num_cpus": self.num_cpus,
            "entrypoint_num_gpus": self.num_gpus,
            "entrypoint_memory": self.memory_bytes,
            "entrypoint_resources": dict(self.resources) or None,
        }
        return {name: content for name, content in fields.items() if content is not None}


class Jobs:
    """The jobs of a cluster. Every method raises what its `Dashboard` raises."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard

    @property
    def url(self) -> str:
        return self._dashboard.url

    def submit(self, request: JobRequest) -> str:
        """Submit once, whatever happens to the connection; the submission id.

        Raises:
            ConflictError: there is a job of that id.
        """
        wanted = request.submission_id or new_submission_id()
        try:
            self._dashboard.post_json("/api/jobs/", replace(request, submission_id=wanted).body(), timeout_s=_SUBMIT_S)
        except RayUnreachableError:
            # The question may have arrived although no answer came; the id is known, so the cluster can be asked.
            job = self.get(wanted)
            if job is None or job.entrypoint != request.entrypoint:
                raise
        except RayAnswerError as error:
            raise _refusal(error, wanted) from error
        return wanted

    def get(self, submission_id: str) -> RayJob | None:
        """The job of a submission id, or of a job id; None when the cluster does not know it."""
        try:
            return read_job(self._dashboard.get_json(f"/api/jobs/{quote(submission_id, safe='')}"))
        except RayAnswerError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def list(self) -> tuple[RayJob, ...]:
        """Every job, and every driver that was started without one; the newest first."""
        rows = self._dashboard.get_json("/api/jobs/")
        jobs = [read_job(row) for row in rows] if isinstance(rows, list) else [read_job(rows)]
        return tuple(sorted(jobs, key=lambda job: job.started_at or float("inf"), reverse=True))

    def stop(self, submission_id: str) -> bool:
        """Ask a job to end; False where it had ended. It gets SIGTERM, then SIGKILL after three seconds."""
        answer = self._dashboard.post_json(f"/api/jobs/{quote(submission_id, safe='')}/stop", {})
        return bool(isinstance(answer, dict) and answer.get("stopped"))

    def has(self, uri: str) -> bool:
        """Whether the cluster has a package; if so, it keeps it for ten minutes at least."""
        try:
            self._dashboard.get(_package_path(uri))
        except RayAnswerError as error:
            if error.status == _NOT_FOUND:
                return False
            raise
        return True

    def upload(self, uri: str, path: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Give the cluster a package; `progress` is told the bytes sent so far and their total."""
        size_bytes = path.stat().st_size
        with path.open("rb") as file:
            body = file if progress is None else _Counted(file, size_bytes, progress)
            self._dashboard.put(_package_path(uri), body, size_bytes, timeout_s=_UPLOAD_S)
        if not self.has(uri):
            raise BackendError(f"{self.url} took {uri} and does not have it", hint="submit it again")

    def log(self, job: RayJob, *, lines: int = WHOLE) -> Stream:
        """The last lines of what a job has written so far, as its driver's node has them, in pieces."""
        path = _log_path("file", job, lines=lines, timeout=_READ_LOG_S)
        return self._dashboard.stream(path, silence_s=_SILENCE_S)

    def log_stream(self, job: RayJob, *, every_s: float, silence_s: float) -> Stream:
        """The same from its beginning, and then what is added: the node looks `every_s`. It has no end of its own."""
        return self._dashboard.stream(_log_path("stream", job, lines=WHOLE, interval=every_s), silence_s=silence_s)


def new_submission_id() -> str:
    """An id of the form that Ray gives, without letters that are taken for one another."""
    return "raysubmit_" + "".join(secrets.choice(_ID_LETTERS) for _ in range(16))


def read_job(row: Any) -> RayJob:
    """A job as the API tells of it.

    Raises:
        BackendError: that has another form than is known.
    """
    try:
        state = JobState(row["status"])
        message = row.get("message")
        exit_code = row.get("driver_exit_code")
        if exit_code is None and state is JobState.FAILED and (said := _EXIT_CODE.search(message or "")):
            exit_code = int(said[1])
        return RayJob(
            submission_id=row.get("submission_id"),
            job_id=row.get("job_id"),
            state=state,
            entrypoint=row.get("entrypoint") or "",
            message=message,
            started_at=_seconds(row.get("start_time")),
            ended_at=_seconds(row.get("end_time")),
            metadata=dict(row.get("metadata") or {}),
            driver_node_id=row.get("driver_node_id"),
            exit_code=exit_code,
            error_type=row.get("error_type"),
            has_runtime_env=bool(row.get("runtime_env")),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BackendError(f"the dashboard tells of a job in a form that is not known: {error!r}") from error


def _seconds(milliseconds: float | None) -> float | None:
    """Ray says 0 where a driver has not ended."""
    return milliseconds / 1000 if milliseconds else None


def _package_path(uri: str) -> str:
    protocol, _, name = uri.partition("://")
    return f"/api/packages/{quote(protocol, safe='')}/{quote(name, safe='')}"


def _log_path(kind: str, job: RayJob, **options: float) -> str:
    """Raises BackendError while no node runs the job."""
    if job.driver_node_id is None:
        raise BackendError(f"job {job.id} has no log: no node has run it")
    query = {"node_id": job.driver_node_id, "filename": f"job-driver-{job.submission_id}.log", **options}
    return f"/api/v0/logs/{kind}?{urlencode(query)}"


def _refusal(error: RayAnswerError, submission_id: str) -> BackendError | ConflictError:
    """The cluster's own reason, without the traceback in which it comes."""
    if "already exists" in error.words:
        return ConflictError(
            f"the cluster has a job {submission_id}",
            hint="another --submission-id, or none: then it gets one of its own",
        )
    reason = error.words.partition(": ")[2] or error.message
    return BackendError(f"the cluster does not take the job: {reason}")


class _Counted:
    """A file that tells how much of it has been read."""

    def __init__(self, file: BinaryIO, total_bytes: int, progress: Callable[[int, int], None]) -> None:
        self._file, self._total_bytes, self._progress = file, total_bytes, progress
        self._read_bytes = 0

    def read(self, size: int = -1, /) -> bytes:
        block = self._file.read(size)
        self._read_bytes += len(block)
        self._progress(self._read_bytes, self._total_bytes)
        return block

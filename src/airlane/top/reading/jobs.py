"""Jobs, and drivers that were started without one: /api/jobs/.

Source: Ray 2.60. A job that runs has `end_time: null`, one whose driver has not joined `job_id: null`.
"""

from __future__ import annotations

from typing import Any

from airlane.top.fields import dig, read_json, rows, seconds, text, texts, whole, words
from airlane.top.values import Job

JOBS = "/api/jobs/"


def read_jobs(body: bytes) -> tuple[Job, ...]:
    """The newest first. Raises ValueError: this is no such answer."""
    answer = read_json(body)
    if type(answer) is not list:
        raise ValueError("it has no list of jobs")
    jobs = [job for job in map(_job, rows(answer)) if job.id]
    return tuple(sorted(jobs, key=lambda job: -(job.started_at or float("inf"))))


def _job(row: dict[str, Any]) -> Job:
    get = row.get
    submission, driver = text(get("submission_id")), text(get("job_id"))
    return Job(
        id=submission or driver,
        driver_id=driver or None,
        state=text(get("status")),
        entrypoint=words(get("entrypoint")) or "",
        message=words(get("message")),
        started_at=seconds(get("start_time")),
        ended_at=seconds(get("end_time")),
        node_id=text(get("driver_node_id")) or None,
        pid=whole(dig(get("driver_info"), "pid")),
        submitted=bool(submission),
        metadata=texts(get("metadata")),
    )

"""Ray's jobs on the screen, and in JSON."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airlane.cli.layout import hanging, table
from airlane.cli.screen import Look
from airlane.cli.words import ago, count, duration, iso, local_time, size
from airlane.cluster.job_log import RayWords
from airlane.cluster.jobs import JobState, RayJob
from airlane.errors import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from airlane.api.ray_jobs import CodeSent

_HEADINGS = ("JOB", "STATUS", "STARTED", "DURATION", "ENTRYPOINT")
_LABEL = 13
_NOT_FOUND = 127
_BY_SIGNAL = 128  # what a shell adds to the number of the signal
_MOST_LINES = 30
_STYLES = {
    JobState.PENDING: "yellow",
    JobState.RUNNING: "cyan",
    JobState.STOPPED: "yellow",
    JobState.SUCCEEDED: "green",
    JobState.FAILED: "red",
}


def exit_code(job: RayJob) -> int:
    """The entrypoint's own; as a shell has it where a signal ended it, and 1 where it did not end by itself."""
    if job.state is JobState.SUCCEEDED:
        return EXIT_OK
    if job.state is JobState.STOPPED or not job.exit_code:
        return EXIT_FAILED
    return job.exit_code if job.exit_code > 0 else _BY_SIGNAL - job.exit_code


def end_words(job: RayJob) -> str:
    """Why a job has failed, in a line: "exited with code 3"; nothing where it has not."""
    if job.state is not JobState.FAILED:
        return ""
    if job.exit_code is None:
        return _first_line(_reason(job)).rstrip(":")
    if job.exit_code < 0:
        return f"ended by {_signal_name(-job.exit_code)}"
    means = _meaning(job.exit_code)
    return f"exited with code {job.exit_code}" + (f" ({means})" if means else "")


def job_verdict(job: RayJob, look: Look, now: float) -> str:
    """How a job ended, and why."""
    mark = {JobState.SUCCEEDED: look.ok, JobState.FAILED: look.bad}.get(job.state, look.warn)
    took = _took_s(job, now)
    word = "in" if job.state is JobState.SUCCEEDED else "after"
    line = f"{mark} {painted_job_state(job.state, look)}"
    line += f"  {word} {duration(took)}" if took is not None else ""
    words = end_words(job)
    line += f"   {words}" if words else ""
    return "\n".join([line, *_message_lines(job)])


def _reason(job: RayJob) -> str:
    """What Ray says of a job that has failed, without the traceback of its own code."""
    return (job.message or "").partition(" Full traceback:")[0].strip()


def _message_lines(job: RayJob) -> list[str]:
    """What Ray says further of a job that failed without its entrypoint."""
    if job.state is not JobState.FAILED or job.exit_code is not None:
        return []
    return [f"  {line}" for line in _reason(job).splitlines()[1:][-_MOST_LINES:]]


def _last_words(job: RayJob) -> list[str]:
    """The last lines that an entrypoint wrote that has failed, as Ray keeps them in its message."""
    if job.exit_code is None:
        return (job.message or "").splitlines()
    _, _, log = (job.message or "").partition("last available logs (truncated to 20,000 chars):\n")
    return b"".join(RayWords(job).without([log.encode()])).decode().splitlines()


def job_table(jobs: Sequence[RayJob], look: Look, now: float) -> str:
    """The table of `air ray job list`."""
    rows = [
        (
            job.id,
            painted_job_state(job.state, look),
            ago(now - job.started_at) if job.started_at is not None else "-",
            duration(took) if (took := _took_s(job, now)) is not None else "-",
            _first_line(job.entrypoint) if job.submission_id is not None else f"(driver) {_first_line(job.entrypoint)}",
        )
        for job in jobs
    ]
    return table(_HEADINGS, rows, look, shrinks=_HEADINGS.index("ENTRYPOINT"))


def job_page(job: RayJob, look: Look, now: float, *, why: str | None, again: str) -> str:
    """Everything about one job."""
    took = _took_s(job, now)
    rows = [
        ("job", look.paint(job.id, "bold") + ("" if job.submission_id else "  a driver that was not submitted")),
        ("status", "  ".join(word for word in (painted_job_state(job.state, look), end_words(job) or why) if word)),
        ("entrypoint", job.entrypoint),
        ("submitted", _since(job, now)),
        ("ran", duration(took) if took is not None and job.state is not JobState.PENDING else None),
        ("driver", _driver(job)),
        ("metadata", ", ".join(f"{name}={value}" for name, value in job.metadata.items()) or None),
        ("logs", f"air ray job logs{again} {job.id}" if job.driver_node_id and job.submission_id else None),
    ]
    lines: list[str] = []
    for label, text in rows:
        if text:
            lines += hanging(f"{label:<{_LABEL}}", text, look, indent=_LABEL)
    if job.state is JobState.FAILED and (words := _last_words(job)):
        lines += ["", *(f"  {line}" for line in words)]
    return "\n".join(lines)


def code_line(sent: CodeSent, look: Look) -> str:
    """What a job brings along, and whether it had to be sent."""
    how = "sent" if sent.uploaded else "on the cluster already"
    digest = sent.uri.rpartition("_")[2][:8]
    what = f"{count(sent.files, 'file')}, {size(sent.size_bytes)}"
    lines = [f"{look.ok} code  {sent.source}  {digest}  {what}  {how}"]
    return "\n".join([*lines, *(f"{look.warn} left out: {words}" for words in sent.skipped)])


def job_facts(job: RayJob) -> dict[str, Any]:
    """A job, as JSON. The exit code is None until the entrypoint has ended by itself."""
    return {
        "submission_id": job.submission_id,
        "job_id": job.job_id,
        "status": job.state,
        "entrypoint": job.entrypoint,
        "message": job.message,
        "exit_code": job.exit_code,
        "started_at": iso(job.started_at),
        "ended_at": iso(job.ended_at),
        "metadata": dict(job.metadata),
        "driver_node_id": job.driver_node_id,
        "error_type": job.error_type,
    }


def painted_job_state(state: JobState, look: Look) -> str:
    return look.paint(str(state), _STYLES[state], "bold")


def _took_s(job: RayJob, now: float) -> float | None:
    """From its submission to its end, or until now."""
    if job.started_at is None:
        return None
    end = job.ended_at if job.ended_at is not None else now
    return max(0.0, end - job.started_at)


def _since(job: RayJob, now: float) -> str | None:
    if job.started_at is None:
        return None
    return f"{local_time(job.started_at)} ({ago(now - job.started_at)})"


def _driver(job: RayJob) -> str | None:
    parts = (f"job {job.job_id}" if job.job_id else "", f"node {job.driver_node_id[:8]}" if job.driver_node_id else "")
    return " on ".join(part for part in parts if part) or None


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _meaning(code: int) -> str | None:
    """What a shell means by an exit code that is not the program's own."""
    if code == _NOT_FOUND:
        return "command not found"
    return signal.Signals(code - _BY_SIGNAL).name if code - _BY_SIGNAL in signal.valid_signals() else None


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"

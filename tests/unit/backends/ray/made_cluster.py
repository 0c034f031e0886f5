"""A cluster's dashboard as far as a mirror needs it: log files by their last lines, and one job. Nothing runs.

It answers as Ray 2.60 does (dashboard/modules/log/log_agent.py), and can be made to fail.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from airlane.cluster.jobs import JobState, RayJob
from airlane.errors import RayAnswerError, RayUnreachableError

NODE = "a" * 56
JOB = "air-7k2m9q4d"


class MadeCluster:
    """Serves the files of a folder. `asked` has the number of lines of every question."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.asked: list[int] = []
        self.reachable = True
        self.node_is_there = True
        self.does_not_know = 0  # how many times it will say that there is no such job
        self.job: RayJob | None = RayJob(JOB, "01000000", JobState.RUNNING, driver_node_id=NODE)

    def get(self, path: str) -> bytes:
        self._answer()
        parts = urlsplit(path)
        assert parts.path == "/api/v0/logs/file"
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.asked.append(int(query["lines"]))
        if not self.node_is_there or query["node_id"] != NODE:
            raise refusal(f"Agent for node id: {query['node_id']} doesn't exist.")
        file = self.logs / query["filename"]
        if not file.is_file():
            raise refusal(f"A file is not found at: {file}")
        return last_lines(file.read_bytes(), int(query["lines"]))

    def job_of(self, submission_id: str) -> RayJob | None:
        self._answer()
        assert submission_id == JOB
        self.does_not_know -= 1
        return None if self.does_not_know >= 0 else self.job

    def _answer(self) -> None:
        if not self.reachable:
            raise RayUnreachableError("http://head:8265 does not answer within 10 s")

    def end_job(self) -> None:
        self.job = RayJob(JOB, "01000000", JobState.FAILED, driver_node_id=NODE)


class MadeJobs:
    def __init__(self, cluster: MadeCluster) -> None:
        self._cluster = cluster

    def get(self, submission_id: str) -> RayJob | None:
        return self._cluster.job_of(submission_id)


def last_lines(content: bytes, count: int) -> bytes:
    """A last line without a newline counts, 0 means 1000, and -1 means all."""
    if count == -1:
        return content
    *lines, rest = content.split(b"\n")
    lines = [line + b"\n" for line in lines] + ([rest] if rest else [])
    return b"".join(lines[-(count or 1000) :])


def refusal(words: str) -> RayAnswerError:
    return RayAnswerError(f"http://head:8265/api/v0/logs/file answers 500: {words}", status=500, words=words)


def files_of(root: Path, *, but: tuple[str, ...] = ()) -> dict[str, bytes]:
    """Every file below a folder, by its path from there."""
    found = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {path: content for path, content in found.items() if not path.startswith(but or "\0")}

"""Programs that a Ray cluster runs for us. The jobs are made here; the programs themselves run for real elsewhere."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from airlane.backends.ray import asking
from airlane.backends.ray.asking import ask_node
from airlane.cluster.jobs import JobRequest, JobState, RayJob
from airlane.cluster.rest import Dashboard
from airlane.errors import BackendError

MODULE = "airlane.launch.reachable"
LOG = b"INFO job_manager.py -- Runtime env is setting up.\nairlane answers from gpu1\ntracking=ok\n"


class Played(Dashboard):
    """A cluster on which a job goes through `states` and writes `log`."""

    def __init__(self, *states: JobState | None, log: bytes = LOG, message: str | None = None) -> None:
        super().__init__("http://10.0.0.1:8265")
        self.states = list(states)
        self.log = log
        self.message = message
        self.requests: list[JobRequest] = []
        self.stopped: list[str] = []
        self.now = 0.0

    def delete(self, path: str) -> Any:
        raise AssertionError(f"{path} would come back as a job that failed")

    def pause(self, seconds: float) -> None:
        self.now += seconds


class PlayedJobs:
    """What jobs.Jobs would do with such a cluster."""

    def __init__(self, dashboard: Played) -> None:
        self._played = dashboard

    def submit(self, request: JobRequest) -> str:
        self._played.requests.append(request)
        return "raysubmit_1"

    def get(self, submission_id: str) -> RayJob | None:
        played = self._played
        state = played.states.pop(0) if len(played.states) > 1 else played.states[0]
        if state is None:
            return None
        node = None if state is JobState.PENDING or not played.log else "abc"
        return RayJob(submission_id, None, state, message=played.message, driver_node_id=node)

    def stop(self, submission_id: str) -> None:
        self._played.stopped.append(submission_id)

    def log(self, job: RayJob) -> list[bytes]:
        del job
        said = b"Running entrypoint for job x: " + self._played.requests[-1].entrypoint.encode() + b"\n"
        return [said, self._played.log[:30], self._played.log[30:]]


@pytest.fixture(autouse=True)
def _played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "Jobs", PlayedJobs)


def ask(cluster: Played, *arguments: str) -> tuple[str, str]:
    return ask_node(cluster, MODULE, *arguments, clock=lambda: cluster.now, pause=cluster.pause)


def test_the_answer_is_what_the_module_printed_and_where_it_ran() -> None:
    cluster = Played(JobState.PENDING, JobState.RUNNING, JobState.SUCCEEDED)
    assert ask(cluster, "http://mlflow.lab.example:5000") == ("gpu1", "tracking=ok\n")


def test_a_module_that_fails_answers_all_the_same() -> None:
    assert ask(Played(JobState.FAILED, log=LOG + b"Traceback ...\n"), "x")[1] == "tracking=ok\nTraceback ...\n"


def test_the_job_takes_nothing_and_carries_no_environment() -> None:
    cluster = Played(JobState.SUCCEEDED)
    ask(cluster, "a 'quoted' argument", "$HOME")
    (request,) = cluster.requests
    assert set(request.body()) == {"entrypoint", "metadata"}
    assert shlex.split(request.entrypoint)[-2:] == ["a 'quoted' argument", "$HOME"]


def test_a_file_of_this_machine_does_not_travel_in_the_open() -> None:
    cluster = Played(JobState.SUCCEEDED)
    ask(cluster, "http://mlflow.lab.example", __file__)
    assert __file__ not in cluster.requests[0].entrypoint


def test_a_job_that_never_starts_is_stopped_and_told() -> None:
    cluster = Played(JobState.PENDING)
    with pytest.raises(BackendError, match="no job within 60 s") as caught:
        ask(cluster)
    assert caught.value.hint
    assert cluster.stopped == ["raysubmit_1"]


@pytest.mark.parametrize(
    ("log", "message", "words"),
    [
        (b"", "Traceback:\nRuntimeError: no agent\n", "RuntimeError: no agent"),
        (b"sh: 1: exec: : Permission denied\n", None, "Permission denied"),
        (b"", None, "FAILED"),
    ],
)
def test_a_job_that_did_not_run_is_told_by_its_last_word(log: bytes, message: str | None, words: str) -> None:
    with pytest.raises(BackendError, match="did not run a job") as caught:
        ask(Played(JobState.FAILED, log=log, message=message))
    assert caught.value.message.endswith(words)


def test_a_cluster_that_forgets_the_job_is_told_so() -> None:
    with pytest.raises(BackendError, match="has forgotten"):
        ask(Played(JobState.RUNNING, None))


def test_a_module_that_is_not_there_is_no_job() -> None:
    cluster = Played(JobState.SUCCEEDED)
    with pytest.raises((BackendError, ModuleNotFoundError)):
        ask_node(cluster, "airlane.launch.nothing")
    assert cluster.requests == []

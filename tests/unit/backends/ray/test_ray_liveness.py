"""What is believed of a run that is a job of a Ray cluster. The answers are made, and no mirror is started."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from airlane.backends.base import Liveness
from airlane.backends.ray import liveness
from airlane.backends.ray.ledger import LONGEST_SUBMISSION_S, JobRecord, RayFiles, read_job, write_job
from airlane.backends.ray.liveness import ORPHANS_S, Watcher
from airlane.backends.ray.silence import GONE_ELSEWHERE_S
from airlane.cluster.jobs import JobState, RayJob
from airlane.errors import RayAnswerError, RayUnreachableError
from airlane.store.paths import RunPaths
from airlane.store.records import CauseKind
from airlane.store.supervisor_lock import hold

URL = "http://head.example:8265"


class MadeJobs:
    """Answers in turn; the last one for ever. An error is raised."""

    def __init__(self, *answers: RayJob | Exception | None) -> None:
        self.answers = list(answers)
        self.stopped: list[str] = []

    def get(self, submission_id: str) -> RayJob | None:
        del submission_id
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def list(self) -> tuple[RayJob, ...]:
        answer = self.get("")
        return () if answer is None else (answer,)

    def stop(self, submission_id: str) -> bool:
        self.stopped.append(submission_id)
        return True

    def log(self, job: RayJob) -> tuple[bytes, ...]:
        del job
        return (b"what the supervisor said",)


class MadeWatcher(Watcher):
    def __init__(self, jobs: MadeJobs) -> None:
        super().__init__()
        self.jobs = jobs

    def client(self, record: JobRecord, run: RunPaths) -> MadeJobs:  # type: ignore[override]
        del record, run
        return self.jobs


@pytest.fixture(autouse=True)
def mirrors(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was wanted of mirrors, by run id."""
    wanted: list[str] = []
    monkeypatch.setattr(liveness, "ensure_mirror", lambda run: wanted.append(f"start {run.id}"))
    monkeypatch.setattr(liveness, "catch_up", lambda run, to_the_end=False: wanted.append(f"end {run.id} {to_the_end}"))
    return wanted


def new_run(folder: Path, run_id: str = "7k2m9q4d") -> RunPaths:
    run = RunPaths(folder / "runs" / "2026-01" / run_id)
    run.root.mkdir(parents=True)
    run.record.write_text("{}")
    os.close(hold(run.lock))
    return run


def submitted(folder: Path, run_id: str = "7k2m9q4d", *, ago_s: float = 3600.0) -> RunPaths:
    run = new_run(folder, run_id)
    write_job(run, JobRecord(URL, f"air-{run_id}", f"air-{run_id}", time.time() - ago_s), token=None)
    return run


def job(state: JobState, run_id: str = "7k2m9q4d", **fields: object) -> RayJob:
    return replace(RayJob(f"air-{run_id}", "01000000", state), **fields)  # type: ignore[arg-type]


def look(run: RunPaths, *answers: RayJob | Exception | None) -> tuple[Liveness, MadeWatcher]:
    watcher = MadeWatcher(MadeJobs(*answers))
    return watcher.liveness([run])[run.id], watcher


def test_a_run_that_its_submitter_still_brings_is_not_judged(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    lock = hold(run.lock)
    found, _ = look(run, None)
    os.close(lock)
    assert found is Liveness.UNKNOWN


def test_a_run_whose_submitter_died_before_the_cluster_was_asked_is_dead_at_once(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    found, watcher = look(run, AssertionError("nobody is to be asked"))
    assert found is Liveness.DEAD
    words = watcher.last_words(run)
    assert words is not None
    assert (words.kind, "did not reach" in words.summary) == (CauseKind.SUPERVISOR_LOST, True)


def test_a_run_that_is_submitted_between_two_looks_is_not_called_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = submitted(tmp_path)
    first_look = iter([None])
    monkeypatch.setattr(liveness, "read_job", lambda run: next(first_look, read_job(run)))
    assert look(run, AssertionError("nobody is to be asked"))[0] is Liveness.UNKNOWN


def test_a_job_that_the_cluster_may_only_now_take_in_is_waited_for(tmp_path: Path) -> None:
    assert look(submitted(tmp_path, ago_s=LONGEST_SUBMISSION_S - 5), None)[0] is Liveness.UNKNOWN
    found, watcher = look(submitted(tmp_path / "later", ago_s=LONGEST_SUBMISSION_S + 1), None)
    assert found is Liveness.DEAD
    words = watcher.last_words(RunPaths(tmp_path / "later/runs/2026-01/7k2m9q4d"))
    assert words is not None
    assert "did not reach" in words.summary


def test_a_job_that_is_missing_from_one_answer_alone_is_not_dead(tmp_path: Path) -> None:
    assert look(submitted(tmp_path), None, job(JobState.RUNNING))[0] is Liveness.ALIVE


def test_a_cluster_that_has_forgotten_a_job_was_started_anew(tmp_path: Path) -> None:
    run = submitted(tmp_path)
    run.status.write_text("{}")
    found, watcher = look(run, None)
    assert found is Liveness.DEAD
    words = watcher.last_words(run)
    assert words is not None
    assert "started anew" in words.summary


@pytest.mark.parametrize(
    ("state", "expected"), [(JobState.PENDING, Liveness.WAITING), (JobState.RUNNING, Liveness.ALIVE)]
)
def test_a_job_that_lives_gets_a_mirror(
    tmp_path: Path, mirrors: list[str], state: JobState, expected: Liveness
) -> None:
    run = submitted(tmp_path)
    assert look(run, job(state))[0] is expected
    assert mirrors == [f"start {run.id}"]


def test_of_a_job_that_ended_everything_is_here_before_its_run_is_called_dead(
    tmp_path: Path, mirrors: list[str]
) -> None:
    run = submitted(tmp_path)
    assert look(run, job(JobState.FAILED))[0] is Liveness.DEAD
    assert mirrors == [f"end {run.id} True"]
    assert run.supervisor_log.read_text() == "what the supervisor said"


def test_a_cancel_that_found_the_cluster_away_is_said_again(tmp_path: Path) -> None:
    run = submitted(tmp_path)
    run.cancel.write_text("{}")
    _, watcher = look(run, job(JobState.RUNNING))
    assert watcher.jobs.stopped == [f"air-{run.id}"]


def test_no_answer_is_evidence_of_nothing_however_long_it_lasts(tmp_path: Path) -> None:
    run = submitted(tmp_path)
    assert look(run, RayUnreachableError("no answer within 10 s"))[0] is Liveness.UNKNOWN
    assert not RayFiles(run).refused.exists()
    assert look(run, RayAnswerError("503", status=503))[0] is Liveness.UNKNOWN


def test_a_cluster_that_refuses_for_long_is_gone_and_one_that_answers_is_not(tmp_path: Path) -> None:
    run, refusal = submitted(tmp_path), RayUnreachableError("refused", refused=True)
    assert look(run, refusal)[0] is Liveness.UNKNOWN
    long_ago = time.time() - GONE_ELSEWHERE_S - 1
    os.utime(RayFiles(run).refused, (long_ago, long_ago))
    found, watcher = look(run, refusal)
    assert found is Liveness.DEAD
    words = watcher.last_words(run)
    assert words is not None
    assert (words.kind, "is gone" in words.summary) == (CauseKind.NODE_FAILED, True)
    assert look(run, job(JobState.RUNNING))[0] is Liveness.ALIVE
    assert look(run, refusal)[0] is Liveness.UNKNOWN, "an answer starts the count anew"


def test_one_answer_tells_of_all_runs_of_a_cluster(tmp_path: Path) -> None:
    runs = [submitted(tmp_path, run_id) for run_id in ("aaaaaaaa", "bbbbbbbb")]
    watcher = MadeWatcher(MadeJobs(job(JobState.RUNNING, "aaaaaaaa"), None))
    assert watcher.liveness(runs) == {"aaaaaaaa": Liveness.ALIVE, "bbbbbbbb": Liveness.DEAD}


@pytest.mark.parametrize(
    ("ended", "kind", "words"),
    [
        (job(JobState.FAILED, exit_code=-9), CauseKind.SUPERVISOR_LOST, "killed by SIGKILL"),
        (job(JobState.FAILED, exit_code=1, message="boom"), CauseKind.SUPERVISOR_LOST, "boom"),
        (job(JobState.FAILED), CauseKind.SUPERVISOR_LOST, "does not say why"),
        (job(JobState.STOPPED), CauseKind.CANCELED, "was stopped"),
    ],
)
def test_how_a_job_ended_is_told_when_its_supervisor_did_not(
    tmp_path: Path, ended: RayJob, kind: CauseKind, words: str
) -> None:
    run = submitted(tmp_path)
    _, watcher = look(run, ended)
    said = watcher.last_words(run)
    assert said is not None
    assert said.kind is kind
    assert words in said.summary


def test_what_a_dead_driver_left_has_time_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    run = submitted(tmp_path)
    _, watcher = look(run, job(JobState.FAILED, ended_at=time.time() - 1))
    watcher.sweep(run)
    assert naps == [pytest.approx(ORPHANS_S - 1, abs=0.5)]
    _, watcher = look(run, job(JobState.FAILED, ended_at=time.time() - ORPHANS_S - 1))
    watcher.sweep(run)
    assert naps[1:] == [0.0]

"""Ray's jobs, as the API of Ray 2.60 tells of them: answers of a real cluster, and what may be missing in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlane.cluster.jobs import MOST_PACKAGE_BYTES, JobRequest, Jobs, JobState, RayJob, new_submission_id, read_job
from airlane.cluster.rest import Dashboard
from airlane.errors import BackendError, ConflictError, RayAnswerError, RayUnreachableError

from .conftest import Answer, StandIn

NODE = "160eb3ce85e7e10e4d61febf7570b670d3982aa5310834b86fc16429"
FAILED: dict[str, Any] = {
    "type": "SUBMISSION",
    "job_id": None,
    "submission_id": "raysubmit_U6KBmkEr4GDKDYVB",
    "driver_info": None,
    "status": "FAILED",
    "entrypoint": "echo hi; exit 3",
    "message": "Job entrypoint command failed with exit code 3, last available logs (truncated to 20,000 chars):\nhi\n",
    "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR",
    "start_time": 1796081575713,
    "end_time": 1796081580518,
    "metadata": None,
    "runtime_env": None,
    "driver_agent_http_address": "http://127.0.0.2:31671",
    "driver_node_id": NODE,
    "driver_exit_code": 3,
}
PENDING = {
    **FAILED,
    "status": "PENDING",
    "message": "Job has not started yet.",
    "error_type": None,
    "end_time": None,
    "driver_agent_http_address": None,
    "driver_node_id": None,
    "driver_exit_code": None,
}
DRIVER = {
    **PENDING,
    "type": "DRIVER",
    "job_id": "02000000",
    "submission_id": None,
    "status": "RUNNING",
    "entrypoint": "python train.py",
    "message": None,
    "start_time": 1796081500000,
    "end_time": 0,
    "metadata": {},
    "runtime_env": {},
    "driver_info": {"id": "02000000", "node_ip_address": "127.0.0.2", "pid": "4711"},
}


@pytest.fixture
def jobs(stand_in: StandIn) -> Jobs:
    return Jobs(Dashboard(stand_in.url, "token"))


def test_a_failed_job_is_read_with_its_times_in_seconds() -> None:
    assert read_job(FAILED) == RayJob(
        submission_id="raysubmit_U6KBmkEr4GDKDYVB",
        job_id=None,
        state=JobState.FAILED,
        entrypoint="echo hi; exit 3",
        message=FAILED["message"],
        started_at=1796081575.713,
        ended_at=1796081580.518,
        driver_node_id=NODE,
        exit_code=3,
        error_type="JOB_ENTRYPOINT_COMMAND_ERROR",
    )


def test_a_driver_that_was_not_submitted_goes_by_its_job_id_and_has_not_ended_at_zero() -> None:
    job = read_job(DRIVER)
    assert (job.id, job.submission_id, job.ended_at) == ("02000000", None, None)


def test_a_pending_job_has_no_end_no_node_and_no_exit_code() -> None:
    job = read_job(PENDING)
    assert (job.state.terminal, job.ended_at, job.driver_node_id, job.exit_code) == (False, None, None, None)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Job entrypoint command failed with exit code 3, last available logs:\n...", 3),
        ("Job entrypoint command failed with exit code -9. No logs available.", -9),
        ("runtime_env setup failed: no such package", None),
        (None, None),
    ],
)
def test_an_exit_code_that_is_missing_is_found_in_the_message(message: str | None, code: int | None) -> None:
    assert read_job({**FAILED, "driver_exit_code": None, "message": message}).exit_code == code


def test_what_a_job_that_runs_says_is_no_exit_code() -> None:
    row = {**FAILED, "status": "RUNNING", "driver_exit_code": None, "message": "failed with exit code 3"}
    assert read_job(row).exit_code is None


@given(st.sets(st.sampled_from(sorted(set(FAILED) - {"status"}))), st.booleans())
def test_any_field_but_the_state_may_be_null_or_missing(names: set[str], missing: bool) -> None:
    row = {name: content for name, content in FAILED.items() if name not in names or not missing}
    job = read_job({name: None if name in names else content for name, content in row.items()})
    assert job.state is JobState.FAILED


@pytest.mark.parametrize(
    "row", [None, [], "x", {}, {"status": None}, {"status": "PAUSED"}, {**FAILED, "start_time": "now"}]
)
def test_an_answer_of_another_form_is_an_error_and_no_guess(row: Any) -> None:
    with pytest.raises(BackendError, match="in a form that is not known"):
        read_job(row)


@pytest.mark.parametrize("state", JobState)
def test_a_state_from_which_nothing_follows_is_terminal(state: JobState) -> None:
    assert state.terminal == (state in (JobState.STOPPED, JobState.SUCCEEDED, JobState.FAILED))


def test_a_request_says_only_what_was_asked_for() -> None:
    assert JobRequest("python x.py").body() == {"entrypoint": "python x.py"}
    assert JobRequest("x", "id", {"pip": ["a"]}, {"k": "v"}, 0.5, 1, 1000, {"tpu": 2}).body() == {
        "entrypoint": "x",
        "submission_id": "id",
        "runtime_env": {"pip": ["a"]},
        "metadata": {"k": "v"},
        "entrypoint_num_cpus": 0.5,
        "entrypoint_num_gpus": 1,
        "entrypoint_memory": 1000,
        "entrypoint_resources": {"tpu": 2},
    }


def test_a_job_is_submitted_under_an_id_of_ours(stand_in: StandIn, jobs: Jobs) -> None:
    stand_in.on_json("POST /api/jobs/", {"job_id": "x", "submission_id": "x"})
    submission_id = jobs.submit(JobRequest("echo ü"))
    assert json.loads(stand_in.asked[0].body) == {"entrypoint": "echo ü", "submission_id": submission_id}
    assert submission_id.startswith("raysubmit_")
    assert len({new_submission_id() for _ in range(100)}) == 100


def test_a_submission_whose_answer_is_lost_is_looked_up_and_not_repeated(stand_in: StandIn, jobs: Jobs) -> None:
    stand_in.on("POST /api/jobs/", Answer(drop=True))
    stand_in.on_json("GET /api/jobs/mine", {**PENDING, "submission_id": "mine", "entrypoint": "echo hi"})
    assert jobs.submit(JobRequest("echo hi", "mine")) == "mine"
    assert [asked.method for asked in stand_in.asked] == ["POST", "GET"]


@pytest.mark.parametrize("there", [None, {**PENDING, "submission_id": "mine", "entrypoint": "another"}])
def test_a_submission_that_did_not_arrive_is_an_error(stand_in: StandIn, jobs: Jobs, there: Any) -> None:
    stand_in.on("POST /api/jobs/", Answer(drop=True))
    if there is not None:
        stand_in.on_json("GET /api/jobs/mine", there)
    with pytest.raises(RayUnreachableError, match="dropped the connection"):
        jobs.submit(JobRequest("echo hi", "mine"))


def test_an_id_that_is_taken_is_a_conflict(stand_in: StandIn, jobs: Jobs) -> None:
    text = (
        "Traceback (most recent call last):\n...\nValueError: Job with submission_id t1 already exists. Please ...\n."
    )
    stand_in.on("POST /api/jobs/", Answer(500, text.encode()))
    with pytest.raises(ConflictError, match="the cluster has a job t1") as caught:
        jobs.submit(JobRequest("x", "t1"))
    assert "--submission-id" in str(caught.value.hint)


def test_what_the_cluster_does_not_take_comes_with_its_reason_alone(stand_in: StandIn, jobs: Jobs) -> None:
    text = "Traceback (most recent call last):\n...\nTypeError: metadata values must be strings, got <class 'int'>"
    stand_in.on("POST /api/jobs/", Answer(400, text.encode()))
    with pytest.raises(BackendError) as caught:
        jobs.submit(JobRequest("x"))
    assert (
        caught.value.message == "the cluster does not take the job: metadata values must be strings, got <class 'int'>"
    )


def test_a_job_that_the_cluster_does_not_know_is_none_and_trouble_is_not(stand_in: StandIn, jobs: Jobs) -> None:
    assert jobs.get("nope/../x y") is None
    assert stand_in.asked[0].path == "/api/jobs/nope%2F..%2Fx%20y"
    stand_in.on("GET /api/jobs/x", Answer(500, b"the GCS is away"))
    with pytest.raises(RayAnswerError, match="the GCS is away"):
        jobs.get("x")


def test_jobs_are_listed_with_drivers_the_newest_first(stand_in: StandIn, jobs: Jobs) -> None:
    young = {**PENDING, "submission_id": "young", "start_time": 1796081999000}
    without = {**PENDING, "submission_id": "no-start", "start_time": None}
    stand_in.on_json("GET /api/jobs/", [FAILED, DRIVER, young, without])
    assert [job.id for job in jobs.list()] == ["no-start", "young", "raysubmit_U6KBmkEr4GDKDYVB", "02000000"]


@pytest.mark.parametrize(("answer", "stopped"), [({"stopped": True}, True), ({"stopped": False}, False), ({}, False)])
def test_stopping_tells_whether_there_was_something_to_stop(
    stand_in: StandIn, jobs: Jobs, answer: dict[str, bool], stopped: bool
) -> None:
    stand_in.on_json("POST /api/jobs/x/stop", answer)
    assert jobs.stop("x") is stopped


URI = "gcs://_ray_pkg_0123.zip"


def test_a_package_is_sent_with_progress_and_asked_for_afterwards(
    stand_in: StandIn, jobs: Jobs, tmp_path: Path
) -> None:
    stand_in.on("PUT /api/packages/gcs/_ray_pkg_0123.zip", Answer())
    stand_in.on("GET /api/packages/gcs/_ray_pkg_0123.zip", Answer(404, b"does not exist"), Answer())
    file = tmp_path / "p.zip"
    file.write_bytes(b"x" * 1_000_000)
    assert not jobs.has(URI)
    told: list[tuple[int, int]] = []
    jobs.upload(URI, file, lambda done, total: told.append((done, total)))
    assert [asked.method for asked in stand_in.asked] == ["GET", "PUT", "GET"]
    assert stand_in.asked[1].body == file.read_bytes()
    assert told[-1] == (1_000_000, 1_000_000)
    assert told == sorted(told)
    assert jobs.has(URI)


def test_a_package_that_is_not_there_after_it_was_sent_is_an_error(
    stand_in: StandIn, jobs: Jobs, tmp_path: Path
) -> None:
    stand_in.on("PUT /api/packages/gcs/_ray_pkg_0123.zip", Answer())
    (tmp_path / "p.zip").write_bytes(b"x")
    with pytest.raises(BackendError, match="does not have it"):
        jobs.upload(URI, tmp_path / "p.zip")


def test_the_log_is_read_from_the_drivers_node_with_a_deadline_that_a_large_one_needs(
    stand_in: StandIn, jobs: Jobs
) -> None:
    stand_in.on("GET /api/v0/logs/file", Answer(pieces=(b"hi\n", b"there\n")))
    assert list(jobs.log(read_job(FAILED), lines=10)) in ([b"hi\n", b"there\n"], [b"hi\nthere\n"])
    assert stand_in.asked[0].path == (
        f"/api/v0/logs/file?node_id={NODE}&filename=job-driver-raysubmit_U6KBmkEr4GDKDYVB.log&lines=10&timeout=3600"
    )


def test_a_job_that_no_node_has_run_has_no_log(jobs: Jobs) -> None:
    with pytest.raises(BackendError, match="no node has run it"):
        jobs.log(read_job(PENDING))


def test_the_limit_is_that_of_the_dashboard_and_not_the_larger_one_of_the_gcs() -> None:
    assert MOST_PACKAGE_BYTES == 100 * 1024**2

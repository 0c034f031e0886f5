"""air ray job on a cluster that is made up: what is asked of it, what is shown, and the exit codes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from airlane.api import ray_jobs
from airlane.api.ray_job_code import CodeSent
from airlane.api.ray_jobs import JobSubmission, LastLines, Submitted
from airlane.api.ray_target import JobTarget
from airlane.cli.command import Context
from airlane.cli.commands.ray_job_submit import amount, memory_bytes, submission_id
from airlane.cluster.job_following import (
    ConnectionFound,
    ConnectionLost,
    JobOutput,
    JobSeen,
    JobWaits,
    OutputLost,
    Update,
)
from airlane.cluster.jobs import JobRequest, JobState, RayJob
from airlane.errors import CapacityError, NotFoundError, RayAnswerError, RayUnreachableError

from .conftest import Air
from .made_runs import NOW

PENDING = RayJob("raysubmit_U6KB", None, JobState.PENDING, "python train.py", started_at=NOW - 60)
RUNNING = replace(PENDING, state=JobState.RUNNING, driver_node_id="160eb3ce85e7", job_id="02000000")
SUCCEEDED = replace(RUNNING, state=JobState.SUCCEEDED, ended_at=NOW - 18, exit_code=0)
FAILED = replace(
    SUCCEEDED,
    state=JobState.FAILED,
    exit_code=3,
    message="Job entrypoint command failed with exit code 3, last available logs (truncated to 20,000 chars):\n"
    "2026-11-30 23:32:55,719\tINFO job_manager.py:581 -- Runtime env is setting up.\n"
    "Running entrypoint for job raysubmit_U6KB: python train.py\nTraceback (most recent call last):\nKeyError: 'x'\n",
)
NEVER_RAN = replace(
    PENDING,
    state=JobState.FAILED,
    ended_at=NOW - 50,
    message="runtime_env setup failed: pip:\nno such package: einopz\n",
)
DRIVER = RayJob(None, "01000000", JobState.RUNNING, "python notebook.py", started_at=NOW - 7200)
MARKER = b"Running entrypoint for job raysubmit_U6KB: python train.py\n"


@dataclass
class MadeJobs:
    """A cluster with these jobs; following one gives these updates."""

    jobs: list[RayJob] = field(default_factory=lambda: [PENDING])
    updates: list[Update | BaseException] = field(default_factory=list)
    submitted: list[JobSubmission] = field(default_factory=list)
    targets: list[JobTarget] = field(default_factory=list)
    code: tuple[CodeSent, ...] = ()
    refusal: BaseException | None = None
    last: LastLines = field(default_factory=lambda: LastLines((), 0))
    known_bytes: int | None = None
    again: str = " -p ray"
    url: str = "http://head:8265"

    def submit(self, wanted: JobSubmission, progress: Any) -> Submitted:
        progress("submitting", "")
        if self.refusal is not None:
            raise self.refusal
        self.submitted.append(wanted)
        return Submitted("raysubmit_U6KB", wanted.request(wanted.runtime_env), self.code)

    def follow(self, _job_id: str, _request: JobRequest | None = None, *, known_bytes: int = 0) -> Iterator[Update]:
        self.known_bytes = known_bytes
        for update in self.updates:
            if isinstance(update, BaseException):
                raise update
            yield update

    def find(self, name: str) -> RayJob:
        for job in self.jobs:
            if name in (job.id, "@last"):
                return job
        raise NotFoundError(f"the Ray cluster has no job {name}", hint="air ray job list")

    def list(self) -> list[RayJob]:
        return self.jobs

    def output(self, _job: RayJob) -> Iterator[bytes]:
        yield b"what there is\n"

    def last_lines(self, _job: RayJob, _count: int) -> LastLines:
        return self.last

    def why(self, _job: RayJob, _asked: Mapping[str, float]) -> str | None:
        return "sets up the runtime environment"

    def stop(self, job: RayJob) -> bool:
        return not job.state.terminal

    def wait_until_ended(self, job: RayJob) -> RayJob:
        return job if job.state is JobState.PENDING else replace(job, state=JobState.STOPPED)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> MadeJobs:
    made = MadeJobs()

    @contextlib.contextmanager
    def opened(_client: None, target: JobTarget) -> Iterator[MadeJobs]:
        made.targets.append(target)
        yield made

    monkeypatch.setattr(ray_jobs, "open_jobs", opened)
    monkeypatch.setattr(Context, "client", lambda _context: None)
    return made


SUBMIT = ("ray", "job", "submit")


def test_a_job_is_followed_to_its_end_with_its_own_words_alone_on_stdout(air: Air, cluster: MadeJobs) -> None:
    cluster.updates = [
        JobSeen(PENDING),
        JobWaits("starts"),
        JobSeen(RUNNING),
        JobOutput(b"loss 1"),
        JobOutput(b"\n" + MARKER),
        JobOutput(b"loss 0.5\n"),
        JobSeen(SUCCEEDED),
    ]
    output = air(*SUBMIT, "--", "python", "train.py")
    assert (output.code, output.out) == (0, "loss 1\nloss 0.5\n")
    assert output.err == (
        "job raysubmit_U6KB · logs follow · Ctrl-C stops following, not the job\n✓ SUCCEEDED  in 42s\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("python", "-c", "print('a b')", "$HOME", "", "ünï", "--", "-x", "--json", "-h", "a\nb"),
        ("git", "log", "--", "file"),
        ("--", "x"),
    ],
)
def test_the_words_of_the_command_arrive_as_they_were_typed(
    air: Air, cluster: MadeJobs, words: tuple[str, ...]
) -> None:
    cluster.updates = [JobSeen(SUCCEEDED)]
    assert air(*SUBMIT, "--", *words).code == 0
    assert cluster.submitted[0].words == words


def test_the_entrypoint_is_quoted_as_a_shell_wants_it() -> None:
    wanted = JobSubmission(("python", "-c", "print('a b')", "$HOME", ""))
    assert wanted.request({}).entrypoint == """python -c 'print('"'"'a b'"'"')' '$HOME' ''"""


def test_every_option_goes_where_it_belongs(air: Air, cluster: MadeJobs, tmp_path: Path) -> None:
    file = tmp_path / "env.yaml"
    file.write_text("env_vars: {A: b}\nworking_dir: elsewhere\n")
    cluster.updates = [JobSeen(SUCCEEDED)]
    options = (
        *("--runtime-env", str(file)),
        *("--working-dir", "."),
        *("--entrypoint-num-cpus", "0.5"),
        *("--entrypoint-num-gpus", "2"),
        *("--entrypoint-memory", "16GB"),
        *("--entrypoint-resources", '{"licence": 1}'),
        *("--metadata", "team=nlp"),
        *("--metadata", '{"k": "a=b"}'),
        *("--submission-id", "mine-1"),
        "--may-grow",
    )
    assert air("-p", "ray", *SUBMIT, *options, "--", "x").code == 0
    assert cluster.targets == [JobTarget(profile="ray")]
    assert cluster.submitted == [
        JobSubmission(
            words=("x",),
            runtime_env={"env_vars": {"A": "b"}, "working_dir": "."},
            submission_id="mine-1",
            metadata={"team": "nlp", "k": "a=b"},
            num_cpus=0.5,
            num_gpus=2.0,
            memory_bytes=16_000_000_000,
            resources={"licence": 1},
            may_grow=True,
        )
    ]


def test_the_cluster_is_named_by_its_address_or_its_name(air: Air, cluster: MadeJobs) -> None:
    air("ray", "job", "list", "--address", "http://h:1")
    air("ray", "job", "list", "--cluster", "7k2m")
    assert cluster.targets == [JobTarget(address="http://h:1"), JobTarget(cluster="7k2m")]


@pytest.mark.parametrize(
    ("job", "code", "verdict"),
    [
        (FAILED, 3, "✗ FAILED  after 42s   exited with code 3"),
        (replace(FAILED, exit_code=-9), 137, "✗ FAILED  after 42s   ended by SIGKILL (signal 9)"),
        (replace(FAILED, exit_code=137), 137, "✗ FAILED  after 42s   exited with code 137 (SIGKILL)"),
        (replace(FAILED, exit_code=255), 255, "✗ FAILED  after 42s   exited with code 255"),
        (replace(FAILED, exit_code=127), 127, "✗ FAILED  after 42s   exited with code 127 (command not found)"),
        (replace(SUCCEEDED, state=JobState.STOPPED, exit_code=None), 1, "! STOPPED  after 42s"),
        (NEVER_RAN, 1, "✗ FAILED  after 10s   runtime_env setup failed: pip\n  no such package: einopz"),
        (replace(NEVER_RAN, message=None, started_at=None), 1, "✗ FAILED"),
    ],
)
def test_the_exit_code_is_the_commands_own(air: Air, cluster: MadeJobs, job: RayJob, code: int, verdict: str) -> None:
    cluster.updates = [JobSeen(job)]
    output = air(*SUBMIT, "--", "x")
    assert output.code == code
    assert output.err.split("\n", 1)[1] == f"{verdict}\n"


def test_ctrl_c_leaves_the_job_running_and_says_how_to_come_back(air: Air, cluster: MadeJobs) -> None:
    cluster.updates = [JobSeen(RUNNING), JobOutput(b"step 1\n"), KeyboardInterrupt()]
    output = air(*SUBMIT, "--", "x")
    assert (output.code, output.out) == (130, "step 1\n")
    assert output.err.endswith(
        "Stopped following. The job goes on: air ray job logs -p ray raysubmit_U6KB\n"
        "  to end it: air ray job stop -p ray raysubmit_U6KB\n"
    )


def test_ctrl_c_before_it_was_submitted_says_where_to_look(air: Air, cluster: MadeJobs) -> None:
    cluster.refusal = KeyboardInterrupt()
    output = air(*SUBMIT, "--", "x")
    assert output.code == 130
    assert "Interrupted while submitting.\n  air ray job list -p ray" in output.err


def test_a_connection_that_breaks_is_told_and_the_log_goes_on(air: Air, cluster: MadeJobs) -> None:
    cluster.updates = [
        JobSeen(RUNNING),
        JobOutput(b"a\n"),
        ConnectionLost(RayUnreachableError("http://head:8265 refuses the connection")),
        ConnectionFound(),
        JobOutput(b"b\n"),
        JobSeen(SUCCEEDED),
        OutputLost(RayAnswerError("no such node", status=500)),
    ]
    output = air(*SUBMIT, "--", "x")
    assert output.out == "a\nb\n"
    assert output.err.splitlines()[1:] == [
        "! http://head:8265 refuses the connection: asking again",
        "! the cluster answers again",
        "! the end of the log cannot be read: no such node",
        "✓ SUCCEEDED  in 42s",
    ]


def test_without_waiting_the_id_alone_is_on_stdout(air: Air, cluster: MadeJobs) -> None:
    output = air(*SUBMIT, "--no-wait", "--", "x")
    assert (output.code, output.out) == (0, "raysubmit_U6KB\n")
    assert "follow   air ray job logs -p ray raysubmit_U6KB" in output.err
    assert air(*SUBMIT, "--no-wait", "--json", "--", "x").data() == {
        "submission_id": "raysubmit_U6KB",
        "url": "http://head:8265",
    }
    assert cluster.known_bytes is None


def test_code_that_was_sent_is_told_with_what_was_left_out(air: Air, cluster: MadeJobs) -> None:
    sent = CodeSent(".", "gcs://_ray_pkg_a1f3c9e2ffff.zip", 142, 1_200_000, 400_000, True, ("x is no file",))
    cluster.code = (sent, replace(sent, source="lib", uploaded=False, skipped=()))
    cluster.updates = [JobSeen(SUCCEEDED)]
    assert air(*SUBMIT, "--", "x").err.splitlines()[:3] == [
        "✓ code  .  a1f3c9e2  142 files, 1.2 MB  sent",
        "! left out: x is no file",
        "✓ code  lib  a1f3c9e2  142 files, 1.2 MB  on the cluster already",
    ]


def test_in_json_each_event_is_a_line_and_the_job_comes_last(air: Air, cluster: MadeJobs) -> None:
    cluster.updates = [
        JobSeen(PENDING),
        JobWaits("starts"),
        JobSeen(RUNNING),
        JobOutput(b"a\xff\nb"),
        JobSeen(FAILED),
    ]
    output = air(*SUBMIT, "--json", "--", "x")
    events = [{key: value for key, value in line.items() if key != "ts"} for line in output.lines()[:-1]]
    assert events == [
        {"type": "SUBMITTED", "submission_id": "raysubmit_U6KB", "url": "http://head:8265"},
        {"type": "STATUS", "status": "PENDING", "previous_status": None},
        {"type": "WAITING", "reason": "starts"},
        {"type": "STATUS", "status": "RUNNING", "previous_status": "PENDING"},
        {"type": "LOG", "line": "a\ufffd"},
        {"type": "STATUS", "status": "FAILED", "previous_status": "RUNNING"},
        {"type": "LOG", "line": "b"},
    ]
    assert output.code == 3
    assert output.data()["exit_code"] == 3
    assert output.data()["submission_id"] == "raysubmit_U6KB"


def test_ctrl_c_in_json_closes_with_an_envelope(air: Air, cluster: MadeJobs) -> None:
    cluster.updates = [JobSeen(RUNNING), KeyboardInterrupt()]
    output = air(*SUBMIT, "--json", "--", "x")
    assert output.code == 130
    assert (output.data()["status"], output.data()["watching"]) == ("RUNNING", False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "COMMAND is missing"),
        (("--",), "COMMAND is missing"),
        (("--runtime-env", "f", "--runtime-env-json", "{}", "--", "x"), "exclude each other"),
        (("--runtime-env-json", "{a", "--", "x"), "--runtime-env-json is not JSON"),
        (("--metadata", "team", "--", "x"), "--metadata: expected KEY=VALUE or JSON, got 'team'"),
        (("--metadata", '{"a": 1}', "--", "x"), "--metadata: a: expected text, got 1"),
        (("--entrypoint-resources", '{"a": "1"}', "--", "x"), "--entrypoint-resources: a: expected a number"),
        (("--entrypoint-num-gpus", "many", "--", "x"), "expected a number such as 2 or 0.5, got 'many'"),
        (("--entrypoint-memory", "16XB", "--", "x"), "expected a size such as 16GB"),
        (("--submission-id", "a/b", "--", "x"), "expected letters, digits"),
        (("--working-dri", ".", "--", "x"), "unknown option --working-dri"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_asked(
    air: Air, cluster: MadeJobs, options: tuple[str, ...], words: str
) -> None:
    output = air(*SUBMIT, *options)
    assert output.code == 2
    assert words in output.err
    assert cluster.targets == []


def test_a_line_for_a_shell_in_one_word_is_remarked_on(air: Air, cluster: MadeJobs) -> None:
    cluster.updates = [JobSeen(SUCCEEDED)]
    output = air(*SUBMIT, "--", "python train.py && echo done")
    assert "is one word, and so the name of a program. A line for the shell is written -- bash -c 'LINE'" in output.err


def test_a_mistyped_field_of_the_runtime_environment_is_remarked_on(air: Air, cluster: MadeJobs) -> None:
    cluster.updates = [JobSeen(SUCCEEDED)]
    output = air(*SUBMIT, "--runtime-env-json", '{"env_var": {}, "my_plugin": 1}', "--", "x")
    assert "! runtime environment: Ray does not know env_var. Did you mean env_vars?\n" in output.err
    assert "my_plugin" not in output.err


def test_what_can_never_be_placed_is_told_with_its_numbers(air: Air, cluster: MadeJobs) -> None:
    cluster.refusal = CapacityError("no node has 8 GPUs", hint="ask for less")
    output = air(*SUBMIT, "--", "x")
    assert (output.code, output.out, output.err) == (1, "", "no node has 8 GPUs\n  ask for less\n")


@pytest.mark.parametrize(
    ("text", "expected"), [("1", 1.0), ("0.25", 0.25), ("0", 0.0), ("-1", None), ("inf", None), ("nan", None)]
)
def test_amounts_are_numbers_that_can_be(text: str, expected: float | None) -> None:
    with contextlib.nullcontext() if expected is not None else pytest.raises(Exception, match="expected a number"):
        assert amount(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1024", 1024), ("16GB", 16 * 10**9), ("1.5G", 15 * 10**8), ("512MiB", 512 << 20), ("1Ki", 1024), ("2kB", 2000)],
)
def test_sizes_are_in_bytes_or_their_units(text: str, expected: int) -> None:
    assert memory_bytes(text) == expected


def test_ids_are_those_that_can_be_part_of_a_files_name() -> None:
    assert submission_id("My_job-1.2") == "My_job-1.2"


def test_the_list_shows_jobs_and_drivers(air: Air, cluster: MadeJobs) -> None:
    cluster.jobs = [PENDING, FAILED, DRIVER, replace(PENDING, submission_id="x", started_at=None)]
    assert air("ray", "job", "list").out.splitlines() == [
        "JOB             STATUS   STARTED  DURATION  ENTRYPOINT",
        "raysubmit_U6KB  PENDING  1m ago   1m 00s    python train.py",
        "raysubmit_U6KB  FAILED   1m ago   42s       python train.py",
        "01000000        RUNNING  2h ago   2h 00m    (driver) python notebook.py",
        "x               PENDING  -        -         python train.py",
    ]


def test_the_list_is_filtered_by_state_and_cut(air: Air, cluster: MadeJobs) -> None:
    cluster.jobs = [PENDING, FAILED, DRIVER]
    assert air("ray", "job", "list", "-q", "--status", "running", "--status", "FAILED").out == (
        "raysubmit_U6KB\n01000000\n"
    )
    assert air("ray", "job", "list", "-q", "--limit", "1").out == "raysubmit_U6KB\n"
    assert air("ray", "job", "list", "--status", "STOPPED").err == "No job matches.\n"
    cluster.jobs = []
    assert air("ray", "job", "list").err == "There are no jobs.\n  air ray job submit -p ray -- COMMAND\n"


def test_the_list_in_json_has_nulls_where_ray_says_nothing(air: Air, cluster: MadeJobs) -> None:
    cluster.jobs = [PENDING, DRIVER]
    first, second = air("ray", "job", "list", "--json").data()["jobs"]
    assert (first["job_id"], first["ended_at"], first["exit_code"], first["driver_node_id"]) == (None,) * 4
    assert (second["submission_id"], second["job_id"], second["metadata"]) == (None, "01000000", {})


def test_the_page_of_a_job_shows_the_lines_that_say_why_it_failed(air: Air, cluster: MadeJobs) -> None:
    cluster.jobs = [replace(FAILED, metadata={"team": "nlp"})]
    assert air("ray", "job", "status", "@last").out.splitlines() == [
        "job          raysubmit_U6KB",
        "status       FAILED  exited with code 3",
        "entrypoint   python train.py",
        "submitted    2026-11-30 10:32:07 (1m ago)",
        "ran          42s",
        "driver       job 02000000 on node 160eb3ce",
        "metadata     team=nlp",
        "logs         air ray job logs -p ray raysubmit_U6KB",
        "",
        "  Traceback (most recent call last):",
        "  KeyError: 'x'",
    ]


def test_the_page_of_a_job_that_waits_says_why(air: Air, cluster: MadeJobs) -> None:
    assert "status       PENDING  sets up the runtime environment" in air("ray", "job", "status", PENDING.id).out
    cluster.jobs = [DRIVER]
    assert "01000000  a driver that was not submitted" in air("ray", "job", "status", "@last").out


def test_a_job_that_nobody_knows_is_an_error(air: Air, cluster: MadeJobs) -> None:
    del cluster
    output = air("ray", "job", "status", "nope", "--json")
    assert (output.code, output.error()["code"]) == (1, "NOT_FOUND")


def test_stopping_waits_for_the_end_and_says_what_had_ended_before(air: Air, cluster: MadeJobs) -> None:
    cluster.jobs = [RUNNING, replace(SUCCEEDED, submission_id="old")]
    output = air("ray", "job", "stop", RUNNING.id, "old")
    assert output.code == 0
    assert output.err.startswith("✓ raysubmit_U6KB STOPPED  in 0.")
    assert output.err.endswith("\nold has ended: SUCCEEDED\n")
    assert air("ray", "job", "stop", RUNNING.id, "--no-wait").err == "✓ raysubmit_U6KB was asked to stop\n"
    assert [job["status"] for job in air("ray", "job", "stop", RUNNING.id, "--json").data()["jobs"]] == ["STOPPED"]


def test_a_job_that_has_not_started_cannot_be_stopped_yet(air: Air, cluster: MadeJobs) -> None:
    cluster.jobs = [PENDING]
    assert air("ray", "job", "stop", PENDING.id).err == (
        "! raysubmit_U6KB was asked to stop. It has not started yet: Ray ends it when it does\n"
    )


LOGS = ("ray", "job", "logs")


def test_logs_follow_with_the_exit_code_of_the_command(air: Air, cluster: MadeJobs) -> None:
    cluster.updates = [JobSeen(RUNNING), JobOutput(b"a\n"), JobSeen(FAILED)]
    output = air(*LOGS, "@last")
    assert (output.code, output.out, cluster.known_bytes) == (3, "a\n", 0)


def test_the_last_lines_come_first_and_nothing_of_them_twice(air: Air, cluster: MadeJobs) -> None:
    cluster.last = LastLines((b"a\n", b"b\n"), 1234)
    cluster.updates = [JobSeen(RUNNING), JobOutput(b"c\n"), JobSeen(SUCCEEDED)]
    output = air(*LOGS, "@last", "--lines", "2", "-f")
    assert (output.out, cluster.known_bytes) == ("a\nb\nc\n", 1234)


def test_logs_that_are_not_followed_end_with_what_there_is(air: Air, cluster: MadeJobs) -> None:
    cluster.jobs = [RUNNING]
    assert air(*LOGS, "@last", "--no-follow").out == "what there is\n"
    cluster.last = LastLines((b"b\n",), 10)
    assert air(*LOGS, "@last", "--no-follow", "--lines", "1").out == "b\n"
    in_json = air(*LOGS, "@last", "--no-follow", "--json")
    assert [line.get("line") for line in in_json.lines()[:-1]] == ["what there is"]
    assert in_json.data()["status"] == "RUNNING"


def test_a_job_without_a_log_says_so(air: Air, cluster: MadeJobs) -> None:
    assert "has written nothing: no node has run it (PENDING)" in air(*LOGS, "@last", "--no-follow").err
    cluster.jobs = [DRIVER]
    output = air(*LOGS, "01000000")
    assert (output.code, "Ray keeps no log of it" in output.err) == (2, True)
    assert air(*LOGS, "x", "-f", "--no-follow").code == 2


def test_the_reason_of_an_error_is_in_the_envelope(air: Air, cluster: MadeJobs) -> None:
    cluster.updates = [JobSeen(RUNNING), RayUnreachableError("http://head:8265 does not answer within 10 s")]
    output = air(*SUBMIT, "--json", "--", "x")
    assert output.error()["retryable"] is True
    assert output.error()["hint"] == "the job may go on: air ray job logs -p ray raysubmit_U6KB"
    assert json.loads(output.out.splitlines()[-1])["v"] == 1

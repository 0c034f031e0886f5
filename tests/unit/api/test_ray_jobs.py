"""Jobs by the beginning of their ids, their last lines, and the code that goes with them, on a made cluster."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from airlane.api.ray_job_code import send_code
from airlane.api.ray_jobs import JobSubmission, RayJobs
from airlane.api.ray_target import Reached
from airlane.cluster.jobs import Jobs, JobState, RayJob
from airlane.cluster.rest import Dashboard
from airlane.cluster.status import NODES
from airlane.errors import ArgumentError, CapacityError, NotFoundError, SnapshotError

JOB = RayJob("raysubmit_U6KBmkEr", None, JobState.RUNNING, "echo", started_at=3.0, driver_node_id="n")
OTHER = replace(JOB, submission_id="raysubmit_U6xx", started_at=2.0)
DRIVER = RayJob(None, "02000000", JobState.RUNNING, started_at=4.0)


@dataclass
class MadeJobs:
    jobs: tuple[RayJob, ...] = (DRIVER, JOB, OTHER)
    packages: dict[str, list[str]] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)
    log_pieces: tuple[bytes, ...] = ()
    stopped: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def get(self, name: str) -> RayJob | None:
        return next((job for job in self.jobs if name in (job.submission_id, job.job_id)), None)

    def list(self) -> tuple[RayJob, ...]:
        return self.jobs

    def log(self, _job: RayJob, **_: int) -> Iterator[bytes]:
        return iter(self.log_pieces)

    def stop(self, submission_id: str) -> bool:
        self.stopped.append(submission_id)
        return True

    def submit(self, request: Any) -> str:
        del request
        return "raysubmit_new"

    def has(self, uri: str) -> bool:
        return uri in self.there

    def upload(self, uri: str, path: Path, progress: Any) -> None:
        progress(1, 1)
        self.there.add(uri)
        self.packages[uri] = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else [path.read_text()]


@pytest.fixture
def made() -> MadeJobs:
    return MadeJobs()


@pytest.fixture
def jobs(made: MadeJobs) -> RayJobs:
    found = RayJobs(Reached(Dashboard("http://head:8265"), " -p ray"), {})
    found._jobs = cast("Jobs", made)
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("raysubmit_U6KBmkEr", JOB),
        ("raysubmit_U6K", JOB),
        ("U6K", JOB),
        ("U6x", OTHER),
        ("02000000", DRIVER),
        ("02", DRIVER),
        ("@last", JOB),
    ],
)
def test_a_job_is_found_by_the_beginning_of_its_id(jobs: RayJobs, name: str, expected: RayJob) -> None:
    assert jobs.find(name) is expected


def test_an_id_that_is_the_beginning_of_another_is_found_by_itself(made: MadeJobs, jobs: RayJobs) -> None:
    made.jobs = (replace(JOB, submission_id="train-1"), replace(JOB, submission_id="train"))
    assert jobs.find("train").id == "train"


def test_a_beginning_of_several_is_not_guessed(jobs: RayJobs) -> None:
    with pytest.raises(NotFoundError, match="2 jobs begin with U6") as caught:
        jobs.find("U6")
    assert "raysubmit_U6KBmkEr" in str(caught.value.hint)
    assert "raysubmit_U6xx" in str(caught.value.hint)


def test_a_mistyped_id_has_a_guess(jobs: RayJobs) -> None:
    with pytest.raises(NotFoundError, match="no job U6KBmkEx") as caught:
        jobs.find("U6KBmkEx")
    assert caught.value.hint == "Did you mean `U6KBmkEr`?\nair ray job list -p ray"


def test_where_no_job_was_submitted_there_is_no_last_one(made: MadeJobs, jobs: RayJobs) -> None:
    made.jobs = (DRIVER,)
    with pytest.raises(NotFoundError, match="no job was submitted"):
        jobs.find("@last")


def test_a_driver_that_was_not_submitted_cannot_be_stopped(made: MadeJobs, jobs: RayJobs) -> None:
    with pytest.raises(ArgumentError, match="02000000 is a driver"):
        jobs.stop(DRIVER)
    assert jobs.stop(JOB)
    assert not jobs.stop(replace(JOB, state=JobState.FAILED))
    assert made.stopped == [JOB.id]


def test_waiting_for_the_end_asks_until_it_has_come(made: MadeJobs, jobs: RayJobs) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            made.jobs = (replace(JOB, state=JobState.STOPPED),)

    assert jobs.wait_until_ended(JOB, wait=wait).state is JobState.STOPPED
    assert len(waits) == 3
    made.jobs = ()
    with pytest.raises(NotFoundError, match="no longer knows job"):
        jobs.wait_until_ended(JOB, wait=waits.append)


def test_a_job_that_cannot_be_stopped_before_it_has_started_is_waited_for_some_seconds(
    made: MadeJobs, jobs: RayJobs
) -> None:
    pending = replace(JOB, state=JobState.PENDING)
    made.jobs = (pending,)
    waits: list[float] = []
    assert jobs.wait_until_ended(pending, wait=waits.append).state is JobState.PENDING
    assert sum(waits) == pytest.approx(5)


@pytest.mark.parametrize(
    ("pieces", "count", "lines"),
    [
        ((b"a\nb", b"\nc\n"), 2, (b"b\n", b"c\n")),
        ((b"a\nb\nc",), 2, (b"b\n", b"c")),
        ((b"a\n",), 5, (b"a\n",)),
        ((), 5, ()),
        ((b"Running entrypoint for job raysubmit_U6KBmkEr: echo\nhi\n",), 5, (b"hi\n",)),
    ],
)
def test_the_last_lines_are_those_of_the_job_and_all_bytes_before_are_known(
    made: MadeJobs, jobs: RayJobs, pieces: tuple[bytes, ...], count: int, lines: tuple[bytes, ...]
) -> None:
    made.log_pieces = pieces
    found = jobs.last_lines(JOB, count)
    assert (found.lines, found.known_bytes) == (lines, sum(map(len, pieces)))


def test_a_job_that_no_node_has_run_has_no_output(jobs: RayJobs) -> None:
    waiting = replace(JOB, driver_node_id=None)
    assert b"".join(jobs.output(waiting)) == b""
    assert jobs.last_lines(waiting, 3).lines == ()


def sent(made: MadeJobs, env: dict[str, Any], **variables: str) -> dict[str, Any]:
    found, _ = send_code(cast("Jobs", made), env, variables, lambda *_: None)
    return found


def test_a_folder_is_sent_once_and_stands_by_its_address(made: MadeJobs, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("1")
    (tmp_path / "y.log").write_text("1")
    env = {"working_dir": str(tmp_path), "excludes": ["*.log"], "env_vars": {"A": "b"}}
    found, first = send_code(cast("Jobs", made), env, {}, lambda *_: None)
    _, second = send_code(cast("Jobs", made), env, {}, lambda *_: None)
    assert found == {**env, "working_dir": first[0].uri}
    assert made.packages == {first[0].uri: ["x.py"]}
    assert (first[0].uploaded, second[0].uploaded, first[0].uri == second[0].uri) == (True, False, True)


@pytest.mark.parametrize("code", ["s3://bucket/code.zip", "local:///code", "gcs://_ray_pkg_1.zip"])
def test_an_address_is_left_as_it_is(made: MadeJobs, code: str) -> None:
    assert sent(made, {"working_dir": code, "py_modules": [code]}) == {"working_dir": code, "py_modules": [code]}


def test_rays_own_settings_of_what_stays_out_count(made: MadeJobs, tmp_path: Path) -> None:
    for name in ("venv/x", "node_modules/x", "run.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    (tmp_path / ".gitignore").write_text("*.log\n")
    settings = {
        "RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES": "node_modules, .git",
        "RAY_RUNTIME_ENV_IGNORE_GITIGNORE": "1",
    }
    uri = sent(made, {"working_dir": str(tmp_path)}, **settings)["working_dir"]
    assert made.packages[uri] == [".gitignore", "run.log", "venv/x"]


@pytest.mark.parametrize(
    ("name", "end"), [("c.zip", ".zip"), ("c.tar.gz", ".tar.gz"), ("c.tgz", ".tar.gz"), ("c.tar.xz", ".tar.xz")]
)
def test_a_package_is_sent_as_it_is_and_named_by_its_content(
    made: MadeJobs, tmp_path: Path, name: str, end: str
) -> None:
    (tmp_path / name).write_text("content")
    uri = sent(made, {"working_dir": str(tmp_path / name)})["working_dir"]
    assert uri.endswith(end)
    assert made.packages == {uri: ["content"]}
    (tmp_path / name).write_text("other")
    assert sent(made, {"working_dir": str(tmp_path / name)})["working_dir"] != uri


def test_modules_are_packed_as_python_wants_to_find_them(made: MadeJobs, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "__init__.py").write_text("")
    (tmp_path / "one.py").write_text("")
    uris = sent(made, {"py_modules": [str(tmp_path / "lib"), str(tmp_path / "one.py")]})["py_modules"]
    assert [made.packages[uri] for uri in uris] == [["lib/__init__.py"], ["one.py"]]


@pytest.mark.parametrize(
    ("name", "begins"), [("pkg-1.0-py3-none-any.whl", "pkg-1.0-0."), ("pkg-1.0-7-py3-none-any.whl", "pkg-1.0-7.")]
)
def test_a_wheel_that_was_built_anew_in_the_same_version_has_another_name(
    made: MadeJobs, tmp_path: Path, name: str, begins: str
) -> None:
    wheel = tmp_path / name
    uris = []
    for content in ("old", "new"):
        wheel.write_text(content)
        uris += sent(made, {"py_modules": [str(wheel)]})["py_modules"]
    assert len(set(uris)) == 2
    assert all(uri.startswith(f"gcs://{begins}") and uri.endswith("-py3-none-any.whl") for uri in uris)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"working_dir": "no/such"}, "working_dir no/such does not exist"),
        ({"py_modules": ["no/such"]}, "py_modules no/such does not exist"),
        ({"working_dir": "x.txt"}, "is neither a folder nor a package"),
        ({"py_modules": ["x.txt"]}, "is no folder, no .py file and no .whl file"),
    ],
)
def test_what_is_no_code_is_refused(
    made: MadeJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(ArgumentError, match=words):
        sent(made, env)
    (tmp_path / "x.whl").write_text("")
    with pytest.raises(SnapshotError, match="is not named as a wheel is"):
        sent(made, {"py_modules": ["x.whl"]})


def test_what_no_node_can_hold_is_refused_before_anything_is_sent(
    made: MadeJobs, jobs: RayJobs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [{"state": "ALIVE", "resources_total": {"CPU": 2, "GPU": 2}}]

    def answer(_dashboard: Dashboard, path: str) -> Any:
        assert path == NODES
        return {"data": {"result": {"result": rows}}}

    monkeypatch.setattr(Dashboard, "get_json", answer)
    wanted = JobSubmission(("x",), {"working_dir": str(tmp_path)}, num_gpus=8)
    with pytest.raises(CapacityError, match="has 8 GPUs"):
        jobs.submit(wanted)
    assert made.packages == {}
    assert jobs.submit(replace(wanted, may_grow=True)).submission_id == "raysubmit_new"
    assert jobs.submit(replace(wanted, num_gpus=2)).submission_id == "raysubmit_new"

"""Following a job: it ends when the job has, with every line told once, whatever becomes of connections meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from airlane.cluster import job_following
from airlane.cluster.job_following import (
    PATIENCE_S,
    ConnectionFound,
    ConnectionLost,
    JobFollower,
    JobOutput,
    JobSeen,
    JobWaits,
    OutputLost,
    Update,
)
from airlane.cluster.jobs import Jobs, JobState, RayJob
from airlane.errors import AirError, NotFoundError, RayAnswerError, RayDeniedError, RayUnreachableError

PENDING = RayJob("j", None, JobState.PENDING, "echo")
RUNNING = replace(PENDING, state=JobState.RUNNING, driver_node_id="n")
DONE = replace(RUNNING, state=JobState.SUCCEEDED, exit_code=0)
NEVER_RAN = replace(PENDING, state=JobState.FAILED, message="runtime_env setup failed")
AWAY = RayUnreachableError("http://head refuses the connection")


@dataclass
class World:
    """A cluster and a clock: `answers` are what it says of the job, the last one for ever; `log` is its whole log.

    The stream brings `streamed`, a piece each time it is asked.
    """

    answers: Sequence[RayJob | AirError | None]
    log: bytes = b""
    streamed: list[bytes] = field(default_factory=list)
    left_unread: bytes = b""
    log_errors: list[AirError] = field(default_factory=list)
    clock: float = 0.0
    asked: int = 0
    reconnected: int = 0
    closed: int = 0
    reads: list[int] = field(default_factory=list)

    # What a follower asks the cluster.

    def get(self, _job_id: str) -> RayJob | None:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if isinstance(answer, AirError):
            raise answer
        return answer

    def read_log(self, _job: RayJob, *, lines: int = -1) -> Iterator[bytes]:
        self.reads.append(lines)
        if self.log_errors:
            raise self.log_errors.pop(0)
        whole = self.log.splitlines(keepends=True)
        text = self.log if lines < 0 else b"".join(whole[-lines:])
        yield from (text[start : start + 1000] for start in range(0, len(text), 1000))

    # The reader of its log's stream.

    def take(self, timeout_s: float) -> bytes:
        if self.streamed:
            self.clock += 0.001
            return self.streamed.pop(0)
        self.clock += timeout_s
        return b""

    def reconnect(self) -> None:
        self.reconnected += 1

    def close(self) -> bytes:
        self.closed += 1
        left, self.left_unread = self.left_unread, b""
        return left

    # The clock.

    def now(self) -> float:
        return self.clock

    def wait(self, seconds: float) -> None:
        self.clock += seconds

    def follower(self, *, known_bytes: int = 0, why: Callable[[RayJob], str | None] | None = None) -> JobFollower:
        return JobFollower(
            cast("Jobs", MadeJobs(self)),
            "j",
            why=why,
            known_bytes=known_bytes,
            reader=lambda _jobs, _job, _known: self,
            now=self.now,
            wait=self.wait,
        )


@dataclass
class MadeJobs:
    """The part of a world that a follower asks for the job and its log."""

    world: World

    def get(self, job_id: str) -> RayJob | None:
        return self.world.get(job_id)

    def log(self, job: RayJob, *, lines: int = -1) -> Iterator[bytes]:
        return self.world.read_log(job, lines=lines)


def text(updates: list[Update]) -> bytes:
    return b"".join(update.data for update in updates if isinstance(update, JobOutput))


def states(updates: list[Update]) -> list[JobState]:
    return [update.job.state for update in updates if isinstance(update, JobSeen)]


def follow(world: World, known_bytes: int = 0) -> list[Update]:
    return list(world.follower(known_bytes=known_bytes).updates())


def test_states_and_lines_come_in_order_and_the_job_ends_it() -> None:
    world = World([PENDING, RUNNING, RUNNING, DONE], log=b"a\nb\n", streamed=[b"a\n", b"b\n"])
    updates = follow(world)
    assert states(updates) == [JobState.PENDING, JobState.RUNNING, JobState.SUCCEEDED]
    assert text(updates) == b"a\nb\n"
    assert world.closed


def test_what_the_stream_had_not_brought_when_the_job_ended_is_read_afterwards() -> None:
    world = World([RUNNING, DONE], log=b"a\nb\nc\n", streamed=[b"a\n"], left_unread=b"b")
    assert text(follow(world)) == b"a\nb\nc\n"


def test_a_job_that_had_ended_before_is_told_whole() -> None:
    assert text(follow(World([DONE], log=b"a\nb\n"))) == b"a\nb\n"


def test_a_job_that_no_node_has_run_ends_without_a_log() -> None:
    world = World([PENDING, NEVER_RAN], log=b"of another job")
    assert states(follow(world)) == [JobState.PENDING, JobState.FAILED]
    assert world.reads == []


def test_silence_is_no_end() -> None:
    world = World([RUNNING] * 500 + [DONE], log=b"a\n", streamed=[b"a\n"])
    assert text(follow(world)) == b"a\n"
    assert world.clock > 60


def test_what_is_known_of_the_log_is_not_told() -> None:
    world = World([RUNNING, DONE], log=b"known\nnew\n")
    assert text(follow(world, known_bytes=6)) == b"new\n"


def test_a_connection_that_breaks_is_told_once_and_the_stream_is_opened_anew() -> None:
    world = World([RUNNING, AWAY, AWAY, AWAY, RUNNING, DONE], log=b"a\nb\n", streamed=[b"a\n"])
    updates = follow(world)
    assert [type(update) for update in updates if not isinstance(update, JobOutput | JobSeen)] == [
        ConnectionLost,
        ConnectionFound,
    ]
    assert text(updates) == b"a\nb\n"
    assert world.reconnected == 1


def test_a_head_in_trouble_is_asked_again_like_one_that_is_away() -> None:
    world = World([RUNNING, RayAnswerError("the GCS is away", status=500), DONE], log=b"a\n")
    assert states(follow(world)) == [JobState.RUNNING, JobState.SUCCEEDED]


def test_lines_that_come_while_the_state_cannot_be_asked_for_are_told() -> None:
    world = World([RUNNING, AWAY, RUNNING, DONE], log=b"a\nb\n", streamed=[b"a\n", b"b\n"])
    updates = follow(world)
    assert text(updates) == b"a\nb\n"


@pytest.mark.parametrize("error", [RayDeniedError("wants a token"), RayAnswerError("bad request", status=400)])
def test_what_asking_again_does_not_help_is_an_error_at_once(error: AirError) -> None:
    world = World([RUNNING, error])
    with pytest.raises(type(error)):
        follow(world)
    assert world.closed
    assert world.clock < 1


def test_a_cluster_that_stays_away_is_given_up_after_minutes() -> None:
    world = World([RUNNING, AWAY])
    with pytest.raises(RayUnreachableError):
        follow(world)
    assert PATIENCE_S < world.clock < PATIENCE_S + 10


def test_a_cluster_that_is_known_to_be_gone_is_not_waited_for() -> None:
    world = World([RUNNING, AWAY])
    follower = JobFollower(
        cast("Jobs", MadeJobs(world)),
        "j",
        gone=lambda: NotFoundError("the cluster of run 7k2m has ended"),
        reader=lambda _jobs, _job, _known: world,
        now=world.now,
        wait=world.wait,
    )
    with pytest.raises(NotFoundError, match="7k2m has ended"):
        list(follower.updates())
    assert world.clock < 1


def test_one_answer_without_the_job_is_no_evidence_and_three_are() -> None:
    assert states(follow(World([RUNNING, None, None, DONE]))) == [JobState.RUNNING, JobState.SUCCEEDED]
    with pytest.raises(NotFoundError, match="no longer knows job j"):
        follow(World([RUNNING, None, None, None, DONE]))


def test_a_log_whose_end_cannot_be_read_at_once_is_tried_again() -> None:
    gone = RayAnswerError("the node's agent does not answer", status=500)
    world = World([RUNNING, DONE], log=b"a\nb\n", streamed=[b"a\n"], log_errors=[gone, gone])
    updates = follow(world)
    assert text(updates) == b"a\nb\n"
    assert not any(isinstance(update, OutputLost) for update in updates)


def test_a_log_that_went_with_its_node_is_told_as_lost_and_the_job_ends_all_the_same() -> None:
    gone = RayAnswerError("no such node", status=500)
    world = World([RUNNING, DONE], log=b"a\nb\n", streamed=[b"a\n"], log_errors=[gone] * 10)
    updates = follow(world)
    assert text(updates) == b"a\n"
    assert updates[-1] == OutputLost(gone)
    assert world.clock < 30


def test_a_long_log_is_not_read_twice_where_its_last_lines_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_following, "_SMALL_BYTES", 10_000)
    lines = [f"line {n}\n".encode() for n in range(5000)]
    world = World([RUNNING] * 400 + [DONE], log=b"".join(lines), streamed=list(lines))
    assert text(follow(world)) == world.log
    assert world.reads == [1000]


def test_a_long_log_is_read_on_from_where_the_stream_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_following, "_SMALL_BYTES", 10_000)
    lines = [f"line {n}\n".encode() for n in range(5000)]
    world = World([RUNNING] * 400 + [DONE], log=b"".join(lines), streamed=lines[:4000])
    assert text(follow(world)) == world.log
    assert world.reads == [1000, -1]


def test_why_a_job_waits_is_asked_now_and_then_until_a_node_runs_it() -> None:
    world = World([PENDING] * 400 + [RUNNING, DONE])
    reasons = deque(["starts", None, "starts", "waits for 2 GPUs", "waits for 2 GPUs"])
    updates = list(world.follower(why=lambda _job: reasons.popleft() if reasons else None).updates())
    waits = [update.reason for update in updates if isinstance(update, JobWaits)]
    assert waits == ["starts", "waits for 2 GPUs"]


def test_the_state_is_asked_for_often_at_first_and_each_second_later() -> None:
    world = World([RUNNING] * 100 + [DONE])
    follow(world)
    early = world.clock
    world = World([RUNNING] * 1000 + [DONE])
    follow(world)
    assert early < 10
    assert 500 < world.clock < 1000


def test_an_iterator_that_is_left_closes_the_reader() -> None:
    world = World([RUNNING], streamed=[b"a\n"])
    updates = world.follower().updates()
    while not isinstance(next(updates), JobOutput):
        pass
    updates.close()  # type: ignore[attr-defined] # it is a generator
    assert world.closed

"""The mirror's life: how long it follows, when it ends, and what it tells. The cluster and the clock are made."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.backends.ray.follower import SILENCE_S, UNWATCHED_PAUSE_S, WATCHED_S, Follower
from airlane.backends.ray.ledger import (
    LONGEST_SUBMISSION_S,
    Coming,
    JobRecord,
    Position,
    RayFiles,
    read_position,
    take,
    write_job,
    write_position,
)
from airlane.backends.ray.mirror import catch_up, ensure_mirror
from airlane.backends.ray.outbox import Outbox
from airlane.backends.ray.replica import Frame
from airlane.cluster.jobs import JobState, RayJob
from airlane.errors import RayUnreachableError
from airlane.store.paths import RunPaths

from .made_cluster import JOB, MadeCluster, MadeJobs

LOG = "attempts/0/nodes/0.log"


class Scene:
    """A run, its cluster, and its mirror; time passes only while the mirror sleeps.

    `script` says by time what happens then.
    """

    def __init__(self, folder: Path) -> None:
        self.run = RunPaths(folder / "7k2m9q4d")
        self.run.root.mkdir()
        self.files = RayFiles(self.run)
        self.record = JobRecord("http://head:8265", JOB, JOB, 1000.0)
        write_job(self.run, self.record, token=None)
        self.cluster = MadeCluster(folder / "logs")
        self.outbox = Outbox(self.cluster.logs, JOB)
        self.now = 10_000.0
        self.begun = self.now
        self.naps: list[float] = []
        self.script: dict[float, Callable[[], object]] = {}

    @property
    def elapsed(self) -> float:
        return self.now - self.begun

    def sleep(self, pause_s: float) -> None:
        self.naps.append(pause_s)
        self.now += pause_s
        assert self.elapsed < 5000, "it does not end"
        for at in [at for at in self.script if at <= self.elapsed]:
            self.script.pop(at)()

    def look(self) -> None:
        """As whoever looks at the run does."""
        self.files.wanted.touch()
        os.utime(self.files.wanted, (self.now, self.now))

    def log(self, text: bytes, offset: int = 0) -> None:
        self.outbox.put([Frame(LOG, offset, text)])

    def follower(self) -> Follower:
        return Follower(
            self.run, self.record, self.cluster, MadeJobs(self.cluster), clock=lambda: self.now, sleep=self.sleep
        )

    @property
    def arrived(self) -> bytes:
        return self.run.log(attempt=0, node=0).read_bytes()

    def coming(self) -> Coming:
        return read_position(self.files.position).coming


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_it_follows_to_the_end_of_the_run(scene: Scene) -> None:
    scene.script = {
        10: lambda: scene.log(b"one\n"),
        100: lambda: scene.log(b"two\n", 4),
        200: scene.outbox.end,
    }
    scene.follower().run()
    assert scene.arrived == b"one\ntwo\n"
    assert scene.coming() is Coming.ENDED
    assert 200 <= scene.elapsed < 210


def test_it_waits_until_it_is_known_where_the_supervisor_is(scene: Scene) -> None:
    running = scene.cluster.job
    scene.cluster.job = RayJob(JOB, None, JobState.PENDING)

    def start() -> None:
        scene.cluster.job = running

    scene.script = {30: start, 40: scene.outbox.end}
    scene.follower().run()
    assert scene.coming() is Coming.ENDED
    assert scene.cluster.asked


def test_a_job_that_never_began_has_nothing_to_bring(scene: Scene) -> None:
    scene.cluster.job = RayJob(JOB, None, JobState.FAILED)
    scene.follower().run()
    assert scene.coming() is Coming.CUT_OFF
    assert scene.cluster.asked == []


def test_a_supervisor_that_was_killed_leaves_nothing_unread(scene: Scene) -> None:
    def die() -> None:
        scene.log(b"last words\n")
        scene.cluster.end_job()

    scene.script = {20: die}
    scene.follower().run()
    assert scene.arrived == b"last words\n"
    assert scene.coming() is Coming.CUT_OFF
    assert scene.elapsed < 60


def test_a_node_that_died_with_the_supervisor_is_not_waited_for(scene: Scene) -> None:
    def die() -> None:
        scene.log(b"never read\n", 4)
        scene.cluster.node_is_there = False

    scene.log(b"one\n")
    scene.script = {20: die, 40: scene.cluster.end_job}
    scene.follower().run()
    assert scene.arrived == b"one\n"
    assert scene.coming() is Coming.CUT_OFF
    assert 40 <= scene.elapsed < 100


def test_a_node_that_cannot_be_asked_while_the_job_runs_is_evidence_of_nothing(scene: Scene) -> None:
    def come_back() -> None:
        scene.cluster.node_is_there = True
        scene.outbox.end()

    scene.cluster.node_is_there = False
    scene.script = {SILENCE_S - 50: come_back}
    scene.follower().run()
    assert scene.coming() is Coming.ENDED


def test_it_ends_when_the_cluster_has_been_silent_for_long_and_the_run_goes_on(scene: Scene) -> None:
    def vanish() -> None:
        scene.cluster.reachable = False

    scene.script = {100: vanish}
    scene.follower().run()
    assert scene.coming() is Coming.OPEN
    assert SILENCE_S <= scene.elapsed - 100 < SILENCE_S + 20


def test_it_does_not_wait_long_for_a_silent_cluster_once_the_run_was_decided(scene: Scene) -> None:
    scene.cluster.reachable = False
    scene.script = {100: lambda: scene.run.verdict.write_bytes(b"{}")}
    scene.follower().run()
    assert 100 <= scene.elapsed < 110


def test_it_ends_also_when_the_cluster_never_answered(scene: Scene) -> None:
    scene.cluster.reachable = False
    scene.follower().run()
    assert scene.coming() is Coming.OPEN
    assert SILENCE_S <= scene.elapsed < SILENCE_S + 20


def test_a_cluster_that_comes_back_in_time_is_followed_on(scene: Scene) -> None:
    def set_reachable(reachable: bool) -> None:
        scene.cluster.reachable = reachable

    for start in (50, 700, 1400):
        scene.script[start] = lambda: set_reachable(reachable=False)
        scene.script[start + 550] = lambda: set_reachable(reachable=True)
    scene.script[1990] = scene.outbox.end
    scene.follower().run()
    assert scene.coming() is Coming.ENDED


def test_a_job_that_the_cluster_does_not_know_is_over_only_when_that_is_said_twice(scene: Scene) -> None:
    def forget(times: int) -> None:
        scene.cluster.does_not_know = times

    scene.script = {20: lambda: forget(1), 200: lambda: forget(10)}
    scene.follower().run()
    assert scene.coming() is Coming.CUT_OFF
    assert scene.elapsed > 200


def test_a_job_that_is_being_submitted_is_waited_for(scene: Scene) -> None:
    known, scene.cluster.job = scene.cluster.job, None
    scene.now = scene.begun = scene.record.submitted_at

    def submit() -> None:
        scene.cluster.job = known

    scene.script = {LONGEST_SUBMISSION_S - 20: submit, LONGEST_SUBMISSION_S: scene.outbox.end}
    scene.follower().run()
    assert scene.coming() is Coming.ENDED


def test_while_somebody_looks_it_brings_everything_in_less_than_a_second(scene: Scene) -> None:
    scene.look()
    scene.script = {WATCHED_S - 1: scene.outbox.end}
    scene.follower().run()
    assert max(scene.naps) < 1
    assert scene.coming() is Coming.ENDED


def test_while_nobody_looks_it_asks_seldom(scene: Scene) -> None:
    scene.script = {300: scene.outbox.end}
    scene.follower().run()
    assert len(scene.cluster.asked) < 300 / UNWATCHED_PAUSE_S + 5


def test_who_begins_to_look_does_not_wait_for_its_pause_to_end(scene: Scene) -> None:
    seen: list[float] = []

    def look() -> None:
        scene.look()
        scene.log(b"news\n")

    def arrived() -> None:
        if scene.run.log(attempt=0, node=0).exists():
            seen.append(scene.elapsed)

    scene.script = {100: look, 110: scene.outbox.end, **{100.3 + 0.05 * n: arrived for n in range(20)}}
    scene.follower().run()
    assert seen[0] < 101


def test_it_says_for_when_all_is_here(scene: Scene) -> None:
    times: list[float] = []
    scene.look()
    scene.script = {5: lambda: times.append(scene.files.brought.stat().st_mtime), 6: scene.outbox.end}
    scene.follower().run()
    assert scene.begun + 3 < times[0] <= scene.begun + 5


def test_who_looks_at_a_run_that_waits_for_its_supervisor_is_not_kept_waiting(scene: Scene) -> None:
    scene.cluster.job = RayJob(JOB, None, JobState.PENDING)
    scene.look()
    scene.script = {10: scene.cluster.end_job}
    scene.follower().run()
    assert scene.files.brought.stat().st_mtime >= scene.begun + 9


def test_it_leaves_a_run_alone_that_somebody_has_removed(scene: Scene) -> None:
    def remove() -> None:
        shutil.rmtree(scene.run.root)

    scene.log(b"one\n")
    scene.script = {30: remove}
    scene.follower().run()
    assert scene.elapsed < 40
    assert not scene.run.root.exists()


def test_it_does_not_say_so_while_the_cluster_does_not_answer(scene: Scene) -> None:
    def vanish() -> None:
        scene.cluster.reachable = False

    scene.script = {50: vanish}
    scene.follower().run()
    assert scene.files.brought.stat().st_mtime <= scene.begun + 50


def test_bringing_once_finds_out_that_no_more_will_come(scene: Scene) -> None:
    scene.log(b"all there is\n")
    scene.follower().bring()
    assert scene.coming() is Coming.OPEN
    scene.cluster.end_job()
    scene.follower().bring()
    assert scene.arrived == b"all there is\n"
    assert scene.coming() is Coming.CUT_OFF


def test_bringing_once_ends_with_a_node_that_is_gone(scene: Scene) -> None:
    scene.cluster.node_is_there = False
    scene.cluster.end_job()
    scene.follower().bring()
    assert scene.coming() is Coming.CUT_OFF


def test_bringing_once_says_why_it_could_not(scene: Scene) -> None:
    scene.cluster.reachable = False
    with pytest.raises(RayUnreachableError):
        scene.follower().bring()


def test_what_has_not_all_been_brought_is_not_called_all(scene: Scene) -> None:
    for n in range(30):
        scene.outbox.put([Frame(LOG, 100_000 * n, os.urandom(100_000))])
    scene.cluster.end_job()
    scene.follower().bring(patience_s=0.0)
    assert scene.coming() is Coming.OPEN
    scene.follower().bring()
    assert scene.coming() is Coming.CUT_OFF
    assert len(scene.arrived) == 3_000_000


def test_no_mirror_is_started_for_a_run_that_is_no_job(tmp_path: Path) -> None:
    (tmp_path / "7k2m9q4d").mkdir()
    assert ensure_mirror(RunPaths(tmp_path / "7k2m9q4d")) is False
    assert catch_up(RunPaths(tmp_path / "7k2m9q4d")) is False


def test_no_mirror_is_started_when_no_more_can_come(scene: Scene) -> None:
    for coming in (Coming.ENDED, Coming.CUT_OFF):
        write_position(scene.files.position, Position(0, 1, coming))
        assert ensure_mirror(scene.run) is False
        assert catch_up(scene.run) is False
        assert catch_up(scene.run, to_the_end=True) is False


def test_where_no_mirror_can_be_started_there_is_none(scene: Scene) -> None:
    scene.files.log.mkdir()  # nothing can be written there, whoever this is
    assert ensure_mirror(scene.run) is False


def test_no_second_mirror_is_started_and_the_first_is_told_that_somebody_looks(scene: Scene) -> None:
    lock = take(scene.files.lock)
    assert lock is not None
    try:
        assert ensure_mirror(scene.run) is False
    finally:
        os.close(lock)
    assert time.time() - scene.files.wanted.stat().st_mtime < 60


def test_who_looks_relies_on_a_mirror_that_has_just_brought_everything(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("there was nothing to wait for"))
    lock = take(scene.files.lock)
    assert lock is not None
    try:
        scene.files.brought.touch()
        assert catch_up(scene.run) is True
    finally:
        os.close(lock)

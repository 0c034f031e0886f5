"""A run's files on their way from a real Ray cluster to the user, whatever is cut, killed or restarted on it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import airlane
from airlane.backends.ray.inbox import Inbox
from airlane.backends.ray.ledger import Coming, JobRecord, RayFiles, read_position, write_job
from airlane.backends.ray.mirror import catch_up, ensure_mirror
from airlane.backends.ray.outbox import Feed, Outbox
from airlane.backends.ray.replica import Sink, Source
from airlane.cluster.jobs import JobRequest, Jobs
from airlane.cluster.rest import Dashboard
from airlane.errors import RayAnswerError
from airlane.store.paths import RunPaths
from ray_lab import RayLab

from .cut_proxy import CutProxy

pytestmark = pytest.mark.slow

HEAD, WORKER = 0, 1
LOG = "attempts/0/nodes/0.log"
# A supervisor in little: it writes a run folder and tells of it, a line each time until it is told to end.
DRIVER = """
import sys, time
from pathlib import Path
from airlane.backends.ray.outbox import Feed, Outbox
from airlane.backends.ray.replica import Source

folder, name = Path(sys.argv[1]), sys.argv[2]
log = folder / "attempts/0/nodes/0.log"
log.parent.mkdir(parents=True)
logs = Path("/proc/self/fd/1").readlink().parent  # Ray writes a job's output there
feed = Feed(Source(folder), outbox := Outbox(logs, name))
number = 0
while not (folder / "stop").exists():
    with log.open("a") as opened:
        opened.write(f"line {number} at {time.time()}\\n")
    number += 1
    feed.move()
    time.sleep(0.1)
(folder / "stop").unlink()
(folder / "status.json").write_text('{"state": "SUCCESS"}')
while feed.move():
    pass
outbox.end()
"""


def logs_of(lab: RayLab, node: int) -> Path:
    return lab.sessions / str(node) / "session_latest" / "logs"


def wait_until(true: Callable[[], bool], *, within_s: float, what: str) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.02)


class Writer:
    """A node's side of a run, in this process: a log that grows in a folder, told through the node's outbox."""

    def __init__(self, folder: Path, logs: Path, name: str) -> None:
        self.log = folder / LOG
        self.log.parent.mkdir(parents=True)
        self._folder = folder
        self._outbox = Outbox(logs, name, part_bytes=50_000)
        self._feed = Feed(Source(folder), self._outbox)

    def write(self, text: bytes) -> None:
        with self.log.open("ab") as opened:
            opened.write(text)
        self.move()

    def move(self) -> None:
        while self._feed.move():
            pass

    def end(self) -> None:
        (self._folder / "status.json").write_text(json.dumps({"state": "SUCCESS"}))
        self.move()
        self._outbox.end()


def test_a_line_written_on_a_node_is_here_within_a_second(ray_lab: RayLab, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "node", logs_of(ray_lab, WORKER), "air-live")
    there = tmp_path / "user"
    there.mkdir()
    dashboard = Dashboard(ray_lab.url, ray_lab.token)
    inbox = Inbox(dashboard, ray_lab.node_id(WORKER), "air-live", Sink(there), there / "position.json")
    ended: list[bool] = []
    follower = threading.Thread(target=lambda: ended.append(inbox.follow(lambda: False)), daemon=True)
    follower.start()
    delays: list[float] = []
    for number in range(8):
        line = f"line {number}\n".encode()
        writer.write(line)
        written = time.monotonic()
        arrived = there / LOG
        wait_until(lambda a=arrived, e=line: a.exists() and a.read_bytes().endswith(e), within_s=10, what="a line")  # type: ignore[misc]
        delays.append(time.monotonic() - written)
        time.sleep(0.4 * (number % 4))
    writer.end()
    follower.join(timeout=10)
    assert ended == [True]
    assert sorted(delays)[len(delays) // 2] < 1.0, delays
    assert (there / LOG).read_bytes() == writer.log.read_bytes()
    assert (there / "status.json").exists()


@pytest.mark.long
def test_a_connection_cut_again_and_again_loses_nothing(ray_lab: RayLab, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "node", logs_of(ray_lab, WORKER), "air-cut")
    there = tmp_path / "user"
    there.mkdir()
    with CutProxy(urlsplit(ray_lab.url).port or 0) as proxy:
        proxy.cut_after(120_000)
        dashboard = Dashboard(proxy.url, ray_lab.token)
        inbox = Inbox(dashboard, ray_lab.node_id(WORKER), "air-cut", Sink(there), there / "position.json")
        ended: list[bool] = []
        follower = threading.Thread(target=lambda: ended.append(inbox.follow(lambda: False)), daemon=True)
        follower.start()
        for number in range(30):
            writer.write(os.urandom(20_000) + b"\n")
            if number == 15:
                proxy.refuse()
            if number == 20:
                proxy.refuse(refuses=False)
            time.sleep(0.05)
        writer.end()
        follower.join(timeout=60)
        assert ended == [True]
        assert proxy.cuts > 3
    assert (there / LOG).read_bytes() == writer.log.read_bytes()


@pytest.fixture
def own_lab(ray_python: Path, tmp_path: Path) -> Iterator[RayLab]:
    """For tests that kill."""
    (tmp_path / "lab").mkdir()
    with RayLab(tmp_path / "lab", ray_python, nodes=2, dead_after_s=2.0) as lab:
        yield lab


class JobScene:
    """A run whose supervisor (in little) is a real job, and the user's folder for it."""

    def __init__(self, lab: RayLab, python: Path, folder: Path, node: int) -> None:
        self.name = f"air-{folder.name[-12:]}-{os.urandom(3).hex()}"
        self.there = folder / "there"
        self.run = RunPaths(folder / "7k2m9q4d")
        self.run.root.mkdir()
        self.files = RayFiles(self.run)
        self.jobs = Jobs(Dashboard(lab.url, lab.token))
        program = folder / "driver.py"
        program.write_text(DRIVER)
        record = JobRecord(lab.url, self.name, self.name, time.time(), token_file=str(lab.token_file))
        write_job(self.run, record, token=lab.token)
        source = Path(airlane.__file__).parents[1]
        request = JobRequest(
            f"{python} {program} {self.there} {self.name}",
            submission_id=self.name,
            runtime_env={"env_vars": {"PYTHONPATH": str(source)}},
            resources={f"node:127.0.0.{2 + node}": 0.01},
        )
        self.jobs.submit(request)

    def end(self) -> None:
        (self.there / "stop").touch()

    @property
    def log(self) -> bytes:
        file = self.run.log(attempt=0, node=0)
        return file.read_bytes() if file.exists() else b""

    @property
    def coming(self) -> Coming:
        return read_position(self.files.position).coming

    def lines(self) -> int:
        return self.log.count(b"\n")

    def is_over(self) -> bool:
        job = self.jobs.get(self.name)
        return job is not None and job.state.terminal

    def mirrors(self) -> list[int]:
        """The processes that mirror this run."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    if b"airlane.backends.ray.mirror" in words and str(self.run.root).encode() in words:
                        found.append(int(entry.name))
        return found

    def wait_for_lines(self, count: int) -> None:
        wait_until(lambda: self.lines() >= count, within_s=60, what=f"{count} lines")


def test_a_mirror_outlives_its_starter_and_its_own_death_and_ends_with_the_run(
    ray_lab: RayLab, ray_python: Path, tmp_path: Path
) -> None:
    scene = JobScene(ray_lab, ray_python, tmp_path, WORKER)
    assert ensure_mirror(scene.run) is True
    scene.wait_for_lines(3)
    assert ensure_mirror(scene.run) is False
    (pid,) = scene.mirrors()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not scene.mirrors(), within_s=10, what="the mirror is gone")
    before = scene.lines()
    assert catch_up(scene.run) is True
    assert scene.lines() >= before
    assert ensure_mirror(scene.run) is True
    scene.wait_for_lines(before + 20)
    scene.end()
    assert catch_up(scene.run) is True
    wait_until(lambda: scene.coming is Coming.ENDED, within_s=20, what="the end")
    wait_until(lambda: not scene.mirrors(), within_s=10, what="the mirror ends")
    assert scene.log == (scene.there / LOG).read_bytes()
    assert json.loads(scene.run.status.read_bytes()) == {"state": "SUCCESS"}
    assert scene.files.log.read_bytes() == b""
    assert ensure_mirror(scene.run) is False


@pytest.mark.long
def test_two_mirrors_started_at_once_become_one(ray_lab: RayLab, ray_python: Path, tmp_path: Path) -> None:
    scene = JobScene(ray_lab, ray_python, tmp_path, HEAD)
    started = [ensure_mirror(scene.run) for _ in range(4)]
    assert started[0] is True
    scene.wait_for_lines(5)
    wait_until(lambda: len(scene.mirrors()) == 1, within_s=10, what="one mirror")
    scene.end()
    wait_until(lambda: scene.coming is Coming.ENDED, within_s=20, what="the end")
    wait_until(lambda: not scene.mirrors(), within_s=10, what="the mirror ends")


def test_what_a_killed_supervisor_wrote_is_here_before_its_job_is_called_dead(
    ray_lab: RayLab, ray_python: Path, tmp_path: Path
) -> None:
    scene = JobScene(ray_lab, ray_python, tmp_path, WORKER)
    log = scene.there / LOG
    wait_until(lambda: log.exists() and log.read_bytes().count(b"\n") > 5, within_s=60, what="the supervisor runs")
    program = f"{tmp_path}/driver.py".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if program in (entry / "cmdline").read_bytes().split(b"\0")[1:2]:
                    os.kill(int(entry.name), signal.SIGKILL)
    wait_until(scene.is_over, within_s=60, what="Ray knows that the job is over")
    assert catch_up(scene.run, to_the_end=True) is True
    assert scene.coming is Coming.CUT_OFF
    written = log.read_bytes()
    # It may have been killed between a line and the telling of it.
    assert written.startswith(scene.log)
    assert written.count(b"\n") - scene.lines() <= 1


def test_what_came_from_a_node_stays_when_the_node_has_died(own_lab: RayLab, ray_python: Path, tmp_path: Path) -> None:
    scene = JobScene(own_lab, ray_python, tmp_path, WORKER)
    assert ensure_mirror(scene.run) is True
    scene.wait_for_lines(5)
    before = scene.log
    own_lab.kill_node(WORKER)
    wait_until(scene.is_over, within_s=90, what="Ray knows that the job is over")
    assert catch_up(scene.run, to_the_end=True) is True
    assert scene.coming is Coming.CUT_OFF
    assert scene.log.startswith(before)
    wait_until(lambda: not scene.mirrors(), within_s=10, what="the mirror ends")
    node_id = "0" * 56
    inbox = Inbox(Dashboard(own_lab.url, own_lab.token), node_id, "x", Sink(tmp_path), tmp_path / "p.json")
    with pytest.raises(RayAnswerError, match="doesn't exist"):
        inbox.sync()


@pytest.mark.long
def test_a_mirror_costs_next_to_nothing(ray_lab: RayLab, ray_python: Path, tmp_path: Path) -> None:
    scene = JobScene(ray_lab, ray_python, tmp_path, HEAD)
    ensure_mirror(scene.run)
    scene.wait_for_lines(2)
    (pid,) = scene.mirrors()
    status = Path(f"/proc/{pid}/status").read_text()
    resident_kib = int(status.partition("VmRSS:")[2].split()[0])
    begun, used = time.monotonic(), cpu_seconds(pid)
    time.sleep(5)  # what it costs is what is measured
    share = (cpu_seconds(pid) - used) / (time.monotonic() - begun)
    scene.end()
    wait_until(lambda: scene.coming is Coming.ENDED, within_s=20, what="the end")
    print(f"a mirror that is busy: {share:.2%} of a core, {resident_kib // 1024} MiB", file=sys.stderr)
    assert resident_kib < 64 << 10
    assert share < 0.05


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

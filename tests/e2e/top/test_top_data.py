"""What `air top` knows of a real Ray cluster is what Ray itself says of it, whatever becomes of its nodes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from airlane.cluster.jobs import JobRequest, Jobs
from airlane.cluster.rest import Dashboard
from airlane.top.head import Head
from airlane.top.values import Snapshot
from ray_lab import RayLab

# Actors that wait for more than there is die without ever having been a process, so that many cost little.
WORKLOAD = """
import time, ray
from ray.util.placement_group import placement_group
ray.init()
ray.get(placement_group([{"CPU": 0.1}, {"CPU": 0.1}], strategy="SPREAD", name="placed").ready())
too_big = placement_group([{"CPU": 64}], name="too-big")
@ray.remote(num_cpus=0.1)
class Worker:
    def ping(self):
        return 1
@ray.remote(num_cpus=50)
class Greedy:
    pass
workers = [Worker.remote() for _ in range(2)]
ray.get([worker.ping.remote() for worker in workers])
for greedy in [Greedy.remote() for _ in range(147)]:
    ray.kill(greedy)
waits = Greedy.options(name="waits").remote()
print("ready", flush=True)
time.sleep(600)
"""
RAYS_OWN_WORDS = """
import collections, json
from ray.util.state import list_actors, list_jobs, list_nodes, list_placement_groups
print("\\n" + json.dumps({
    "nodes": {node.node_id: node.state for node in list_nodes(limit=10000)},
    "actors": sorted([a.class_name, a.state] for a in list_actors(limit=10000)),
    "groups": {group.name: group.state for group in list_placement_groups(limit=10000)},
    "jobs": {job.submission_id or job.job_id: job.status for job in list_jobs(limit=10000)},
}))
"""


def dashboard(lab: RayLab, url: str | None = None) -> Dashboard:
    return Dashboard(url or lab.url, lab.token or None)


def until(head: Head, true: Callable[[Snapshot], object], *, within_s: float) -> Snapshot:
    """Rounds, until one is as wanted."""

    async def look() -> Snapshot:
        deadline = time.monotonic() + within_s
        while not true(snapshot := await head.snapshot()):
            assert time.monotonic() < deadline, snapshot
            await asyncio.sleep(0.25)
        return snapshot

    return asyncio.run(look())


def rays_own_words(lab: RayLab, python: Path) -> dict[str, Any]:
    env = {**os.environ, **lab.env}
    done = subprocess.run(
        [str(python), "-c", RAYS_OWN_WORDS], check=False, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture
def busy_lab(ray_lab: RayLab) -> Iterator[tuple[RayLab, str]]:
    """The cluster with a job that has most of 150 actors dead; and the job's id."""
    jobs = Jobs(dashboard(ray_lab))
    job_id = jobs.submit(JobRequest(shlex.join(["python", "-c", WORKLOAD]), metadata={"team": "nlp"}))
    try:
        yield ray_lab, job_id
    finally:
        jobs.stop(job_id)
        deadline = time.monotonic() + 60
        while not (job := jobs.get(job_id)) or not job.state.terminal:
            assert time.monotonic() < deadline, job
            time.sleep(0.2)


@pytest.mark.slow
def test_every_panel_is_what_ray_itself_says(busy_lab: tuple[RayLab, str], ray_python: Path) -> None:
    lab, job_id = busy_lab
    head = Head(dashboard(lab), patience_s=20.0)
    log: list[str] = []

    def all_there(snapshot: Snapshot) -> bool:
        waits = [actor for actor in snapshot.actors.data.living if actor.name == "waits"]
        return bool(waits and snapshot.load.data.demands and sum(c.total for c in snapshot.actors.data.classes) >= 150)

    until(head, all_there, within_s=120)
    time.sleep(1)
    said = rays_own_words(lab, ray_python)
    snapshot = until(head, lambda _: True, within_s=20)
    assert {name: panel.trouble for name, panel in snapshot.panels.items() if panel.trouble} == {}
    assert {node.id: node.state for node in snapshot.nodes.data} == said["nodes"]
    counted = [
        [one.name, state]
        for one in snapshot.actors.data.classes
        for state, count in one.states.items()
        for _ in range(count)
    ]
    assert sorted(counted) == said["actors"]
    assert {group.name: group.state for group in snapshot.groups.data} == said["groups"]
    assert {job.id: job.state for job in snapshot.jobs.data} == said["jobs"]
    (waits,) = [actor for actor in snapshot.actors.data.living if actor.name == "waits"]
    assert (waits.state, waits.why) == ("PENDING_CREATION", "needs 50 CPUs: no node has more than 2")
    (too_big,) = [group for group in snapshot.groups.data if group.name == "too-big"]
    assert too_big.why == "asks for more than there is"
    assert {"CPU": 50.0} in [demand.shape for demand in snapshot.load.data.demands]
    (job,) = [job for job in snapshot.jobs.data if job.id == job_id]
    assert (job.state, job.ended_at, job.metadata["team"]) == ("RUNNING", None, "nlp")
    assert all(node.measures.cpu is not None and not node.stale for node in snapshot.nodes.data if node.alive)
    head_node = next(node for node in snapshot.nodes.data if node.head)
    panel = asyncio.run(head.node(head_node.id))
    assert any("DashboardAgent" in process.what for process in panel.data.processes), panel

    async def read() -> None:
        following = asyncio.create_task(head.follow_job_log(job_id, log.append))
        async with asyncio.timeout(30):
            while "ready" not in "".join(log):  # noqa: ASYNC110 # what is waited for is text
                await asyncio.sleep(0.1)
        assert await head.stop_job(job_id) == f"{job_id} was asked to stop"
        async with asyncio.timeout(60):
            assert await following is None

    asyncio.run(read())
    until(head, lambda now: {job.id: job.state for job in now.jobs.data}[job_id] == "STOPPED", within_s=30)
    head.close()


class Gate:
    """A door to a port that can be shut: what is open is cut, and nobody answers."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (str(parts.hostname), int(parts.port or 0))
        self._open: list[socket.socket] = []
        self._listening: socket.socket | None = None
        self.port = 0
        self.open()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, args=(self._listening,), daemon=True).start()

    def shut(self) -> None:
        assert self._listening is not None
        for sock in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._open.clear()

    def _serve(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.create_connection(self._target)
                self._open += (near, far)
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
    for sock in (one, other):
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow
def test_a_way_that_is_cut_and_opened_again_loses_nothing(ray_lab: RayLab) -> None:
    gate = Gate(ray_lab.url)
    head = Head(dashboard(ray_lab, gate.url), patience_s=10.0)
    before = until(head, lambda now: now.nodes.data and now.answers, within_s=20)
    gate.shut()
    away = until(head, lambda now: not now.answers, within_s=20)
    assert away.trouble == "refuses the connection"
    assert away.nodes.data == before.nodes.data
    gate.open()
    back = until(head, lambda now: now.answers and not now.nodes.trouble, within_s=20)
    assert (back.nodes.at or 0) > (before.nodes.at or 0)
    head.close()
    gate.shut()


@pytest.mark.long
def test_a_node_that_hangs_one_that_is_killed_and_one_that_joins_are_told_so(tmp_path: Path, ray_python: Path) -> None:
    with RayLab(tmp_path, ray_python, nodes=3) as lab:
        head = Head(dashboard(lab), patience_s=10.0)
        first, second = lab.node_id(1), lab.node_id(2)

        def states(now: Snapshot) -> dict[str, str]:
            return {node.id: "stale" if node.stale else node.state for node in now.nodes.data}

        until(head, lambda now: states(now).get(second) == "ALIVE", within_s=30)
        began = time.monotonic()
        lab.hang_node(2)
        until(head, lambda now: states(now)[second] == "stale", within_s=30)
        assert time.monotonic() - began < 12.0  # ten seconds after its agent's last word, and a round
        lab.wake_node(2)
        until(head, lambda now: states(now)[second] == "ALIVE", within_s=30)
        lab.kill_raylet(1)
        dead = until(head, lambda now: states(now)[first] == "DEAD", within_s=60)
        assert next(node for node in dead.nodes.data if node.id == first).why
        replaced = lab.node_id(lab.add_node())
        found = until(head, lambda now: states(now).get(replaced) == "ALIVE", within_s=60)
        assert (len(found.nodes.data), states(found)[first]) == (4, "DEAD")
        until(head, lambda now: all(n.measures.cpu is not None for n in now.nodes.data if n.alive), within_s=30)
        head.close()

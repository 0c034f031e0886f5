"""A round of questions: what fails, hangs or trickles is told in its panel, and holds up nothing else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from airlane.cluster.rest import Dashboard
from airlane.errors import ArgumentError, NotFoundError
from airlane.top.head import Head
from airlane.top.head_question import Flight, Question, wait_for_all
from airlane.top.values import AirRun, Snapshot

from .conftest import WORKER_NODE, StandInHead, answer, body, encoded

T = TypeVar("T")
ERROR = "Internal Server Error"
TOKEN = "t0k3n"  # noqa: S105


def made(standing: StandInHead, *, patience_s: float = 5.0, within_s: float = 5.0) -> Head:
    return Head(Dashboard(standing.url, TOKEN, timeout_s=within_s), patience_s=patience_s, within_s=within_s)


def run(look: Callable[[], Awaitable[T]]) -> T:
    async def inside() -> T:
        return await look()

    return asyncio.run(inside())


async def rounds(head: Head, until: Callable[[Snapshot], bool], *, within_s: float = 5.0) -> Snapshot:
    """Rounds until one is as wanted."""
    deadline = time.monotonic() + within_s
    while not until(snapshot := await head.snapshot()):
        assert time.monotonic() < deadline, snapshot
        await asyncio.sleep(0.02)
    return snapshot


def troubles(snapshot: Snapshot) -> dict[str, str]:
    return {name: panel.trouble for name, panel in snapshot.panels.items() if panel.trouble is not None}


def test_a_round_brings_all_panels_with_the_token(head: StandInHead) -> None:
    snapshot = run(made(head).snapshot)
    assert (snapshot.answers, snapshot.trouble, troubles(snapshot)) == (True, None, {})
    assert snapshot.ray_version == "2.60.0"
    assert [node.state for node in snapshot.nodes.data].count("ALIVE") == 3
    assert [job.id for job in snapshot.jobs.data] == ["raysubmit_demo"]
    assert len(snapshot.actors.data.living) == 5
    assert len(snapshot.groups.data) == 2
    assert snapshot.load.data.demands
    assert snapshot.train.data == ()
    assert all(panel.at is not None for name, panel in snapshot.panels.items() if name != "Airlane runs")
    assert head.tokens == {f"Bearer {TOKEN}"}


def test_one_that_fails_is_named_and_blanks_no_other(head: StandInHead) -> None:
    async def look() -> Snapshot:
        asking = made(head)
        before = await asking.snapshot()
        head.instead["/api/jobs/"] = (500, b"Traceback (most recent call last):\nRuntimeError: no storage")
        snapshot = await rounds(asking, lambda now: now.jobs.trouble is not None)
        assert snapshot.jobs.data == before.jobs.data
        assert snapshot.jobs.at == before.jobs.at
        return snapshot

    snapshot = run(look)
    shown = "/api/jobs/ answers 500 Internal Server Error: RuntimeError: no storage"
    assert (snapshot.answers, troubles(snapshot)) == (True, {"jobs": shown})


def test_without_measures_the_states_of_nodes_stay_right(head: StandInHead) -> None:
    async def look() -> Snapshot:
        asking = made(head)
        await asking.snapshot()
        head.instead["/nodes"] = (200, b'{"result": false, "msg": "down", "data": {}}')
        content = answer("nodes")
        content["data"]["result"]["result"][0]["state"] = "DEAD"
        head.instead["/api/v0/nodes"] = (200, encoded(content))
        return await rounds(asking, lambda now: now.nodes.trouble is not None and now.nodes.data[0].state == "DEAD")

    snapshot = run(look)
    assert snapshot.nodes.trouble == "measures: answers in a form that is not known: it has no list of nodes"
    assert snapshot.nodes.data[2].measures.memory_total == 25275990016


def test_one_that_hangs_holds_up_no_round_and_is_not_asked_twice(head: StandInHead) -> None:
    go_on = threading.Event()
    head.instead["/api/cluster_status"] = lambda: (go_on.wait(10), (200, body("cluster_status")))[1]

    async def look() -> None:
        asking = made(head, patience_s=0.3)
        began = time.monotonic()
        for _ in range(3):
            snapshot = await asking.snapshot()
        assert time.monotonic() - began < 3.0
        assert (snapshot.load.at, snapshot.answers) == (None, True)
        assert len(snapshot.nodes.data) == 4
        assert [path for path, _ in head.asked].count("/api/cluster_status") == 1
        go_on.set()
        await rounds(asking, lambda now: now.load.at is not None)

    run(look)


def test_one_that_trickles_is_given_up_and_told(head: StandInHead) -> None:
    head.trickle.add("/api/jobs/")

    async def look() -> Snapshot:
        asking = made(head, patience_s=0.1, within_s=0.5)
        return await rounds(asking, lambda now: now.jobs.trouble is not None)

    snapshot = run(look)
    assert troubles(snapshot) == {"jobs": "does not answer within 0.5 s"}


def test_a_head_that_goes_away_keeps_its_data_and_comes_back(head: StandInHead) -> None:
    async def look() -> None:
        asking = made(head)
        before = await asking.snapshot()
        head.stop()
        asking.close()
        away = await rounds(asking, lambda now: not now.answers)
        assert away.trouble == "refuses the connection"
        assert (away.nodes.data, away.nodes.at) == (before.nodes.data, before.nodes.at)
        assert away.ray_version == "2.60.0"
        head.start()
        back = await rounds(asking, lambda now: now.answers and not troubles(now))
        assert back.trouble is None

    run(look)


def test_a_head_that_was_never_there_says_so() -> None:
    snapshot = run(Head(Dashboard("http://127.0.0.1:1"), patience_s=5.0).snapshot)
    assert (snapshot.answers, snapshot.trouble) == (False, "refuses the connection")
    assert snapshot.nodes.data == ()


def test_a_wrong_token_is_said_first(head: StandInHead) -> None:
    for path in ("/api/version", "/api/v0/nodes", "/nodes", "/api/cluster_status", "/api/jobs/", "/api/v0/actors"):
        head.instead[path] = (401, b"Unauthorized: Missing authentication token")
    for path in ("/api/v0/actors/summarize", "/api/v0/placement_groups", "/api/train/v2/runs/v1"):
        head.instead[path] = (403, b"Forbidden")
    snapshot = run(made(head).snapshot)
    assert (snapshot.answers, snapshot.trouble) == (False, "does not accept this token")


def test_another_server_is_told_to_be_one(head: StandInHead) -> None:
    head.instead["/api/jobs/"] = (200, b"<html>Welcome</html>")
    assert troubles(run(made(head).snapshot))["jobs"].startswith("answers in a form that is not known")


def test_what_an_error_says_does_not_steer_a_terminal(head: StandInHead) -> None:
    head.instead["/api/jobs/"] = (500, b"\x1b[2J\x07" + b"x" * 10_000)
    trouble = troubles(run(made(head).snapshot))["jobs"]
    assert trouble.isprintable()
    assert len(trouble) <= 500


def test_of_no_train_run_there_is_no_trouble_and_of_another_error_there_is(head: StandInHead) -> None:
    assert run(made(head).snapshot).train.trouble is None
    head.instead["/api/train/v2/runs/v1"] = (404, b"404: Not Found")
    assert run(made(head).snapshot).train.trouble is None
    head.instead["/api/train/v2/runs/v1"] = (503, b"the GCS may be down")
    assert "the GCS may be down" in str(run(made(head).snapshot).train.trouble)


def test_where_no_autoscaler_reports_the_nodes_tell_what_is_in_use(head: StandInHead) -> None:
    head.instead["/api/cluster_status"] = (200, b'{"result": true, "data": {"clusterStatus": null}}')
    load = run(made(head).snapshot).load
    assert (load.trouble, load.data.demands) == (None, ())
    assert [(use.resource, use.total) for use in load.data.use][:2] == [("CPU", 6.0), ("GPU", 6.0)]


def test_a_node_is_asked_for_alone(head: StandInHead) -> None:
    async def look() -> None:
        asking = made(head)
        panel = await asking.node(WORKER_NODE)
        assert (len(panel.data.processes), len(panel.data.actors), panel.trouble) == (2, 3, None)
        head.instead[f"/nodes/{WORKER_NODE}"] = (500, b"gone")
        await asyncio.sleep(0.1)  # it is not asked again at once
        panel = await asking.node(WORKER_NODE)
        assert (len(panel.data.processes), panel.trouble) == (2, f"/nodes/{WORKER_NODE} answers 500 {ERROR}: gone")
        assert (await asking.node("no/such")).trouble == "/nodes/no%2Fsuch answers 404 Not Found: 404: Not Found"

    run(look)


def test_an_answer_that_is_the_same_as_before_is_not_read_again(head: StandInHead) -> None:
    async def look() -> None:
        asking = made(head)
        first = await asking.snapshot()
        second = await rounds(asking, lambda now: now.groups.at != first.groups.at)
        assert second.groups.data is first.groups.data

    run(look)


def test_what_takes_long_is_asked_less_often() -> None:
    asked = []

    def ask() -> None:
        asked.append(time.monotonic())
        time.sleep(0.1)

    async def look() -> None:
        question = Question("slow", ask)
        until = time.monotonic() + 0.7
        while time.monotonic() < until:
            flight = question.ask()
            await wait_for_all([flight] if flight is not None else [], 1.0)
            await asyncio.sleep(0.01)

    run(look)
    assert len(asked) <= 4


def test_threads_end_with_their_questions(head: StandInHead) -> None:
    async def look() -> None:
        asking = made(head)
        for _ in range(20):
            await asking.snapshot()
        asking.close()

    run(look)
    deadline = time.monotonic() + 5.0
    while left := [thread.name for thread in threading.enumerate() if thread.name.startswith("air top")]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def test_leaving_waits_for_nobody(head: StandInHead) -> None:
    head.instead["/api/jobs/"] = lambda: (threading.Event().wait(3), (200, b"[]"))[1]
    began = time.monotonic()
    run(made(head, patience_s=0.2).snapshot)
    assert time.monotonic() - began < 2.0


def test_an_odd_error_is_told_and_ends_nothing() -> None:
    async def look() -> None:
        nothing: dict[str, None] = {}
        question = Question("odd", lambda: nothing["x"])
        flight = question.ask()
        assert flight is not None
        await flight.wait()
        assert isinstance(question.error, KeyError)
        with pytest.raises(KeyError):
            await Flight("odd", lambda: nothing["x"]).result()

    run(look)


def test_airlane_runs_stand_beside_and_their_trouble_is_theirs_alone(head: StandInHead) -> None:
    def fails() -> tuple[AirRun, ...]:
        raise NotFoundError("no home")

    dashboard = Dashboard(head.url)
    assert run(Head(dashboard, runs=lambda: (AirRun("7k2m"),)).snapshot).runs.data == (AirRun("7k2m"),)
    snapshot = run(Head(dashboard, runs=fails).snapshot)
    assert (snapshot.answers, troubles(snapshot)) == (True, {"Airlane runs": "no home"})


def job_answer(**changed: object) -> bytes:
    return encoded({**answer("jobs")[0], **changed})


def test_stopping_a_job_says_what_became_of_it(head: StandInHead) -> None:
    asking = made(head)
    head.instead["/api/jobs/raysubmit_demo"] = (200, job_answer(status="SUCCEEDED"))
    assert run(lambda: asking.stop_job("raysubmit_demo")) == "raysubmit_demo has ended: SUCCEEDED"
    head.instead["/api/jobs/02000000"] = (200, job_answer(submission_id=None))
    with pytest.raises(ArgumentError, match="Ray cannot stop it"):
        run(lambda: asking.stop_job("02000000"))
    with pytest.raises(NotFoundError, match="no longer knows job nope"):
        run(lambda: asking.stop_job("nope"))


def test_the_log_of_a_driver_without_a_job_is_kept_by_nobody(head: StandInHead) -> None:
    head.instead["/api/jobs/02000000"] = (200, job_answer(submission_id=None, status="SUCCEEDED", driver_node_id=None))
    said = run(lambda: made(head).follow_job_log("02000000", print))
    assert said == "02000000 is a driver that was started without a job: Ray keeps no log of it"


def test_the_log_of_a_job_comes_whole_also_where_a_character_was_cut(head: StandInHead) -> None:
    head.instead["/api/jobs/raysubmit_demo"] = (200, job_answer(status="SUCCEEDED"))
    head.instead["/api/v0/logs/stream"] = (200, b"")
    head.instead["/api/v0/logs/file"] = (200, "epoch 1 🚀\nlöss 1.0\n".encode() + b"\xf0\x9f")
    taken: list[str] = []
    assert run(lambda: made(head).follow_job_log("raysubmit_demo", taken.append)) is None
    assert "".join(taken) == "epoch 1 🚀\nlöss 1.0\n\ufffd"


def test_a_log_that_nobody_follows_any_more_is_read_by_no_thread(head: StandInHead) -> None:
    head.instead["/api/jobs/raysubmit_demo"] = (200, job_answer())
    head.instead["/api/v0/logs/stream"] = (200, b"tick\n")

    async def look() -> None:
        task = asyncio.create_task(made(head).follow_job_log("raysubmit_demo", lambda _: None))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(look)
    deadline = time.monotonic() + 5.0
    while left := [thread.name for thread in threading.enumerate() if "log" in thread.name]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)

"""What is wrong with the data of the terminal monitors that people use, one test each."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from airlane.cluster.rest import Dashboard
from airlane.top.head import Head
from airlane.top.values import Snapshot

from .conftest import DEAD_NODE, HEAD_NODE, WORKER_NODE, StandInHead, answer, body, encoded


def looked_at(head: StandInHead) -> Snapshot:
    return asyncio.run(Head(Dashboard(head.url, "t0k3n"), patience_s=5.0).snapshot())


def rows_of(content: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = content["data"]["result"]["result"]
    return found


def many(name: str, count: int, key: str) -> bytes:
    """A recorded list with its first row so many times, each with an id of its own."""
    content = answer(name)
    first = rows_of(content)[0]
    told = [{**copy.deepcopy(first), key: f"{number:056x}"} for number in range(count)]
    content["data"]["result"] |= {
        "result": told,
        "total": count,
        "num_after_truncation": count,
        "num_filtered": count,
    }
    return encoded(content)


def test_a_submitted_job_with_a_null_end_time_does_not_empty_the_jobs(head: StandInHead) -> None:
    assert answer("jobs")[0]["end_time"] is None
    assert [job.state for job in looked_at(head).jobs.data] == ["RUNNING"]


def test_a_pending_actor_with_a_null_node_does_not_empty_the_counts(head: StandInHead) -> None:
    assert rows_of(answer("actors_pending"))[0]["node_id"] is None
    counts = {one.name: one.states for one in looked_at(head).actors.data.classes}
    assert counts == {
        "Worker": {"DEAD": 12, "ALIVE": 3},
        "Greedy": {"PENDING_CREATION": 1},
        "JobSupervisor": {"ALIVE": 1},
    }


def test_lists_are_not_cut_at_a_hundred(head: StandInHead) -> None:
    head.instead["/api/v0/nodes"] = (200, many("nodes", 1_500, "node_id"))
    head.instead["/api/v0/placement_groups"] = (200, many("groups", 300, "placement_group_id"))
    snapshot = looked_at(head)
    assert (len(snapshot.nodes.data), len(snapshot.groups.data)) == (1_500, 300)
    limits = {query["limit"][0] for path, query in head.asked if path.startswith("/api/v0/") and "limit" in query}
    assert limits == {"10000"}


def test_what_ray_does_not_tell_is_counted(head: StandInHead) -> None:
    content = answer("actor_classes")
    content["data"]["result"] |= {"total": 20_000, "num_after_truncation": 10_000}
    head.instead["/api/v0/actors/summarize"] = (200, encoded(content))
    assert looked_at(head).actors.cut == 10_000


def test_the_living_actors_are_asked_for_where_the_filter_reaches(head: StandInHead) -> None:
    looked_at(head)
    filters = [query for path, query in head.asked if path == "/api/v0/actors"]
    assert {query["filter_predicates"][0] for query in filters} == {"="}
    assert {query["filter_values"][0] for query in filters} == {
        "ALIVE",
        "PENDING_CREATION",
        "RESTARTING",
        "DEPENDENCIES_UNREADY",
    }


def test_a_head_without_gpus_does_not_read_zero(head: StandInHead) -> None:
    (node,) = [node for node in looked_at(head).nodes.data if node.head]
    assert (node.id, node.measures.cpu, node.measures.memory_used) == (HEAD_NODE, 99.6, 4004315136)


def test_nodes_that_share_an_address_are_two(head: StandInHead) -> None:
    content = answer("nodes")
    for row in rows_of(content):
        row["node_ip"] = "10.0.0.1"
    head.instead["/api/v0/nodes"] = (200, encoded(content))
    snapshot = looked_at(head)
    assert len(snapshot.nodes.data) == 4
    assert len({node.measures.cpu for node in snapshot.nodes.data}) == 4


def test_a_node_that_joins_later_has_measures(head: StandInHead) -> None:
    content, told = answer("nodes"), answer("summary")
    rows_of(content)[:] = [row for row in rows_of(content) if row["node_id"] != WORKER_NODE]
    told["data"]["summary"] = [e for e in told["data"]["summary"] if e["raylet"]["nodeId"] != WORKER_NODE]
    head.instead |= {"/api/v0/nodes": (200, encoded(content)), "/nodes": (200, encoded(told))}

    async def look() -> None:
        asking = Head(Dashboard(head.url), patience_s=5.0)
        assert len((await asking.snapshot()).nodes.data) == 3
        head.instead.clear()
        async with asyncio.timeout(5):
            while True:
                nodes = {node.id: node for node in (await asking.snapshot()).nodes.data}
                if WORKER_NODE in nodes and nodes[WORKER_NODE].measures.cpu is not None:
                    return
                await asyncio.sleep(0.02)

    asyncio.run(look())


def test_a_dead_node_costs_no_question_of_its_own(head: StandInHead) -> None:
    snapshot = looked_at(head)
    assert [node.id for node in snapshot.nodes.data if not node.alive] == [DEAD_NODE]
    assert not any(DEAD_NODE in path for path, _ in head.asked)


def test_the_port_of_the_head_is_all_that_is_needed(head: StandInHead) -> None:
    """The recorded nodes have addresses and ports of their own, at which nobody answers here."""
    snapshot = looked_at(head)
    assert all(node.measures.cpu is not None for node in snapshot.nodes.data)


def test_measures_are_never_a_minute_old(head: StandInHead) -> None:
    looked_at(head)
    assert [query["nocache"] for path, query in head.asked if path == "/nodes"] == [["1"]]


def test_the_token_is_sent(head: StandInHead) -> None:
    looked_at(head)
    assert head.tokens == {"Bearer t0k3n"}


def test_no_error_is_swallowed_and_no_stale_data_unmarked(head: StandInHead) -> None:
    async def look() -> None:
        asking = Head(Dashboard(head.url), patience_s=5.0)
        before = await asking.snapshot()
        for path in ("/api/v0/nodes", "/nodes", "/api/cluster_status", "/api/jobs/", "/api/v0/placement_groups"):
            head.instead[path] = (500, b"")
        for path in ("/api/v0/actors", "/api/v0/actors/summarize", "/api/train/v2/runs/v1"):
            head.instead[path] = (500, b"")
        wanted = {"nodes", "load", "jobs", "actors", "placement groups", "Train runs"}
        async with asyncio.timeout(5):
            while True:
                now = await asking.snapshot()
                if {name for name, panel in now.panels.items() if panel.trouble is not None} == wanted:
                    break
                await asyncio.sleep(0.02)
        assert {name: panel.data for name, panel in now.panels.items()} == {
            name: panel.data for name, panel in before.panels.items()
        }
        assert all(now.panels[name].at == before.panels[name].at for name in wanted)

    asyncio.run(look())


def test_an_entrypoint_of_other_scripts_and_half_a_character_is_shown(head: StandInHead) -> None:
    content = body("jobs").replace(b"python work.py", "python 学习.py --naïve 🚀".encode() + rb"\ud83d\udc80")
    assert rb"\ud83d\udc80" in content
    for odd in (content, content.replace(rb"\ud83d", b"")):
        head.instead["/api/jobs/"] = (200, odd)
        (job,) = looked_at(head).jobs.data
        assert job.entrypoint.startswith("python 学习.py --naïve 🚀")
        job.entrypoint.encode()


def test_jobs_that_wait_or_have_failed_are_there(head: StandInHead) -> None:
    (running,) = answer("jobs")
    told = [{**running, "submission_id": state, "status": state} for state in ("PENDING", "FAILED", "STOPPED")]
    head.instead["/api/jobs/"] = (200, encoded([running, *told]))
    states = {job.state for job in looked_at(head).jobs.data}
    assert states == {"RUNNING", "PENDING", "FAILED", "STOPPED"}


def test_placement_groups_and_what_waits_are_there(head: StandInHead) -> None:
    snapshot = looked_at(head)
    assert [(group.name, group.why) for group in snapshot.groups.data] == [
        ("too-big", "asks for more than there is"),
        ("my-pg", None),
    ]
    assert [(demand.shape, demand.group) for demand in snapshot.load.data.demands] == [
        ({"CPU": 50.0}, False),
        ({"CPU": 64.0}, True),
    ]

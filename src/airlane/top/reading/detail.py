"""One node alone, when somebody looks at it: /nodes/<id>.

Source: Ray 2.60, dashboard/modules/node/datacenter.py. An actor that does not run has `processStats: null`; the GPU
memory of a process is in MB.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airlane.top.fields import MOST_TEXT, dig, mapping, number, read_json, rows, text, whole, words
from airlane.top.reading.resources import asked
from airlane.top.reading.state_api import refusal
from airlane.top.reading.summary import megabytes
from airlane.top.values import Actor, NodeDetail, Process

_NO_ACTOR = frozenset("f")
_NO_JOB = ("ffff", "ffffffff")
DEAD = "DEAD"


def detail_path(node_id: str) -> str:
    return f"/nodes/{quote(node_id, safe='')}"


def read_detail(body: bytes, node_id: str) -> NodeDetail:
    """The processes and actors of a node; of these, the dead last. Raises ValueError: this is no such answer."""
    answer = read_json(body)
    detail = mapping(dig(answer, "data", "detail"))
    if not detail:
        raise ValueError(refusal(answer) or "it tells nothing of the node")
    processes = {process.pid: process for process in _processes(detail) if process is not None}
    actors = [_actor(row, node_id) for row in rows(list(mapping(detail.get("actors")).values()))]
    return NodeDetail(
        node_id,
        tuple(sorted(processes.values(), key=lambda process: -(process.cpu or 0.0))),
        tuple(sorted(actors, key=lambda actor: actor.state == DEAD)),
    )


def _processes(detail: dict[str, Any]) -> list[Process | None]:
    special = [_process(mapping(detail.get("gcs")), "GCS"), _process(mapping(detail.get("agent")), "")]
    return [*special, *(_process(row, "") for row in rows(detail.get("workers")))]


def _process(row: dict[str, Any], what: str) -> Process | None:
    pid = whole(row.get("pid"))
    if pid is None:
        return None
    stats = rows(row.get("coreWorkerStats"))
    job_id = text(row.get("jobId"))
    actor_id = text(stats[0].get("actorId")) if stats else ""
    return Process(
        pid,
        what or _command(row.get("cmdline")),
        number(row.get("cpuPercent")),
        whole(dig(row, "memoryInfo", "rss")),
        megabytes(row.get("gpuMemoryUsage")),
        None if job_id in _NO_JOB else job_id or None,
        None if set(actor_id) <= _NO_ACTOR else actor_id,
    )


def _command(content: Any) -> str:
    """A command line; a process that has named itself leaves empty words behind."""
    told = [word for word in content if type(word) is str and word] if type(content) is list else []
    return text(" ".join(told[:100]), MOST_TEXT)


def _actor(row: dict[str, Any], node_id: str) -> Actor:
    get = row.get
    return Actor(
        id=text(get("actorId")),
        class_name=text(get("actorClass")) or text(get("className")),
        name=text(get("name")),
        state=text(get("state")),
        job_id=text(get("jobId")) or None,
        node_id=text(dig(get("address"), "nodeId")) or node_id,
        pid=whole(get("pid")) or None,
        restarts=whole(get("numRestarts")) or 0,
        resources=asked(get("requiredResources")),
        group_id=text(get("placementGroupId")) or None,
        why=words(get("exitDetail")) if get("state") == DEAD else None,
    )

"""The dashboard of a made-up Ray cluster, as a process of its own, that can be as slow and as broken as one likes.

python made_head.py --nodes 1000 --gpus-per-node 8 --actors 20000    serves until it is ended
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from aiohttp import web
from aiohttp.typedefs import Handler

from made_cluster import MadeCluster, Shape, node_number

_LOOPBACK = "127.0.0.1"
_TRICKLE_EVERY_S = 0.05
_LOG_LINE_EVERY_S = 0.2
_NO_TRAIN = "Train state data is not available. Please make sure Ray Train is running"
_READY_S = 60.0


@dataclass(frozen=True)
class Trouble:
    """What is done in place of an answer, or with it. `seconds` is how long a delay takes."""

    kind: str
    seconds: float = 0.0


class MadeHead:
    """A head in a process of its own. It may be stopped, and started again at the same address."""

    def __init__(self, shape: Shape | None = None, *, token: str | None = None) -> None:
        self._shape, self._token = shape or Shape(), token
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://{_LOOPBACK}:{self._port}"

    def start(self) -> None:
        shape = self._shape
        line = [sys.executable, __file__, "--port", str(self._port), *(["--token", self._token] if self._token else [])]
        line += ["--nodes", str(shape.nodes), "--gpus-per-node", str(shape.gpus_per_node)]
        line += ["--actors", str(shape.actors), "--pending", str(shape.pending), "--jobs", str(shape.jobs)]
        self._process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())

    def stop(self) -> None:
        """At once, as if its machine had lost power; harmless twice."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def trouble(self, path: str, kind: str, seconds: float = 0.0) -> None:
        """From now on, `path` is answered with "error", "hang", "cut", "trickle", "delay", "page" or, again, "none"."""
        self._tell("POST", {"path": path, "kind": kind, "seconds": seconds})

    def node(self, number: int, state: str) -> None:
        """ALIVE, DEAD, or HUNG: alive to the head, while its agent says nothing new."""
        self._tell("POST", {"node": number, "state": state})

    def asked(self) -> dict[str, dict[str, int]]:
        """For each path, how often it was asked for, and by how many at the same time at most."""
        counted: dict[str, dict[str, int]] = json.loads(self._tell("GET"))
        return counted

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _tell(self, method: str, order: dict[str, Any] | None = None) -> bytes:
        connection = http.client.HTTPConnection(_LOOPBACK, self._port, timeout=_READY_S)
        connection.request(method, "/made", body=json.dumps(order))
        answer = connection.getresponse().read()
        connection.close()
        return answer


class _Server:
    def __init__(self, cluster: MadeCluster, token: str | None) -> None:
        self._cluster, self._token = cluster, token
        self._troubles: dict[str, Trouble] = {}
        self._asked: Counter[str] = Counter()
        self._now: Counter[str] = Counter()
        self._most: Counter[str] = Counter()

    def app(self) -> web.Application:
        made = web.Application(middlewares=[self._at_the_door])
        made.router.add_get("/made", self._counts)
        made.router.add_post("/made", self._order)
        made.router.add_post("/api/jobs/{id}/stop", self._stop)
        made.router.add_get("/api/v0/logs/{kind}", self._log)
        made.router.add_get("/{path:.*}", self._answer)
        return made

    @web.middleware
    async def _at_the_door(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == "/made":
            return await handler(request)
        key = _key(request.path)
        self._asked[key] += 1
        self._now[key] += 1
        self._most[key] = max(self._most[key], self._now[key])
        try:
            if self._token and request.headers.get("Authorization") != f"Bearer {self._token}":
                return web.Response(status=401, text="Unauthorized: Missing authentication token")
            return await self._troubled(request, self._troubles.get(key, Trouble("none")), handler)
        finally:
            self._now[key] -= 1

    async def _troubled(self, request: web.Request, trouble: Trouble, handler: Handler) -> web.StreamResponse:
        match trouble.kind:
            case "error":
                return web.Response(status=500, text="Traceback (most recent call last):\nRuntimeError: made up")
            case "page":
                return web.Response(text="<html>another service</html>", content_type="text/html")
            case "hang":
                await asyncio.sleep(3600)
            case "delay":
                await asyncio.sleep(trouble.seconds)
        answer = await handler(request)
        if trouble.kind in ("cut", "trickle") and isinstance(answer, web.Response):
            return await _in_pieces(request, answer, cut=trouble.kind == "cut")
        return answer

    async def _counts(self, _: web.Request) -> web.Response:
        return web.json_response({key: {"times": self._asked[key], "at_once": self._most[key]} for key in self._asked})

    async def _order(self, request: web.Request) -> web.Response:
        order = await request.json()
        if "node" in order:
            self._cluster.states[order["node"]] = order["state"]
            if order["state"] == "ALIVE":
                del self._cluster.states[order["node"]]
        else:
            self._troubles[_key(order["path"])] = Trouble(order["kind"], order["seconds"])
        return web.Response()

    async def _stop(self, request: web.Request) -> web.Response:
        self._cluster.stopped.add(request.match_info["id"])
        return web.json_response({"stopped": True})

    async def _log(self, request: web.Request) -> web.StreamResponse:
        """A line now and then, for ever; a whole file has ten."""
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await answer.prepare(request)
        number = 0
        with contextlib.suppress(ConnectionError):  # the reader has gone
            while request.match_info["kind"] == "stream" or number < 10:
                await answer.write(f"step {number}  loss {1 / (number + 1):.3f}  größer 训练\n".encode())
                number += 1
                if number > 10:
                    await asyncio.sleep(_LOG_LINE_EVERY_S)
        return answer

    async def _answer(self, request: web.Request) -> web.Response:
        body = self._body(request)
        if body is None:
            return web.Response(status=404, text="404: Not Found")
        if not body:
            return web.Response(status=500, text=_NO_TRAIN)
        return web.Response(body=body, content_type="application/json")

    def _body(self, request: web.Request) -> bytes | None:
        cluster, path = self._cluster, request.path.rstrip("/")
        whole: dict[str, Callable[[], bytes]] = {
            "/nodes": lambda: cluster.summary(time.time()),
            "/api/cluster_status": lambda: cluster.cluster_status(time.time()),
            "/api/version": cluster.version,
            "/api/jobs": cluster.jobs,
            "/api/v0/nodes": cluster.node_states,
            "/api/v0/actors/summarize": cluster.actor_summary,
            "/api/v0/actors": lambda: cluster.actor_list(**_list_options(request)),
            "/api/v0/placement_groups": cluster.groups,
            "/api/train/v2/runs/v1": lambda: b"",
        }
        if path in whole:
            return whole[path]()
        folder, _, wanted = path.rpartition("/")
        if folder == "/nodes":
            number = node_number(wanted, cluster.shape.nodes)
            return None if number is None else cluster.node(number, time.time())
        return cluster.job(wanted) if folder == "/api/jobs" else None


async def _in_pieces(request: web.Request, whole: web.Response, *, cut: bool) -> web.StreamResponse:
    """A byte at a time for hours; or the first half, and then the connection's end."""
    body = whole.body
    assert isinstance(body, bytes)
    answer = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(body))})
    await answer.prepare(request)
    if cut:
        await answer.write(body[: len(body) // 2])
        assert request.transport is not None
        request.transport.abort()
        return answer
    for position in range(len(body)):
        await answer.write(body[position : position + 1])
        await asyncio.sleep(_TRICKLE_EVERY_S)
    return answer


def _list_options(request: web.Request) -> dict[str, Any]:
    query = request.query
    keys, predicates, values = (query.getall(f"filter_{name}", []) for name in ("keys", "predicates", "values"))
    filters = list(zip(keys, predicates, values, strict=True))
    detail = query.get("detail", "0").lower() in ("1", "true")
    return {"filters": filters, "limit": int(query.get("limit", "100")), "detail": detail}


def _key(path: str) -> str:
    """What troubles and counts go by: the path, without the id of a node."""
    return "/nodes/ID" if path.startswith("/nodes/") and path.strip("/") != "nodes" else path.rstrip("/")


async def _serve(cluster: MadeCluster, port: int, token: str | None) -> None:
    runner = web.AppRunner(_Server(cluster, token).app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, _LOOPBACK, port, reuse_address=True)
    await site.start()
    for _ in range(2):  # prepared before anybody waits for it
        cluster.summary(time.time())
        for state in ("ALIVE", "PENDING_CREATION", "RESTARTING", "DEPENDENCIES_UNREADY"):
            cluster.actor_list(filters=[("state", "=", state)], limit=10_000, detail=True)
    cluster.actor_summary()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token")
    usual = Shape()
    for name in ("nodes", "gpus_per_node", "actors", "pending", "jobs"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(usual, name))
    values = vars(parser.parse_args())
    port, token = values.pop("port"), values.pop("token")
    asyncio.run(_serve(MadeCluster(replace(usual, **values)), port, token))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()

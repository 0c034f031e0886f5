"""The bodies with which the dashboard of a made-up Ray cluster answers: in size and shape as Ray 2.60 sends them.

A real cluster of four nodes was the model. Its GPUs had no devices behind them: what is said of devices here follows
the types in Ray's own reporter, and the numbers are made up.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

VARIANTS = 4
_MOST = 10_000
_CHANGES_EACH = 100  # one actor of so many is another in each round
_BEGAN_S = 1_796_096_000
_GB = 1 << 30
_CORES = 192
_PADDING_AGENT = 1239  # empty words that stand in the command line of a process that has renamed itself
_SESSION = "/tmp/ray/session_2026-12-01_03-47-23_067852_16279"
_SITE = "/home/ray/anaconda3/lib/python3.11/site-packages/ray"


@dataclass(frozen=True)
class Shape:
    """How large the cluster is. Actors beyond one for each GPU are dead, but for `pending`."""

    nodes: int = 4
    gpus_per_node: int = 2
    actors: int = 20
    pending: int = 1
    jobs: int = 3

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def living(self) -> int:
        return min(self.actors - self.pending, max(1, self.gpus))

    @property
    def dead(self) -> int:
        return self.actors - self.pending - self.living


class MadeCluster:
    """A cluster whose numbers change with every round of questions. `states` may be set, by a node's number.

    A node is ALIVE, DEAD or HUNG: alive to the head, while its agent says nothing new. `stopped` are ids of jobs.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.states: dict[int, str] = {}
        self.stopped: set[str] = set()
        self._round = 0
        self._last_now: dict[int, float] = {}
        self._actor_lists: dict[Any, bytes] = {}

    def version(self) -> bytes:
        return _json({"version": "4", "ray_version": "2.60.0", "ray_commit": "b7f4259e", "session_name": _SESSION[9:]})

    def summary(self, now: float) -> bytes:
        """Every node with what its agent measured at `now`."""
        self._round += 1
        nodes = self._prepared[self._round % VARIANTS]
        pieces = []
        for number, rest in enumerate(nodes):
            if self.states.get(number) is None:
                self._last_now[number] = now
            state = self.states.get(number) or "ALIVE"
            text = rest.replace('"state": "ALIVE"', '"state": "DEAD"') if state == "DEAD" else rest
            pieces.append(f'{{"now": {self._last_now.get(number, now)}, {text}')
        return (
            '{"result": true, "msg": "Node summary fetched.", "data": {"summary": ['
            + ", ".join(pieces)
            + f'], "nodeLogicalResources": {self._logical}}}}}'
        ).encode()

    def node_states(self) -> bytes:
        return _listed(_node_state(number, self.shape, self.states.get(number)) for number in range(self.shape.nodes))

    def cluster_status(self, now: float) -> bytes:
        taken = {"CPU": self.shape.living, "GPU": self.shape.living if self.shape.gpus else 0}
        totals = {"CPU": _CORES * self.shape.nodes, "GPU": self.shape.gpus}
        usage: dict[str, list[float]] = {name: [taken[name], totals[name]] for name in totals}
        usage["objectStoreMemory"] = [0.0, 200.0 * _GB * self.shape.nodes]
        usage["memory"] = [0.0, 1400.0 * _GB * self.shape.nodes]
        usage |= {f"node:{_address(number)}": [0.0, 1.0] for number in range(self.shape.nodes)}
        report = {
            "usage": usage,
            "resourceDemand": [[{"GPU": 8.0, "CPU": 16.0}, self.shape.pending]] if self.shape.pending else [],
            "pgDemand": [[{"bundles": [[{"GPU": 8.0}, 4]], "strategy": "STRICT_SPREAD"}, 1]],
            "requestDemand": [],
            "nodeTypes": [[{"CPU": float(_CORES), "GPU": float(self.shape.gpus_per_node)}, self.shape.nodes]],
        }
        status = {"gcsRequestTime": 0.002, "time": now, "loadMetricsReport": report}
        return _answer({"autoscalingStatus": None, "autoscalingError": None, "clusterStatus": status})

    def jobs(self) -> bytes:
        return _json([self._job(number) for number in range(self.shape.jobs)])

    def job(self, submission_id: str) -> bytes | None:
        found = (self._job(number) for number in range(self.shape.jobs))
        return next((_json(job) for job in found if job["submission_id"] == submission_id), None)

    def actor_summary(self) -> bytes:
        return self._actor_summary

    @cached_property
    def _actor_summary(self) -> bytes:
        classes: dict[str, Counter[str]] = {}
        taken = self._actors[:_MOST]
        for actor in taken:
            classes.setdefault(actor["class_name"], Counter())[actor["state"]] += 1
        summary = {name: {"class_name": name, "state_counts": dict(counts)} for name, counts in classes.items()}
        by_node = {"cluster": {"summary": summary, "total_actors": len(taken), "summary_by": "class"}}
        return _state_answer({"node_id_to_summary": by_node}, self.shape.actors, len(taken), len(taken))

    def actor_list(
        self, *, filters: Iterable[tuple[str, str, str]] = (), limit: int = 100, detail: bool = False
    ) -> bytes:
        """At most `limit` of those that pass every filter (key, "=" or "!=", value).

        As with Ray, only "=" is looked at where the actors are kept, and no more than 10,000 of them come from there.
        """
        question = (tuple(filters), limit, detail, self._round % 2)
        if question not in self._actor_lists:
            self._actor_lists[question] = self._actor_list(tuple(filters), limit, detail, str(self._round % 2))
        return self._actor_lists[question]

    def _actor_list(self, filters: tuple[tuple[str, str, str], ...], limit: int, detail: bool, restarts: str) -> bytes:
        equal = [one for one in filters if one[1] == "="]
        there = [actor for actor in self._actors if all(_passes(actor, *one) for one in equal)]
        left_out = len(self._actors) - len(there)
        found = [actor for actor in there[:_MOST] if all(_passes(actor, *one) for one in filters)]
        rows = [{**actor, **(_actor_details(actor) if detail else {})} for actor in found[:limit]]
        for row in rows[::_CHANGES_EACH] if detail else ():
            row["num_restarts"] = restarts
        return _state_answer(rows, self.shape.actors, len(there[:_MOST]) + left_out, len(found))

    def groups(self) -> bytes:
        per_group = max(1, self.shape.nodes // 4)
        made = [self._group(number, per_group) for number in range(4)]
        return _listed([*made, self._group_that_waits()])

    def node(self, number: int, now: float) -> bytes:
        """What is asked for one node alone."""
        detail = json.loads(f'{{"now": {now}, {self._prepared[0][number]}')
        detail["workers"] = [_worker(number, gpu) for gpu in range(self.shape.gpus_per_node)]
        mine = (actor for actor in self._actors if actor["node_id"] == node_id(number))
        detail["actors"] = {actor["actor_id"]: _logical_actor(actor) for actor in mine if actor["state"] != "DEAD"}
        return _answer({"detail": detail}, msg="Node details fetched.")

    @cached_property
    def _prepared(self) -> list[list[str]]:
        """For each variant, each node's text after the time."""
        return [
            [_node_text(number, variant, self.shape) for number in range(self.shape.nodes)]
            for variant in range(VARIANTS)
        ]

    @cached_property
    def _logical(self) -> str:
        words = "0.0/192.0 CPU\n0.0/8.0 GPU\n0B/1400.00GiB memory\n0B/200.00GiB object_store_memory"
        return json.dumps({node_id(number): words for number in range(self.shape.nodes)})

    @cached_property
    def _actors(self) -> list[dict[str, Any]]:
        return [_actor(number, self.shape) for number in range(self.shape.actors)]

    def _job(self, number: int) -> dict[str, Any]:
        state = ("RUNNING", "SUCCEEDED", "FAILED", "PENDING", "STOPPED")[number % 5]
        name = f"raysubmit_made{number:04d}"
        if name in self.stopped:
            state = "STOPPED"
        over = state in ("SUCCEEDED", "FAILED", "STOPPED")
        driver = None if state == "PENDING" else f"{number + 1:02x}000000"
        return {
            "type": "SUBMISSION",
            "job_id": driver,
            "submission_id": name,
            "driver_info": {"id": driver, "node_ip_address": _address(0), "pid": str(9000 + number)}
            if driver
            else None,
            "status": state,
            "entrypoint": f"python train.py --config configs/größe-{number}.yaml --note '训练'",
            "message": f"Job is {state.lower()}.",
            "error_type": None,
            "start_time": (_BEGAN_S + 60 * number) * 1000,
            "end_time": (_BEGAN_S + 60 * number + 40) * 1000 if over else None,
            "metadata": {"owner": "made-up"},
            "runtime_env": {"working_dir": f"gcs://_ray_pkg_{_hex('pkg', number, 16)}.zip"},
            "driver_agent_http_address": f"http://{_address(0)}:52365",
            "driver_node_id": node_id(0) if driver else None,
            "driver_exit_code": 1 if state == "FAILED" else None,
        }

    def _group(self, number: int, bundles: int) -> dict[str, Any]:
        nodes = range(number * bundles, (number + 1) * bundles)
        return _group_row(number, "CREATED", [(node_id(node % self.shape.nodes), {"GPU": 1.0}) for node in nodes])

    def _group_that_waits(self) -> dict[str, Any]:
        row = _group_row(99, "PENDING", [("", {"GPU": 8.0})] * 4)
        row["stats"]["scheduling_state"] = "INFEASIBLE"
        return row


def node_id(number: int) -> str:
    return _hex("node", number, 56)


def node_number(wanted: str, nodes: int) -> int | None:
    return next((number for number in range(nodes) if node_id(number) == wanted), None)


def _node_text(number: int, variant: int, shape: Shape) -> str:
    """All of a node's entry but its beginning: the time, which comes fresh with every answer."""
    busy = _wave(number, variant)
    fields = {
        "hostname": f"gpu-{number:04d}",
        "ip": _address(number),
        "cpu": round(100 * busy, 1),
        "cpus": [_CORES, _CORES // 2],
        "mem": [2048 * _GB, int((1 - busy) * 2048 * _GB), round(100 * busy, 1), int(busy * 2048 * _GB)],
        "hostMem": [int(busy * 2048 * _GB), 2048 * _GB],
        "cgroupMem": None,
        "shm": 11100160,
        "bootTime": _BEGAN_S - 86400.0,
        "loadAvg": [[_CORES * busy, 80.1, 60.5], [busy, 0.42, 0.31]],
        "disk": {"/": {"total": 7 << 40, "used": 2 << 40, "free": 5 << 40, "percent": 28.6}},
        "diskIo": [2098594816, 5330210816, 50311, 63845],
        "diskIoSpeed": [2.1e8 * busy, 4.6e8 * busy, 79.5, 78.9],
        "gpus": [_gpu(number, index, variant) for index in range(shape.gpus_per_node)],
        "tpus": [],
        "network": [1377916, 802050300],
        "networkSpeed": [1.1e9 * busy, 1.2e9 * busy],
        "gcs": None,
    }
    raylet = f'"coreWorkersStats": {_core_workers(number, shape)}, {json.dumps(_raylet(number, shape, busy))[1:]}'
    return f'"raylet": {{{raylet}, "agent": {_AGENT}, "cmdline": {_RAYLET_LINE}, {json.dumps(fields)[1:]}'


def _gpu(node: int, index: int, variant: int) -> dict[str, Any]:
    busy = _wave(node * 8 + index, variant)
    process = {"pid": 20000 + index, "gpuMemoryUsage": int(60000 * busy), "gpuUtilization": int(95 * busy)}
    return {
        "index": index,
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": f"GPU-{_hex('gpu', node * 8 + index, 32)}",
        "utilizationGpu": int(100 * busy),
        "memoryUsed": int(80000 * busy),
        "memoryTotal": 81559,
        "processesPids": [process],
        "powerMw": int(70000 + 600000 * busy),
        "temperatureC": int(30 + 50 * busy),
    }


def _raylet(number: int, shape: Shape, busy: float) -> dict[str, Any]:
    return {
        "numWorkers": shape.gpus_per_node,
        "storeStats": {"objectStoreBytesAvail": str(200 * _GB), "cumulativeCreatedObjects": "3"},
        "objectStoreUsedMemory": int(100 * _GB * busy),
        "objectStoreAvailableMemory": 200 * _GB - int(100 * _GB * busy),
        "nodeId": node_id(number),
        "nodeManagerAddress": _address(number),
        "rayletSocketName": f"{_SESSION}/sockets/raylet",
        "objectStoreSocketName": f"{_SESSION}/sockets/plasma_store",
        "nodeManagerPort": 26339,
        "objectManagerPort": 26340,
        "nodeManagerHostname": f"gpu-{number:04d}",
        "metricsExportPort": 26344,
        "resourcesTotal": {"objectStoreMemory": 200.0 * _GB, "CPU": float(_CORES), "GPU": float(shape.gpus_per_node)},
        "nodeName": f"gpu-{number:04d}",
        "startTimeMs": str(_BEGAN_S * 1000),
        "labels": {"ray.io/node-id": node_id(number), "ray.io/accelerator-type": "H100"},
        "stateSnapshot": {"state": "ACTIVE", "idleDurationMs": "0", "nodeActivity": []},
        "tempDir": "/tmp/ray",
        "sessionDir": _SESSION,
        "state": "ALIVE",
        "endTimeMs": "0",
        "isHeadNode": number == 0,
        "stateMessage": None,
    }


@cache
def _core_workers(number: int, shape: Shape) -> str:
    return json.dumps([_core_worker(number, gpu) for gpu in range(shape.gpus_per_node)])


def _core_worker(node: int, gpu: int) -> dict[str, Any]:
    names = ("numPendingTasks", "numObjectRefsInScope", "numInPlasma", "numLocalObjects", "taskQueueLength")
    texts = ("usedObjectStoreMemory", "objectsTotal", "numOwnedObjects", "numOwnedActors", "numRunningTasks")
    return {
        "ipAddress": _address(node),
        "port": str(38000 + gpu),
        "actorId": _hex("actor", node * 8 + gpu, 32),
        "usedResources": {"GPU": {"resourceSlots": [{"allocation": 1.0, "slot": str(gpu)}]}},
        "numExecutedTasks": 2,
        "jobId": "01000000",
        "workerId": _hex("worker", node * 8 + gpu, 56),
        "pid": 20000 + gpu,
        **dict.fromkeys(names, 0),
        **dict.fromkeys(texts, "0"),
        "objectRefs": [],
        "language": "PYTHON",
        "workerType": "WORKER",
        "numInFlightArgPinningRequests": "0",
        "numOfFailedArgPinningRequests": "0",
    }


def _process(pid: int, name: str) -> dict[str, Any]:
    return {
        "pid": pid,
        "createTime": _BEGAN_S + 0.8,
        "cpuPercent": 0.6,
        "cpuTimes": {"user": 1.75, "system": 0.57, "childrenUser": 0.0, "childrenSystem": 0.0},
        "cmdline": [name, *[""] * _PADDING_AGENT],
        "memoryInfo": {"rss": 136454144.0, "vms": 1388265472.0, "pfaults": None, "pageins": None},
        "memoryFullInfo": None,
        "numFds": 48,
        "gpuMemoryUsage": None,
        "gpuUtilization": None,
    }


def _worker(node: int, gpu: int) -> dict[str, Any]:
    worker = _process(20000 + gpu, "ray::Trainer.step")
    stats = [_core_worker(node, gpu)]
    return {**worker, "cpuPercent": 210.5, "coreWorkerStats": stats, "language": "PYTHON", "jobId": "01000000"}


def _actor(number: int, shape: Shape) -> dict[str, Any]:
    name = ("Trainer", "RayTrainWorker", "DataFeeder", "Evaluator")[number % 4]
    state = "ALIVE"
    if number >= shape.living:
        state = "PENDING_CREATION" if number < shape.living + shape.pending else "DEAD"
    waits = state == "PENDING_CREATION"
    return {
        "actor_id": _hex("actor", number, 32),
        "class_name": name,
        "state": state,
        "job_id": "01000000",
        "name": f"made-{number}" if number % 10 == 0 else "",
        "node_id": None if waits else node_id(number // max(1, shape.gpus_per_node) % shape.nodes),
        "pid": 0 if waits else 20000 + number % max(1, shape.gpus_per_node),
        "ray_namespace": "7ea21438-31e9-44e4-90c9-35e430389e5f",
    }


def _actor_details(actor: Mapping[str, Any]) -> dict[str, Any]:
    dead, waits = actor["state"] == "DEAD", actor["state"] == "PENDING_CREATION"
    words = {"error_message": "The actor is dead because it was killed by `ray.kill`.", "reason": "RAY_KILL"}
    return {
        "serialized_runtime_env": '{"working_dir": "gcs://_ray_pkg_a460a5db6a0bbe2c.zip"}',
        "required_resources": {"GPU": 8.0, "CPU": 16.0} if waits else {"GPU": 1.0, "CPU": 1.0},
        "death_cause": {"actor_died_error_context": words} if dead else None,
        "is_detached": False,
        "placement_group_id": None,
        "repr_name": "",
        "num_restarts": "0",
        "num_restarts_due_to_lineage_reconstruction": "0",
        "num_restarts_due_to_node_preemption": "0",
        "call_site": None,
        "label_selector": {},
        "fallback_strategy": None,
    }


def _logical_actor(actor: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "actorId": actor["actor_id"],
        "jobId": actor["job_id"],
        "address": {"nodeId": actor["node_id"], "ipAddress": "10.0.0.1", "port": 43363, "workerId": "ab" * 28},
        "className": actor["class_name"],
        "state": actor["state"],
        "numRestarts": "0",
        "name": actor["name"],
        "pid": actor["pid"],
        "requiredResources": {"GPU": 1.0},
    }


def _node_state(number: int, shape: Shape, state: str | None) -> dict[str, Any]:
    dead = state == "DEAD"
    return {
        "node_id": node_id(number),
        "node_ip": _address(number),
        "is_head_node": number == 0,
        "state": "DEAD" if dead else "ALIVE",
        "state_message": "Unexpected termination: health check failed" if dead else None,
        "node_name": f"gpu-{number:04d}",
        "resources_total": {"CPU": float(_CORES), "GPU": float(shape.gpus_per_node), "memory": 1400.0 * _GB},
        "labels": {"ray.io/node-id": node_id(number), "ray.io/accelerator-type": "H100"},
        "start_time_ms": _BEGAN_S * 1000,
        "end_time_ms": (_BEGAN_S + 3600) * 1000 if dead else 0,
    }


def _group_row(number: int, state: str, bundles: list[tuple[str, dict[str, float]]]) -> dict[str, Any]:
    group = _hex("group", number, 36)
    return {
        "placement_group_id": group,
        "name": f"made-{number}",
        "creator_job_id": "01000000",
        "state": state,
        "bundles": [
            {
                "bundle_id": {"placement_group_id": group, "bundle_index": index},
                "unit_resources": resources,
                "node_id": node,
                "label_selector": {},
            }
            for index, (node, resources) in enumerate(bundles)
        ],
        "is_detached": False,
        "stats": {
            "creation_request_received_ns": str(_BEGAN_S * 10**9),
            "scheduling_attempt": 1,
            "scheduling_state": "FINISHED",
            "highest_retry_delay_ms": 0.0,
        },
    }


def _passes(actor: Mapping[str, Any], key: str, predicate: str, wanted: str) -> bool:
    same = str(actor.get(key)) == wanted
    return same if predicate == "=" else not same


def _wave(number: int, variant: int) -> float:
    """Between 0 and 1, another for each number, and a little another for each variant."""
    return 0.5 + 0.45 * math.sin(number * 1.7 + variant * 0.5)


@cache
def _hex(what: str, number: int, length: int) -> str:
    return hashlib.sha256(f"{what} {number}".encode()).hexdigest()[:length]


def _address(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _json(content: Any) -> bytes:
    return json.dumps(content).encode()


def _answer(data: Any, msg: str = "") -> bytes:
    return _json({"result": True, "msg": msg, "data": data})


def _state_answer(result: Any, total: int, taken: int, filtered: int) -> bytes:
    counts = {"total": total, "num_after_truncation": taken, "num_filtered": filtered}
    return _answer({"result": {**counts, "result": result, "partial_failure_warning": "", "warnings": None}})


def _listed(rows: Iterable[dict[str, Any]]) -> bytes:
    listed = list(rows)
    return _state_answer(listed, len(listed), len(listed), len(listed))


def _command(program: str, options: int) -> str:
    return " ".join([program, *(f"--session-option-{number}={_SESSION}/logs" for number in range(options))])


_AGENT = json.dumps(_process(1117, "ray::DashboardAgent"))
_RAYLET_LINE = json.dumps(
    [
        f"{_SITE}/core/src/ray/raylet/raylet",
        f"--raylet_socket_name={_SESSION}/sockets/raylet",
        f"--python_worker_command={_command(f'{_SITE}/_private/workers/setup_worker.py', 16)}",
        f"--java_worker_command={_command(f'{_SITE}/_private/workers/setup_worker.py', 12)}",
        f"--dashboard_agent_command={_command(f'{_SITE}/dashboard/agent.py', 16)}",
        f"--runtime_env_agent_command={_command(f'{_SITE}/_private/runtime_env/agent/main.py', 14)}",
        f"--log_dir={_SESSION}/logs",
    ]
)

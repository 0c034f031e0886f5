"""Clusters that were made up for the screens, and sources that tell of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from airlane.errors import BackendError
from airlane.top.values import (
    Actor,
    ActorClass,
    Actors,
    AirRun,
    Bundle,
    Demand,
    Gpu,
    GpuProcess,
    Group,
    Job,
    Load,
    Measures,
    Node,
    NodeDetail,
    Panel,
    Process,
    Snapshot,
    TrainRun,
    Use,
)

NOW = 1_800_000_000.0
GB = 10**9
HARD_WORDS = "python -c 'print(\"日本語の入口 👩\u200d🚀 e\u0301te\u0301\")'\n# [bold]not markup[/bold]"


def made_up_gpu(index: int, *, busy: float, used: int, degrees: float, pids: Sequence[int] = ()) -> Gpu:
    """A GPU that was never there."""
    return Gpu(
        index=index,
        name="NVIDIA H100 80GB HBM3",
        uuid=f"GPU-made-up-{index}",
        utilization=busy,
        memory_used=used * GB,
        memory_total=80 * GB,
        temperature_c=degrees,
        power_w=80.0 + 6 * busy,
        processes=tuple(GpuProcess(pid, memory=used * GB // len(pids)) for pid in pids),
    )


def made_up_gpu_node(number: int, **changes: object) -> Node:
    """One of four nodes with eight GPUs each, that were never there."""
    gpus = tuple(
        made_up_gpu(
            index,
            busy=min(100.0, 55.0 + 7 * index + 3 * number),
            used=min(80, 30 + 6 * index + number),
            degrees=58.0 + 4 * index + number,
            pids=(4100 + 10 * number + index,),
        )
        for index in range(8)
    )
    measures = Measures(
        at=NOW - 1,
        cpu=31.5 + 14 * number,
        cores=96,
        load=30.2 + number,
        memory_used=(310 + 150 * number) * GB,
        memory_total=1000 * GB,
        store_used=(8 + number) * GB,
        store_total=200 * GB,
        disk_used=(900 + 200 * number) * GB,
        disk_total=1800 * GB,
        disk_read=12.5e6,
        disk_write=3.2e6,
        received=250e6 + number * 1e6,
        sent=240e6,
        gpus=gpus,
    )
    made = Node(
        id=f"{number}a" * 28,
        name=f"gpu-b{16 + number}",
        address=f"10.2.0.{16 + number}",
        hostname=f"gpu-b{16 + number}",
        state="ALIVE",
        head=number == 0,
        started_at=NOW - 11_520,
        resources={"CPU": 96.0, "GPU": 8.0, "memory": 900.0 * GB},
        labels={"ray.io/node-id": f"{number}a" * 28, "ray.io/accelerator-type": "H100"},
        measures=measures,
    )
    return replace(made, **changes)  # type: ignore[arg-type] # a test's own words


def made_up_gpu_cluster() -> Snapshot:
    """Four nodes of eight GPUs each, busy; every kind of row is there. The GPUs are made up."""
    nodes = tuple(made_up_gpu_node(number) for number in range(4))
    runs = (
        AirRun(
            id="7m0c2x1a",
            experiment="sft-qwen",
            state="RUNNING",
            phase="running",
            started_at=NOW - 124,
            compute="8 × H100",
            where="hpc",
            slurm="48211, partition gpu, 3h 12m left",
            here=True,
        ),
    )
    train = (
        TrainRun(id="c0ffee", name="pretrain", state="RUNNING", job_id="02000000", workers=32, started_at=NOW - 7_000),
    )
    return Snapshot(
        at=NOW,
        cluster="hpc-ray",
        ray_version="2.60.0",
        nodes=Panel(nodes, at=NOW),
        load=Panel(
            Load(
                use=(Use("CPU", 130.0, 384.0), Use("GPU", 32.0, 32.0), Use("memory", 0.0, 3600.0 * GB)),
                demands=(Demand(3, {"GPU": 8.0, "CPU": 64.0}), Demand(1, {"CPU": 512.0}, group=True)),
            ),
            at=NOW,
        ),
        jobs=Panel(made_jobs(nodes), at=NOW),
        actors=Panel(made_actors(nodes), at=NOW),
        groups=Panel(made_groups(nodes), at=NOW),
        train=Panel(train, at=NOW),
        runs=Panel(runs, at=NOW),
    )


def made_jobs(nodes: Sequence[Node]) -> tuple[Job, ...]:
    return (
        Job(
            id="raysubmit_pretrain7b",
            driver_id="02000000",
            state="RUNNING",
            entrypoint="python -m pretrain --config configs/7b.yaml --data /data/c4",
            message="Job is currently running.",
            started_at=NOW - 7_260,
            node_id=nodes[0].id,
            pid=4099,
            metadata={"team": "language"},
        ),
        Job(
            id="raysubmit_evaluate",
            driver_id="03000000",
            state="FAILED",
            entrypoint="python evaluate.py --split test",
            message="Job entrypoint command failed with exit code 1, last available logs:\nKeyError: 'answer'",
            started_at=NOW - 3_000,
            ended_at=NOW - 2_940,
            node_id=nodes[1].id,
        ),
        Job(id="raysubmit_waiting", state="PENDING", entrypoint="python sweep.py", started_at=NOW - 20),
        Job(
            id="01000000",
            driver_id="01000000",
            state="SUCCEEDED",
            entrypoint="python prepare.py",
            started_at=NOW - 9_000,
            ended_at=NOW - 8_000,
            submitted=False,
        ),
    )


def made_actors(nodes: Sequence[Node]) -> Actors:
    living = tuple(
        Actor(
            id=f"{number:032x}",
            class_name="RayTrainWorker",
            name=f"rank-{number}",
            state="ALIVE",
            job_id="02000000",
            node_id=nodes[number // 8].id,
            pid=4100 + 10 * (number // 8) + number % 8,
            restarts=int(number == 5),
            resources={"CPU": 4.0, "GPU": 1.0},
        )
        for number in range(32)
    )
    waiting = Actor(
        id="ff" * 16,
        class_name="Evaluator",
        state="PENDING_CREATION",
        job_id="02000000",
        resources={"CPU": 512.0},
        why="needs 512 CPU: no node has more than 96",
    )
    classes = (
        ActorClass("RayTrainWorker", {"ALIVE": 32, "DEAD": 118}),
        ActorClass("Evaluator", {"PENDING_CREATION": 1}),
        ActorClass("JobSupervisor", {"ALIVE": 1, "RESTARTING": 1}),
    )
    return Actors(classes, (*living, waiting))


def made_groups(nodes: Sequence[Node]) -> tuple[Group, ...]:
    return (
        Group(
            id="ab" * 18,
            name="pretrain",
            state="CREATED",
            strategy="PACK",
            job_id="02000000",
            bundles=tuple(Bundle(index, {"GPU": 8.0, "CPU": 32.0}, node.id) for index, node in enumerate(nodes)),
            asked_at=NOW - 7_100,
        ),
        Group(
            id="cd" * 18,
            name="too-big",
            state="PENDING",
            strategy="STRICT_PACK",
            job_id="02000000",
            bundles=(Bundle(0, {"CPU": 512.0}),),
            asked_at=NOW - 60,
            why="no node has 512 CPU",
        ),
    )


def plain_cluster() -> Snapshot:
    """One machine without GPUs, and nothing to do."""
    measures = Measures(at=NOW, cpu=4.5, cores=2, load=0.1, received=812.0, sent=0.0)
    measures = replace(measures, memory_used=4 * GB, memory_total=25 * GB)
    node = Node(
        id="0b" * 28, name="laptop", address="127.0.0.1", hostname="laptop", state="ALIVE", head=True, measures=measures
    )
    return Snapshot(
        at=NOW,
        cluster="http://127.0.0.1:8265",
        ray_version="2.55.1",
        nodes=Panel((replace(node, started_at=NOW - 59),), at=NOW),
        load=Panel(Load(use=(Use("CPU", 0.0, 2.0),)), at=NOW),
        jobs=Panel((), at=NOW),
        actors=Panel(Actors(), at=NOW),
        groups=Panel((), at=NOW),
        train=Panel((), at=NOW),
        runs=Panel((), at=NOW),
    )


def broken_cluster() -> Snapshot:
    """Dead, stale and silent nodes, answers that failed, lists that were cut, words that are hard to show."""
    whole = made_up_gpu_cluster()
    first, second, third, fourth = whole.nodes.data
    nodes = (
        first,
        replace(second, stale=True),
        replace(third, state="DEAD", why="health check failed: 5 heartbeats are missing", ended_at=NOW - 300),
        replace(fourth, name="計算ノード-東京", measures=Measures()),
        Node(id="dd" * 28, address=first.address, state="DEAD", why="[red]preempted[/red]", ended_at=NOW - 900),
    )
    jobs = (
        Job(
            id="raysubmit_unicode",
            state="RUNNING",
            entrypoint=HARD_WORDS,
            started_at=NOW - 5,
        ),
        Job(id="raysubmit_odd", state="A_NEW_STATE", entrypoint=""),
    )
    return replace(
        whole,
        nodes=Panel(nodes, at=NOW - 12, trouble="HTTP 500"),
        jobs=Panel(jobs, at=NOW),
        actors=Panel(whole.actors.data, at=NOW, cut=10_204),
        groups=Panel(whole.groups.data, at=NOW - 40, trouble="no answer within 5s"),
        train=Panel((), at=NOW),
    )


def silent_cluster() -> Snapshot:
    """The head is away, and was there before."""
    whole = made_up_gpu_cluster()
    return replace(whole, answers=False, trouble="connection refused", at=NOW + 12)


def made_detail(node: Node) -> NodeDetail:
    workers = tuple(
        Process(
            pid=4100 + index,
            what="ray::RayTrainWorker",
            cpu=101.0 + index,
            memory=(9 + index) * GB,
            gpu_memory=36 * GB,
            job_id="02000000",
            actor_id=f"{index:032x}",
        )
        for index in range(8)
    )
    agent = Process(pid=811, what="ray::DashboardAgent", cpu=0.4, memory=90_000_000)
    actors = tuple(actor for actor in made_actors([node] * 4).living if actor.node_id == node.id)[:8]
    return NodeDetail(node.id, (*workers, agent), actors)


class MadeSource:
    """Tells what it is given; the last one for ever, or `once`, and then nothing more."""

    def __init__(self, *snapshots: Snapshot, once: bool = False) -> None:
        self.once = once
        self.snapshots = list(snapshots)
        self.asked = 0
        self.stopped: list[str] = []
        self.refuses: str | None = None
        self.log: asyncio.Queue[str | None] = asyncio.Queue()
        self.log_ends_with: str | None = None
        self.closed = False

    async def snapshot(self) -> Snapshot:
        self.asked += 1
        if self.once and self.asked > 1:
            await asyncio.Event().wait()
        return self.snapshots.pop(0) if len(self.snapshots) > 1 else self.snapshots[0]

    async def node(self, node_id: str) -> Panel[NodeDetail]:
        node = next((one for one in self.snapshots[0].nodes.data if one.id == node_id), None)
        if node is None or not node.alive:
            return Panel(NodeDetail(node_id), trouble="its agent is gone")
        return Panel(made_detail(node), at=NOW)

    async def follow_job_log(self, job_id: str, take: Callable[[str], None]) -> str | None:
        take(f"log of {job_id}\n")
        while (piece := await self.log.get()) is not None:
            take(piece)
        return self.log_ends_with

    async def stop_job(self, job_id: str) -> str:
        if self.refuses:
            raise BackendError(self.refuses)
        self.stopped.append(job_id)
        return f"{job_id} is stopping"

    def close(self) -> None:
        self.closed = True

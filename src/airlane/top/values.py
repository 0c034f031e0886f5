"""What `air top` knows of a cluster at one moment: plain frozen values, whoever shows, records or prints them.

Nobody changes one. Those of which a large cluster makes ten thousand in every round are not declared frozen all the
same: making a frozen one takes seven times as long.

Sizes are in bytes, rates in bytes/s, shares in percent, times in seconds since the epoch. None is "not told".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Panel(Generic[T_co]):
    """What one kind of question brought. `data` is the last answer, and stays when a later one fails.

    `at` is when that answer came; `trouble` says why the latest question has none, and is None when it has one.
    `cut` is how many rows there are beyond those in `data`.
    """

    data: T_co
    at: float | None = None
    trouble: str | None = None
    cut: int = 0

    def age_s(self, now: float) -> float | None:
        return None if self.at is None else max(0.0, now - self.at)


@dataclass(slots=True)
class GpuProcess:
    """A process on a GPU, as the node's agent sees it."""

    pid: int
    memory: int | None = None
    utilization: float | None = None


@dataclass(slots=True)
class Gpu:
    """One device of a node."""

    index: int
    name: str = ""
    uuid: str = ""
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    processes: tuple[GpuProcess, ...] = ()


@dataclass(slots=True)
class Measures:
    """What a node's own agent measured. `at` is the node's clock: it stands still when the agent does."""

    at: float | None = None
    cpu: float | None = None
    cores: int | None = None
    load: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    store_used: int | None = None
    store_total: int | None = None
    disk_used: int | None = None
    disk_total: int | None = None
    disk_read: float | None = None
    disk_write: float | None = None
    received: float | None = None
    sent: float | None = None
    gpus: tuple[Gpu, ...] = ()


@dataclass(slots=True)
class Node:
    """One node, by its id: an address may have been another node's before.

    `stale` says that its measures stand still although it is alive to the head: it hangs, or is cut off.
    """

    id: str
    name: str = ""
    address: str = ""
    hostname: str = ""
    state: str = ""
    why: str | None = None
    head: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    measures: Measures = field(default_factory=Measures)
    stale: bool = False

    @property
    def alive(self) -> bool:
        return self.state == "ALIVE"


@dataclass(slots=True)
class Process:
    """A worker, or an agent of Ray, on a node. `cpu` is of one core, so that several cores are above 100."""

    pid: int
    what: str = ""
    cpu: float | None = None
    memory: int | None = None
    gpu_memory: int | None = None
    job_id: str | None = None
    actor_id: str | None = None


@dataclass(slots=True)
class Job:
    """A job, or a driver that was started without one. `id` is what `air ray job` takes, `driver_id` Ray's own."""

    id: str
    driver_id: str | None = None
    state: str = ""
    entrypoint: str = ""
    message: str | None = None
    started_at: float | None = None
    ended_at: float | None = None
    node_id: str | None = None
    pid: int | None = None
    submitted: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.state in ("STOPPED", "SUCCEEDED", "FAILED")


@dataclass(frozen=True, slots=True)
class ActorClass:
    """How many actors of a class are in which state."""

    name: str
    states: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.states.values())


@dataclass(slots=True)
class Actor:
    """One actor. `why` says what it waits for, or what ended it."""

    id: str
    class_name: str = ""
    name: str = ""
    state: str = ""
    job_id: str | None = None
    node_id: str | None = None
    pid: int | None = None
    restarts: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    group_id: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Actors:
    """All classes with their counts; one by one those that are not dead, as far as Ray tells them."""

    classes: tuple[ActorClass, ...] = ()
    living: tuple[Actor, ...] = ()


@dataclass(slots=True)
class Bundle:
    """What a placement group has set aside on a node; `node_id` is None until it has."""

    index: int
    resources: Mapping[str, float] = field(default_factory=dict)
    node_id: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A placement group. `why` says what it waits for."""

    id: str
    name: str = ""
    state: str = ""
    strategy: str | None = None
    job_id: str | None = None
    bundles: tuple[Bundle, ...] = ()
    asked_at: float | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """How much of a logical resource is taken, as Ray's scheduler counts it."""

    resource: str
    used: float
    total: float


@dataclass(frozen=True, slots=True)
class Demand:
    """What waits for resources: so many requests of one shape. `group` says that it is a placement group's."""

    count: int
    shape: Mapping[str, float] = field(default_factory=dict)
    group: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """What the scheduler has given away, and what it could not give yet."""

    use: tuple[Use, ...] = ()
    demands: tuple[Demand, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainRun:
    """A run of Ray Train."""

    id: str
    name: str = ""
    state: str = ""
    detail: str | None = None
    job_id: str | None = None
    workers: int | None = None
    started_at: float | None = None
    ended_at: float | None = None


@dataclass(frozen=True, slots=True)
class AirRun:
    """A run of Airlane's, known on this machine. `slurm` is its job in words: number, partition, time left."""

    id: str
    experiment: str = ""
    state: str = ""
    phase: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    compute: str = ""
    where: str = ""
    slurm: str | None = None
    here: bool = False
    """Whether it runs on the cluster that is looked at."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One round. `answers` is whether the head was there for any question of it."""

    at: float
    cluster: str
    ray_version: str | None = None
    answers: bool = True
    trouble: str | None = None
    nodes: Panel[tuple[Node, ...]] = field(default_factory=lambda: Panel(()))
    load: Panel[Load] = field(default_factory=lambda: Panel(Load()))
    jobs: Panel[tuple[Job, ...]] = field(default_factory=lambda: Panel(()))
    actors: Panel[Actors] = field(default_factory=lambda: Panel(Actors()))
    groups: Panel[tuple[Group, ...]] = field(default_factory=lambda: Panel(()))
    train: Panel[tuple[TrainRun, ...]] = field(default_factory=lambda: Panel(()))
    runs: Panel[tuple[AirRun, ...]] = field(default_factory=lambda: Panel(()))

    @property
    def panels(self) -> Mapping[str, Panel[object]]:
        """By the name that people read."""
        return {
            "nodes": self.nodes,
            "load": self.load,
            "jobs": self.jobs,
            "actors": self.actors,
            "placement groups": self.groups,
            "Train runs": self.train,
            "Airlane runs": self.runs,
        }


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """What is asked for one node alone, when somebody looks at it."""

    id: str
    processes: tuple[Process, ...] = ()
    actors: tuple[Actor, ...] = ()

"""The Ray cluster that a training runs on, and how it is shared out among workers."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from recipes.errors import RecipeError

# What Ray prints and measures of itself, which helps nobody who trains a model. Ray reads it when it is imported.
QUIET = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed while executing a task",  # the driver says that shorter
    "RAY_DISABLE_WORKER_LOG_PREFIX": "1",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",
    "RAY_TRAIN_ENABLE_WORKER_STRUCTURED_LOGGING": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
# Marks processes that have to live while the training answers a SIGTERM: `air` sends them none before.
STOPS_LAST = "AIR_STOPS_LAST"
KNOCK_S = 10.0


@dataclass(frozen=True)
class Cluster:
    """The workers, one for each GPU, or, without GPUs, for so many cores.

    `workers` None is $WORLD_SIZE, else the GPUs of the cluster, else 1. With `min_workers` the training starts as soon
    as so many have room, and grows to `workers`. `max_failures` counts failures in a row without a newer checkpoint.
    """

    workers: int | None = None
    min_workers: int | None = None
    cpus_per_worker: int | None = None
    max_failures: int = 3


@dataclass(frozen=True)
class Share:
    """What the training takes of a cluster; `least` workers or more, each with so many CPUs and perhaps a GPU."""

    workers: int
    least: int
    cpus: int
    gpu: bool


def contradictions(settings: Cluster) -> Iterator[str]:
    """Settings that no workers can be started with."""
    for name in ("workers", "min_workers", "cpus_per_worker"):
        value = getattr(settings, name)
        if value is not None and value < 1:
            yield f"cluster.{name}={value} has to be 1 or more"
    if settings.max_failures < 0:
        yield f"cluster.max_failures={settings.max_failures} has to be 0 or more"
    if settings.workers is not None and (settings.min_workers or 1) > settings.workers:
        yield f"cluster.min_workers={settings.min_workers} is more than cluster.workers={settings.workers}"


def connect(settings: Cluster) -> None:
    """Join the cluster at $RAY_ADDRESS, such as that of `ray: {}`; without one, start one on this machine.

    Raises:
        RecipeError: there is no cluster at that address.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    import ray

    # Ray warns of its own troubles in every process; what matters to a training is told by the driver.
    quiet = {"logging_level": "error", "logging_config": ray.LoggingConfig(log_level="ERROR")}
    if address := os.environ.get("RAY_ADDRESS"):
        try:
            knock(address)
            ray.init(address=address, **quiet)
        except OSError as error:
            raise RecipeError(
                [f"no Ray cluster can be joined at $RAY_ADDRESS, {address}: {error.__cause__ or error}"],
                "Without RAY_ADDRESS the training starts a cluster on this machine",
            ) from error
        return
    before = os.environ.get(STOPS_LAST)
    os.environ[STOPS_LAST] = "ray"
    try:
        cores = max(len(os.sched_getaffinity(0)), wanted_workers(settings, 0))
        ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
    finally:
        if before is None:
            del os.environ[STOPS_LAST]
        else:
            os.environ[STOPS_LAST] = before


def knock(address: str) -> None:
    """Find out in seconds that nothing is at HOST:PORT, for which Ray takes minutes; other addresses Ray looks up.

    Raises:
        OSError: nothing answers.
    """
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S).close()


def share(settings: Cluster, nodes: Sequence[dict[str, Any]]) -> Share:
    """What to take of nodes as `ray.nodes()` lists them.

    Raises:
        RecipeError: there is no room for the workers.
    """
    resources = [node["Resources"] for node in nodes if node["Alive"]]
    gpus = int(sum(one.get("GPU", 0) for one in resources))
    workers = wanted_workers(settings, gpus)
    least = settings.min_workers or workers
    slots = [(int(one.get("CPU", 0)), int(one.get("GPU", 0)) if gpus else None) for one in resources]
    cpus = settings.cpus_per_worker or most_cpus(slots, workers) or most_cpus(slots, least) or 1
    room = sum(places(slot, cpus) for slot in slots)
    if room < least:
        setting = "min_workers" if settings.min_workers else "workers"
        total = f"{gpus} GPUs and " * bool(gpus) + f"{sum(cores for cores, _ in slots)} CPUs"
        raise RecipeError(
            [f"cluster.{setting}={least}: the cluster has room for {room} ({total}, {cpus} CPUs for each worker)"],
            "Ask for fewer workers, for fewer cluster.cpus_per_worker, or for more accelerators in `compute`",
        )
    return Share(workers, least, cpus, gpu=bool(gpus))


def wanted_workers(settings: Cluster, gpus: int) -> int:
    return settings.workers or int(os.environ.get("WORLD_SIZE", "0")) or gpus or 1


def most_cpus(slots: Sequence[tuple[int, int | None]], workers: int) -> int:
    """The most CPUs that each worker can have; 0 where they have no room."""
    largest = max((cpus for cpus, _ in slots), default=0)
    fit = (cpus for cpus in range(largest, 0, -1) if sum(places(slot, cpus) for slot in slots) >= workers)
    return next(fit, 0)


def places(slot: tuple[int, int | None], cpus: int) -> int:
    """How many workers with so many CPUs a node takes; its GPUs are None where none are used."""
    cores, gpus = slot
    return cores // cpus if gpus is None else min(cores // cpus, gpus)

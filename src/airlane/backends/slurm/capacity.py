"""Whether a run can ever fit a partition, before it is submitted."""

from __future__ import annotations

from collections.abc import Sequence

from airlane.backends.base import Compute, NodeSize
from airlane.backends.slurm.cluster import NodeGroup, Partition
from airlane.backends.slurm.durations import write_duration
from airlane.backends.slurm.hostlist import hostnames
from airlane.backends.slurm.options import SlurmOptions
from airlane.backends.slurm.refusals import no_default_partition, no_partition
from airlane.backends.slurm.scheduler import Slurm
from airlane.errors import AirError, BackendError, CapacityError, ConfigError
from airlane.frozen import frozen
from airlane.spec.accelerators import parse_accelerator_type

_MB_OF_UNIT = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


@frozen
class NodeNeed:
    """What a run asks of each node; `memory_mb` and `cpus` are 0 where the cluster's defaults decide."""

    cpus: int
    memory_mb: float
    gres: str | None
    accelerators: int
    model: str | None

    def met_by(self, group: NodeGroup) -> bool:
        enough = group.cpus >= self.cpus and group.memory_mb >= self.memory_mb
        return enough and (self.gres is None or group.has(self.gres) >= self.accelerators)


def check(compute: Compute, options: SlurmOptions, slurm: Slurm) -> tuple[str, ...]:
    """Lines for people about where the run would go.

    Raises:
        CapacityError: no partition of the profile can ever hold the run; the message says what there is.
        ConfigError: the partition does not exist, or is closed.
        SlurmUnavailableError: Slurm did not answer.
    """
    refused: AirError | None = None
    for partition in chosen(options, slurm.partitions()):
        try:
            return _check_one(compute, options, partition, slurm.groups(partition.name))
        except (CapacityError, ConfigError) as error:
            refused = refused or error
    raise refused or BackendError("Slurm names no partition", hint="sinfo")


def chosen(options: SlurmOptions, partitions: Sequence[Partition]) -> list[Partition]:
    """The partitions that the profile names, or the cluster's default.

    Raises:
        ConfigError: there is no such partition.
    """
    names = [partition.name for partition in partitions]
    if options.partition is None:
        found = [partition for partition in partitions if partition.default]
        if not found:
            raise no_default_partition(names)
        return found
    by_name = {partition.name: partition for partition in partitions}
    wanted = options.partition.split(",")
    for name in wanted:
        if name not in by_name:
            raise no_partition(name, names)
    return [by_name[name] for name in wanted]


def max_time_s(options: SlurmOptions, slurm: Slurm) -> int | None:
    """The longest that the profile's partitions let a run take; None without a limit.

    Raises:
        ConfigError: there is no such partition.
        SlurmUnavailableError: Slurm did not answer.
    """
    limits = [partition.max_time_s for partition in chosen(options, slurm.partitions())]
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None


def node_size(nodes: int, options: SlurmOptions, slurm: Slurm) -> NodeSize:
    """What the largest nodes have, of which there are so many.

    Raises:
        CapacityError: there are not so many.
        ConfigError: there is no such partition.
        SlurmUnavailableError: Slurm did not answer.
    """
    groups = [group for partition in chosen(options, slurm.partitions()) for group in slurm.groups(partition.name)]
    fit = sorted(
        (group for group in groups if group.fit), key=lambda group: (group.has("gpu"), group.cpus), reverse=True
    )
    found = 0
    for group in fit:
        found += group.count
        if found >= nodes:
            return NodeSize(gpus=group.has("gpu"), cpus=group.cpus)
    raise CapacityError(f"the cluster has {found} nodes that are fit for a run (asked for: {nodes})", hint="sinfo")


def _need(compute: Compute, options: SlurmOptions) -> NodeNeed:
    gres = None if compute.simulate else options.gres(compute.accelerator_type)
    parsed = parse_accelerator_type(compute.accelerator_type)
    model = parsed.model if parsed is not None else compute.accelerator_type.rpartition("x")[2]
    return NodeNeed(
        cpus=options.cpus(compute.accelerator_type, compute.accelerators_per_node) or 0,
        memory_mb=_megabytes(options.memory_per_node),
        gres=gres,
        accelerators=compute.accelerators_per_node,
        model=None if compute.accelerator_type.startswith("CPU_") else model,
    )


def _megabytes(size: str | None) -> float:
    if size is None:
        return 0
    return int(size[:-1]) * _MB_OF_UNIT[size[-1]] if size[-1] in _MB_OF_UNIT else int(size)


def _check_one(
    compute: Compute, options: SlurmOptions, partition: Partition, groups: Sequence[NodeGroup]
) -> tuple[str, ...]:
    if not partition.up:
        raise ConfigError(
            f"Slurm's partition {partition.name!r} is closed", hint="sinfo shows those that are up; set partition"
        )
    need = _need(compute, options)
    excluded = frozenset(hostnames(options.exclude or ""))
    usable = [(group, sum(host not in excluded for host in group.hosts)) for group in groups]
    fitting = [(group, count) for group, count in usable if need.met_by(group)]
    total = sum(count for _, count in fitting)
    most = total if partition.max_nodes is None else min(total, partition.max_nodes)
    if most < compute.nodes:
        raise _too_little(compute, need, partition, usable, most)
    return tuple(_lines(compute, options, partition, fitting, need))


def _too_little(
    compute: Compute, need: NodeNeed, partition: Partition, usable: Sequence[tuple[NodeGroup, int]], most: int
) -> CapacityError:
    asked = f"asked for: {_count(compute.nodes, 'node')} with {_wanted(need)}"
    if most:
        limit = "" if partition.max_nodes != most else " for one run"
        message = f"Slurm's partition {partition.name!r} has {_count(most, 'node')} like that{limit} ({asked})"
        return CapacityError(message, hint=f"use num_accelerators: {most * compute.accelerators_per_node} or fewer")
    shapes = dict.fromkeys(_shape(group) for group, count in usable if count)
    there_are = "; ".join(shapes) or "none"
    hint = f"its nodes: {there_are}"
    if need.gres is not None and not any(group.has(need.gres) for group, _ in usable):
        hint += f'; a model is named by accelerators = {{ {need.model} = "gpu:NAME" }} in the profile'
    return CapacityError(f"no node of Slurm's partition {partition.name!r} can hold the run ({asked})", hint=hint)


def _wanted(need: NodeNeed) -> str:
    parts = []
    if need.gres is not None:
        parts.append(f"{need.gres}:{need.accelerators}")
    if need.cpus:
        parts.append(_count(need.cpus, "CPU"))
    if need.memory_mb:
        parts.append(f"{need.memory_mb:.0f} MB of memory")
    return ", ".join(parts) or "nothing in particular"


def _shape(group: NodeGroup) -> str:
    gres = ",".join(f"{name}:{count}" for name, count in group.gres.items())
    return ", ".join(filter(None, [gres, f"{group.cpus} CPUs", f"{group.memory_mb} MB"]))


def _lines(
    compute: Compute,
    options: SlurmOptions,
    partition: Partition,
    fitting: Sequence[tuple[NodeGroup, int]],
    need: NodeNeed,
) -> list[str]:
    idle = sum(count for group, count in fitting if group.fit and "IDLE" in group.states)
    free = f"{idle} of {sum(count for _, count in fitting)} free now"
    where = f"{_count(compute.nodes, 'node')} of Slurm's partition {partition.name} ({free})"
    lines = [f"{_asked(compute, need)} on {where}"]
    others = sorted({name for group, _ in fitting for name in group.gres if name.startswith(f"{need.gres}:")})
    if need.model is not None and others and not any(need.model.lower() in name.lower() for name in others):
        lines.append(f"its accelerators are {', '.join(others)} (the file says {need.model})")
    alive = sum(count for group, count in fitting if group.fit)
    if alive < compute.nodes:
        lines.append(
            f"only {_count(alive, 'node')} that could hold it {'is' if alive == 1 else 'are'} up: it waits for others"
        )
    if partition.max_time_s is not None and options.time_s is not None and options.time_s > partition.max_time_s:
        lines.append(f"partition {partition.name} ends runs after {write_duration(partition.max_time_s)}")
    if need.gres is not None and not need.cpus and (share := _cpu_share(fitting, need.gres)):
        lines.append(
            f"the cluster's default says how many CPUs it gets: cpus_per_accelerator = {share} takes a fair share"
        )
    return lines


def _asked(compute: Compute, need: NodeNeed) -> str:
    number = compute.nodes * compute.accelerators_per_node
    if need.model is None:
        return _count(number, "CPU core")
    return f"{number} × {'simulated ' if compute.simulate else ''}{need.model}"


def _cpu_share(fitting: Sequence[tuple[NodeGroup, int]], gres: str) -> int:
    """The CPUs of a node for each of its accelerators."""
    return min((group.cpus // group.has(gres) for group, _ in fitting if group.has(gres)), default=0)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")

"""What Slurm says of partitions and nodes, read into frozen values. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from airlane.backends.slurm.durations import read_duration
from airlane.backends.slurm.hostlist import hostnames
from airlane.backends.slurm.jobs import read_pairs
from airlane.frozen import frozen

# States of a node that cannot take work, whatever else is said of it (sinfo(1), "NODE STATE CODES").
_UNFIT = frozenset({"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "NOT_RESPONDING", "NO_RESPOND"})
_UNFIT |= {"MAINT", "REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED", "POWERING_DOWN", "INVAL", "UNKNOWN", "ERROR"}
_MARKS = {"*": "NOT_RESPONDING", "$": "MAINT", "@": "REBOOT", "%": "POWERING_DOWN", "!": "POWERING_DOWN"}


@frozen
class Partition:
    """A partition. `max_time_s` and `max_nodes` are None without a limit.

    `preempt_mode` is what happens to jobs there when others go first: "OFF" if nothing can, "REQUEUE", "CANCEL", ...
    """

    name: str
    default: bool
    up: bool
    max_time_s: int | None
    max_nodes: int | None
    total_nodes: int
    preempt_mode: str


@frozen
class SlurmNode:
    """A node. `states` are Slurm's words for it, as ("IDLE", "NOT_RESPONDING")."""

    name: str
    states: tuple[str, ...]

    @property
    def fit(self) -> bool:
        """Whether it can take work, now or when what runs there has ended."""
        return not _UNFIT & set(self.states)


@frozen
class NodeGroup:
    """Nodes of a partition that are alike."""

    count: int
    cpus: int
    memory_mb: int
    states: tuple[str, ...]
    gres: Mapping[str, int]
    hosts: tuple[str, ...]

    @property
    def fit(self) -> bool:
        return not _UNFIT & set(self.states)

    def has(self, gres: str) -> int:
        """How many of a GRES are on each node; "gpu" counts every type of it."""
        return sum(count for name, count in self.gres.items() if name == gres or name.startswith(f"{gres}:"))


def read_partitions(text: str) -> tuple[Partition, ...]:
    """The partitions in the answer of `scontrol --oneliner show partition`."""
    found = []
    for line in text.splitlines():
        fields = read_pairs(line)
        if "PartitionName" in fields:
            found.append(_partition(fields))
    return tuple(found)


def _partition(fields: Mapping[str, str]) -> Partition:
    most = fields.get("MaxNodes", "")
    return Partition(
        name=fields["PartitionName"],
        default=fields.get("Default") == "YES",
        up=fields.get("State") == "UP",
        max_time_s=read_duration(fields.get("MaxTime", "")),
        max_nodes=int(most) if most.isdigit() else None,
        total_nodes=int(fields.get("TotalNodes") or 0),
        preempt_mode=fields.get("PreemptMode", "OFF"),
    )


def read_node(text: str) -> SlurmNode | None:
    """The node in the answer of `scontrol --oneliner show node`."""
    fields = read_pairs(text)
    if "NodeName" not in fields:
        return None
    return SlurmNode(name=fields["NodeName"], states=_states(fields.get("State", "")))


def read_groups(text: str) -> tuple[NodeGroup, ...]:
    """The node groups in sinfo's answer to "%D|%c|%m|%T|%G|%N" (a line each)."""
    groups = []
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) != len("DcmTGN") or not parts[0].strip().isdigit():
            continue
        count, cpus, memory, state, gres, names = map(str.strip, parts)
        groups.append(
            NodeGroup(
                count=int(count),
                cpus=_number(cpus),
                memory_mb=_number(memory),
                states=_states(state),
                gres=read_gres(gres),
                hosts=hostnames(names),
            )
        )
    return tuple(groups)


def read_gres(text: str) -> dict[str, int]:
    """Counts by name: "gpu:h100:8(S:0-1),nvme:1" is {"gpu:h100": 8, "nvme": 1}. A name without a count is one."""
    counts: dict[str, int] = {}
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        name, _, last = item.strip().rpartition(":")
        number = re.fullmatch(r"(\d+)([KMG]?)", last)
        if number is None or not name:
            name, count = item.strip(), 1
        else:
            count = int(number[1]) * 1024 ** " KMG".index(number[2] or " ")
        if name and name != "null":
            counts[name] = counts.get(name, 0) + count
    return counts


def _number(text: str) -> int:
    """At least eight for "8+"."""
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else 0


def _states(text: str) -> tuple[str, ...]:
    """Words of scontrol's "MIXED+DRAIN" or sinfo's "drained*"; a mark is said as a word."""
    words = [word for word in text.upper().split("+") if word]
    marks = [_MARKS[mark] for word in words for mark in word[-1:] if mark in _MARKS]
    return (*(word.rstrip("*~#!%$@^-") for word in words), *marks)

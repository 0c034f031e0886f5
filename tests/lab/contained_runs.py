"""Runs in containers on the lab: an engine on each node, and what they leave there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.cluster import Lab
from lab.docker_engine import DockerEngine
from lab.machine import MachineError
from lab.processes import PROC
from lab.slurm_runs import SlurmRuns, wait_until

# From a run's end to the engine's last word about its containers.
GONE_WITHIN_S = 15


class ContainedRuns(SlurmRuns):
    """Runs of one home whose commands are in containers of Docker, one a node."""

    def __init__(self, lab: Lab, folder: Path, engines: Mapping[str, DockerEngine], image: Path) -> None:
        super().__init__(lab, folder)
        self.engines = engines
        self.image = image
        self.profile("lab", container="docker")

    def workload(self, command: str, *, nodes: int = 2, cores: int = 1, **fields: Any) -> Path:
        image = str(fields.pop("image", self.image))
        fields = {"environment": {"docker_image": {"url": image}}, **fields}
        return super().workload(command, nodes=nodes, cores=cores, **fields)

    def container(self, run_id: str, *, node: int, attempt: int = 0) -> str:
        """The name of a node's container."""
        return f"air-{run_id}-{attempt}-{node}"

    def engine_of(self, run_id: str, *, node: int) -> DockerEngine:
        return self.engines[self.hosts(run_id)[node]]

    def ended(self, run_id: str, *, within_s: float) -> dict[str, Any]:
        """The facts of the run when it has ended; no container is left on a node whose engine lives, and no process."""
        facts = super().ended(run_id, within_s=within_s)
        wait_until(lambda: not self.left(run_id), within_s=GONE_WITHIN_S, what=lambda: f"left: {self.left(run_id)}")
        return facts

    def left(self, run_id: str) -> list[str]:
        return containers_of(run_id, self.engines)


def containers_of(run_id: str, engines: Mapping[str, DockerEngine]) -> list[str]:
    """The containers of a run, ended ones included, on every node whose engine answers."""
    return [name for engine in engines.values() for name in _names(engine) if run_id in name]


def temporary_folders(run_id: str) -> list[str]:
    return [str(path) for path in Path("/tmp").glob(f"*{run_id}*")]


def pids_with(variable: str, part: str = "") -> list[int]:
    """The processes whose environment has "NAME=VALUE" and whose command line has `part`, on every node."""
    found = []
    for entry in PROC.iterdir():
        try:
            if (
                entry.name.isdecimal()
                and variable.encode() in (entry / "environ").read_bytes().split(b"\0")
                and part.encode() in (entry / "cmdline").read_bytes()
            ):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _names(engine: DockerEngine) -> list[str]:
    with suppress(MachineError):  # its node is down, and took them along
        return engine.docker("ps", "--all", "--format", "{{.Names}}", check=False).split()
    return []

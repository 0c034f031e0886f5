"""A Docker engine on a node of the lab, as if Docker were installed there and nowhere else."""

from __future__ import annotations

from lab.cluster import Lab
from lab.remains import cgroup_of

_START_S = 60


class DockerEngine:
    """Plain `docker` finds it on its node, because /run is the node's own; it dies with the node."""

    def __init__(self, lab: Lab, node: str) -> None:
        self._lab = lab
        self.node = node

    def start(self, *, group: str = "root") -> None:
        """Starts it, unless it runs, and waits until it answers; `group` may use its socket."""
        if self._answers():
            return
        own = self._lab.own_folder(self.node)
        self._lab.popen(
            self.node,
            [
                "dockerd",
                f"--data-root={own / 'docker'}",
                f"--cgroup-parent=/{cgroup_of(self._lab.number)}/{self.node}",
                f"--group={group}",
                # Containers use the network of their node.
                "--bridge=none",
                "--iptables=false",
                "--ip6tables=false",
            ],
        )
        self._lab.wait_until(self._answers, timeout_s=_START_S)

    def _answers(self) -> bool:
        return self._lab.exec(self.node, ["docker", "version"], check=False).returncode == 0

    def docker(self, *words: str, check: bool = True) -> str:
        """What a `docker` command on the node prints."""
        return self._lab.exec(self.node, ["docker", *words], check=check).stdout.strip()

    def containers(self) -> list[str]:
        """The names of all containers on the node, ended ones included."""
        return self.docker("ps", "--all", "--format", "{{.Names}}").split()

    def remove_containers(self) -> None:
        if containers := self.docker("ps", "--all", "--quiet").split():
            self.docker("rm", "--force", *containers)

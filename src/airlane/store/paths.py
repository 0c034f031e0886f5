"""Every path Airlane keeps, named once."""

from __future__ import annotations

import os
from pathlib import Path

from airlane.frozen import frozen

# The folder where a command without code starts.
SCRATCH = "scratch"


def default_home() -> Path:
    """`$AIR_HOME`, or ~/.air."""
    return Path(os.environ.get("AIR_HOME") or "~/.air").expanduser().absolute()


@frozen
class Home:
    """The folder that holds runs, snapshots, environments and the embedded MLflow server."""

    root: Path

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def snapshots(self) -> Path:
        return self.root / "snapshots"

    @property
    def environments(self) -> Path:
        return self.root / "environments"

    @property
    def images(self) -> Path:
        """What the archives of container images hold, read once each (see environment/container.py)."""
        return self.root / "images"

    @property
    def mlflow(self) -> Path:
        return self.root / "mlflow"

    @property
    def kept(self) -> Path:
        """The names of runs that wait to be uploaded to the MLflow server (see tracking/kept.py)."""
        return self.mlflow / "kept"

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def slots(self) -> Path:
        """Flock-ed accelerator slots and queue tickets of this machine: several may share a home."""
        return self.root / "slots" / os.uname().nodename

    @property
    def tokens(self) -> Path:
        return self.root / "tokens"

    @property
    def index(self) -> Path:
        return self.root / "index.db"

    @property
    def submission_lock(self) -> Path:
        return self.root / "submission.lock"

    @property
    def top(self) -> Path:
        """What `air top` remembers of how it is looked at."""
        return self.root / "top.json"

    @property
    def everything(self) -> tuple[Path, ...]:
        """The home, and all that Airlane puts into it."""
        kept = (self.runs, self.snapshots, self.environments, self.images, self.mlflow, self.secrets, self.tokens)
        return (self.root, *kept, self.slots, self.index, self.submission_lock, self.top)

    def snapshot_archive(self, digest: str) -> Path:
        return self.snapshots / f"{digest}.tar.zst"


@frozen
class RunPaths:
    """The files of one run."""

    root: Path

    @property
    def id(self) -> str:
        return self.root.name

    @property
    def workload(self) -> Path:
        return self.root / "workload.yaml"

    @property
    def record(self) -> Path:
        return self.root / "run.json"

    @property
    def command(self) -> Path:
        return self.root / "command.sh"

    @property
    def parameters(self) -> Path:
        return self.root / "parameters.yaml"

    @property
    def diff(self) -> Path:
        return self.root / "git_diff.patch"

    @property
    def status(self) -> Path:
        return self.root / "status.json"

    @property
    def events(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def verdict(self) -> Path:
        return self.root / "verdict.json"

    @property
    def lock(self) -> Path:
        """Flock-ed by the supervisor for as long as it lives."""
        return self.root / "supervisor.lock"

    @property
    def reserve(self) -> Path:
        """Room on the disk for the run's last word; removed when that is written."""
        return self.root / "reserve"

    @property
    def supervisor_log(self) -> Path:
        return self.root / "supervisor.log"

    @property
    def slurm(self) -> Path:
        """The batch scripts of the run, and the Slurm jobs they became."""
        return self.root / "slurm"

    def slurm_script(self, number: int) -> Path:
        return self.slurm / f"{number}.sh"

    def slurm_record(self, number: int) -> Path:
        return self.slurm / f"{number}.json"

    @property
    def slurm_start(self) -> Path:
        """Which start of which job the run's supervisor is."""
        return self.slurm / "start.json"

    @property
    def ray_job(self) -> Path:
        """What is known of the Ray job that the run is, and of its files' way home (see backends/ray/ledger.py)."""
        return self.root / "ray"

    @property
    def cancel(self) -> Path:
        """Its existence asks the supervisor to cancel the run."""
        return self.root / "cancel.json"

    @property
    def secrets(self) -> Path:
        """Resolved secret values (0600), removed when the run ends."""
        return self.root / "secrets.json"

    @property
    def tracking(self) -> Path:
        """What the run recorded on its own (see tracking/kept.py), until it is uploaded."""
        return self.root / "tracking"

    @property
    def uploaded(self) -> Path:
        """The MLflow runs that it became then."""
        return self.root / "uploaded.json"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def attempts(self) -> Path:
        return self.root / "attempts"

    def attempt(self, attempt: int) -> Path:
        return self.attempts / str(attempt)

    def setup_log(self, attempt: int) -> Path:
        return self.attempt(attempt) / "setup.log"

    def nodes(self, attempt: int) -> Path:
        return self.attempt(attempt) / "nodes"

    def log(self, *, attempt: int, node: int) -> Path:
        return self.nodes(attempt) / f"{node}.log"

    def node_record(self, *, attempt: int, node: int) -> Path:
        return self.nodes(attempt) / f"{node}.json"

    def node_order(self, *, attempt: int, node: int) -> Path:
        """What the supervisor tells the node's agent to do (see launch/order.py)."""
        return self.nodes(attempt) / f"{node}.order.json"

    def node_metrics(self, *, attempt: int, node: int) -> Path:
        return self.nodes(attempt) / f"{node}.metrics.jsonl"

    def code(self, *, attempt: int, node: int) -> Path:
        """Where a node's copy of the snapshot is unpacked; removed when the attempt ends."""
        return self.attempt(attempt) / "code" / str(node)

    def sent(self, *, attempt: int, node: int) -> Path:
        """The run folder as a node gets it that shares no disk with the supervisor."""
        return self.attempt(attempt) / "sent" / str(node)

    def ray(self, attempt: int) -> Path:
        """What the nodes of a run with `ray:` share about their cluster (see launch/ray_settings.py)."""
        return self.attempt(attempt) / "ray"

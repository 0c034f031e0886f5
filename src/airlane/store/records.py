"""What the files of a run folder hold, as frozen values. Times are seconds since the epoch (UTC)."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Any

from airlane.frozen import frozen
from airlane.store.states import Phase, State


class CauseKind(StrEnum):
    """Why an attempt or a run ended."""

    COMPLETED = "completed"
    EXIT_CODE = "exit_code"
    SIGNAL = "signal"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    CANCELED = "canceled"
    SETUP = "setup"
    CAPACITY = "capacity"
    NODE_LOST = "node_lost"
    SUPERVISOR_LOST = "supervisor_lost"
    NODE_FAILED = "node_failed"
    PREEMPTED = "preempted"


@frozen
class Cause:
    """Why something ended: one sentence, the numbers behind it, and the log lines that show it."""

    kind: CauseKind
    summary: str
    node: int | None = None
    host: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    after_s: float | None = None
    finding: str | None = None
    log_lines: tuple[str, ...] = ()
    hint: str | None = None
    collateral_nodes: tuple[int, ...] = ()


@frozen
class GitState:
    """The commit the code came from. `remote_url` carries no credentials; `diff_file` is relative to the run folder."""

    commit: str | None
    branch: str | None
    remote_url: str | None
    dirty: bool
    changed_files: int
    diff_file: str | None = None


@frozen
class SnapshotRecord:
    """The frozen code of a run: `snapshots/<digest>.tar.zst`."""

    digest: str
    root_name: str
    files: int
    size_bytes: int
    git: GitState | None = None


@frozen
class EnvironmentRecord:
    """The environment of a run, as planned; `key` names its folder under environments/ (None for `host`)."""

    base: str
    dependencies: tuple[str, ...]
    python_version: str
    key: str | None


# The name under which a run's secrets hold the registry's USER:PASSWORD.
REGISTRY_LOGIN = "registry login"


@frozen
class ImageRecord:
    """The container image of a run: a registry's reference, or the absolute path of an archive.

    `runtime` is None for the first that a node has. `digests` are what the archive's image is called in an engine, its
    configuration's first; empty until a large archive has been read. `stamp` is the archive's size and time then.
    `credentials` is the secret, scope/key, that opens the registry. `mounts` and `arguments` are the profile's.
    """

    url: str
    is_archive: bool
    runtime: str | None
    digests: tuple[str, ...] = ()
    stamp: str | None = None
    pull_always: bool = False
    credentials: str | None = None
    mounts: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()

    @property
    def secrets(self) -> dict[str, str]:
        """What has to be looked up for the image: a name that no variable can have, to scope/key."""
        return {REGISTRY_LOGIN: self.credentials} if self.credentials is not None else {}

    @property
    def settled(self) -> bool:
        """Whether nothing has to be read before a node can be told what to run."""
        return not self.is_archive or bool(self.digests)


@frozen
class Limits:
    """The budgets of a run."""

    max_retries: int
    timeout_s: float | None
    stop_grace_s: float
    straggler_grace_s: float


@frozen
class RayRecord:
    """The Ray cluster of a run; None where a node offers what it finds."""

    num_cpus: int | None
    object_store_bytes: int | None
    ready_timeout_s: float
    public: bool


@frozen
class RunRecord:
    """run.json: everything fixed at submission. Written once, before the supervisor starts."""

    id: str
    experiment_name: str
    user: str
    submitted_at: float
    workload_file: str
    backend: str
    profile: str | None
    nodes: int
    accelerators: int
    accelerators_per_node: int
    accelerator_type: str
    simulate: bool
    limits: Limits
    environment: EnvironmentRecord
    image: ImageRecord | None = None
    snapshot: SnapshotRecord | None = None
    tracking_uri: str | None = None
    mlflow_run_name: str | None = None
    mlflow_artifact_location: str | None = None
    network: str | None = None
    ray: RayRecord | None = None
    env_variables: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    has_parameters: bool = False
    priority: int = 0
    idempotency_token: str | None = None
    rerun_of: str | None = None
    hosted_only: dict[str, Any] = field(default_factory=dict)
    backend_options: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def secret_refs(self) -> dict[str, str]:
        """Everything that has to be resolved for the run: name to scope/key."""
        return {**self.secrets, **(self.image.secrets if self.image is not None else {})}


@frozen
class Attempt:
    """One try of a run; `ended_at` and `state` are None while it lasts, and `cause` until its end is decided."""

    number: int
    started_at: float
    ended_at: float | None = None
    state: State | None = None
    cause: Cause | None = None
    hosts: tuple[str, ...] = ()
    mlflow_run_id: str | None = None
    mlflow_url: str | None = None


@frozen
class LastMetric:
    """The last value of the metric that says most about a run: its loss, if it has one."""

    name: str
    value: float
    step: int


@frozen
class Status:
    """status.json: written by the supervisor alone, by atomic replace. `place` is what a scheduler calls the run."""

    state: State
    phase: Phase | None
    detail: str | None
    updated_at: float
    supervisor_pid: int
    supervisor_host: str
    attempts: tuple[Attempt, ...] = ()
    cause: Cause | None = None
    ended_at: float | None = None
    tracking_error: str | None = None
    last_metric: LastMetric | None = None
    place: str | None = None


@frozen
class Verdict:
    """verdict.json: the end of a run whose supervisor died, written once by whoever found it dead."""

    state: State
    cause: Cause
    ended_at: float
    decided_by: str


@frozen
class NodeRecord:
    """nodes/<n>.json: written by the node's agent alone, by atomic replace (see launch/agent.py)."""

    node_rank: int
    host: str
    agent_pid: int
    containment: str
    started_at: float
    pid: int | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    oom_kill: bool = False
    stop_reason: str | None = None
    leftovers_killed: int = 0
    network: str | None = None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.ended_at is not None and self.exit_code == 0 and self.error is None

"""Ray clusters: each is the cluster of an ordinary run. `air ray up` submits one whose command only waits."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlencode

from airlane.cluster.reach import LOG_FILE, exec_argv, fetch_through, relay_argv
from airlane.cluster.state import ClusterState, read_state
from airlane.cluster.status import NODES, USAGE, ClusterStatus, read_log_names, read_status
from airlane.errors import BackendError, ConflictError, NotFoundError
from airlane.frozen import frozen
from airlane.launch.ray_rest import RestError
from airlane.spec.profiles import NO_TRACKING
from airlane.store.paths import RunPaths
from airlane.store.runs import RunView

if TYPE_CHECKING:
    from airlane.api.client import Client, Progress
    from airlane.api.planning import RunPlan
    from airlane.api.run import Run
    from airlane.backends.base import Backend, NodeSize

DEFAULT_NAME = "ray-cluster"
_ORIGIN = "ray-cluster.yaml"  # as a file would be called that asks for the same
_COMMAND = "exec sleep infinity  # the cluster is there until it is taken down, or its time is over"
_LOOK_EVERY_S = 0.1
_FETCH_S = 30.0
_ALL = 1 << 30


@frozen
class ClusterRequest:
    """What `air ray up` asks for. `accelerator_type` is that of a workload; `image` in place of an environment."""

    nodes: int
    accelerator_type: str
    accelerators_per_node: int
    image: str | None = None
    timeout_minutes: int | None = None
    name: str = DEFAULT_NAME
    public: bool = False

    def workload_text(self) -> str:
        """The workload that is such a cluster."""
        fields: dict[str, Any] = {
            "experiment_name": self.name,
            "command": _COMMAND,
            "compute": {
                "num_accelerators": self.nodes * self.accelerators_per_node,
                "accelerator_type": self.accelerator_type,
            },
            "environment": {"docker_image": {"url": self.image}} if self.image else {"version": "AI5"},
            "ray": {"dashboard": "public"} if self.public else {},
            "max_retries": 0,
        }
        if self.timeout_minutes is not None:
            fields["timeout_minutes"] = self.timeout_minutes
        return json.dumps(fields, indent=2)  # JSON is YAML, too


@frozen
class Dashboard:
    """A cluster's dashboard: "host:port" as its head's host sees it, and what opens it.

    `relay` is a command that joins its stdin and stdout to one connection with it; empty where the head is here.
    """

    host: str
    address: str
    token_file: Path
    relay: tuple[str, ...]

    @property
    def is_here(self) -> bool:
        return not self.relay


class Clusters:
    """The Ray clusters of a client's runs."""

    def __init__(self, client: Client, backend: Callable[[str], Backend]) -> None:
        self._client = client
        self._backend = backend

    def node_size(self, nodes: int) -> NodeSize:
        """What each of so many nodes can be asked for, where the client's profile sends them.

        Raises:
            CapacityError: there are not so many.
            BackendError: the profile is a Ray cluster itself.
        """
        return self._place().node_size(nodes)

    def _place(self) -> Backend:
        backend = self._backend(self._client.profile.backend)
        if backend.has_environment:
            raise BackendError(
                f"profile {self._client.profile.name} is a Ray cluster already",
                hint="run on it: air run, air ray job submit; or start one elsewhere: air ray up -p PROFILE",
            )
        return backend

    def plan(self, request: ClusterRequest) -> RunPlan:
        """Exactly what `up` would submit.

        Raises:
            SpecError: the request cannot be.
            BackendError: the profile is a Ray cluster itself.
        """
        self._place()
        plan = self._client.plan_text(request.workload_text(), file=_ORIGIN)
        # There is nothing to track: programs that use the cluster have their own tracking.
        return replace(plan, record=replace(plan.record, tracking_uri=NO_TRACKING))

    def up(self, plan: RunPlan, *, progress: Progress | None = None) -> Cluster:
        """Start a cluster; whether it is ready is to be asked for.

        Raises:
            ConflictError: a cluster of that name is running.
        """
        name = plan.record.experiment_name
        if name != DEFAULT_NAME and any(cluster.name == name for cluster in self.list()):
            raise ConflictError(f"a cluster named {name} is running", hint=f"air ray down {name}, or another --name")
        return self._cluster(self._client.submit(plan, progress=progress))

    def list(self) -> tuple[Cluster, ...]:
        """Every cluster that has not ended, the newest first; those of workloads with `ray`, too."""
        views = self._client.list(limit=_ALL)
        found = [view for view in views if view.record.ray is not None and not view.state.terminal]
        return tuple(self._cluster(self._client.get(view.record.id)) for view in found)

    def find(self, name: str | None) -> Cluster:
        """The cluster of a name, a run's id or the beginning of one, or @last; without any, the only one there is.

        Raises:
            NotFoundError: there is none, or more than one.
        """
        running = self.list()
        if name is None and not running:
            raise NotFoundError("there is no Ray cluster", hint="air ray up")
        named = [cluster for cluster in running if name in (None, cluster.name)]
        if len(named) == 1:
            return named[0]
        if named:
            ids = "\n".join(f"{cluster.id}  {cluster.name}" for cluster in named)
            raise NotFoundError(f"there are {len(named)} Ray clusters: name one by its id", hint=ids)
        run = self._client.get(str(name))
        if run.view().record.ray is None:
            raise NotFoundError(f"run {run.id} has no Ray cluster", hint="air ray list")
        return self._cluster(run)

    def _cluster(self, run: Run) -> Cluster:
        return Cluster(run, self._client, self._backend(run.view().record.backend))


class Cluster:
    """The Ray cluster of one run."""

    def __init__(self, run: Run, client: Client, backend: Backend) -> None:
        self.run = run
        self._client = client
        self._backend = backend

    @property
    def id(self) -> str:
        return self.run.id

    @property
    def name(self) -> str:
        return self.run.view().record.experiment_name

    def state(self) -> ClusterState | None:
        """How far it has come; None while its head has not started, and after its end."""
        return state_of(self.run.view())

    def follow(self) -> Iterator[tuple[RunView, ClusterState | None]]:
        """The run and the cluster, whenever one has changed, until the cluster is ready or the run has ended."""
        watcher = self.run.watcher()
        shown: tuple[RunView, ClusterState | None] | None = None
        while True:
            view = watcher.view()
            found = (view, state_of(view))
            if found != shown:
                yield found
                shown = found
            if view.state.terminal or (found[1] is not None and found[1].ready):
                return
            time.sleep(_LOOK_EVERY_S)

    def status(self) -> ClusterStatus:
        """What the dashboard says now.

        Raises:
            NotFoundError: there is no cluster now.
            BackendError: its dashboard does not answer.
        """
        answers = self._fetch([NODES, USAGE])
        try:
            return read_status(answers)
        except ValueError as error:
            raise BackendError(str(error), hint=f"air ray logs {self.id}") from error

    def variables(self) -> dict[str, str]:
        """What makes a program on this host a user of the cluster.

        Where none of its nodes is, a program goes through `ray://`, and Ray's Jobs API is left out: it listens on the
        head alone.
        """
        from airlane.launch.ray_exec import cluster_variables

        _, folder, state = self._live()
        variables = cluster_variables(str(folder))
        if os.uname().nodename not in {state.host, *(node.host for node in state.nodes)}:
            variables["RAY_ADDRESS"] = f"ray://{state.client}"
            if state.dashboard.startswith("127."):
                del variables["RAY_API_SERVER_ADDRESS"]
        return variables

    def become(self, command: Sequence[str]) -> NoReturn:
        """Replace this process by a command on the head, in its environment or container.

        Raises:
            BackendError: it cannot be started.
        """
        from airlane.launch import ray_exec
        from airlane.launch.order import Order

        view, folder, state = self._live()
        order_file = view.paths.node_order(attempt=view.attempts[-1].number, node=0)
        terminal = os.isatty(0) and os.isatty(1)
        prefix = self._backend.on_node(view.paths, state.host, terminal=terminal)
        try:
            if prefix:
                os.execvp(prefix[0], [*prefix, *exec_argv(folder, order_file), *command])  # noqa: S606
            order = Order.from_json(order_file.read_text(encoding="utf-8", errors="surrogateescape"))
            ray_exec.become(str(folder), order, command, terminal=terminal)
        except (OSError, ray_exec.ExecError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise BackendError(f"cannot run {command[0]}: {reason}", hint=f"air ray status {self.id}") from error

    def dashboard(self) -> Dashboard:
        """Where the dashboard is, and how it is reached from here."""
        view, folder, state = self._live()
        prefix = self._backend.on_node(view.paths, state.host)
        return Dashboard(
            host=state.host,
            address=state.dashboard,
            token_file=Path(self.variables()["RAY_AUTH_TOKEN_PATH"]),
            relay=relay_argv(prefix, folder) if prefix else (),
        )

    def ray_logs(self, node: int) -> tuple[str, ...]:
        """The names of the logs that Ray's own processes keep on a node.

        Raises:
            NotFoundError: no such node has joined. BackendError: the dashboard does not answer.
        """
        path = f"/api/v0/logs?node_id={self._node_id(node)}"
        return read_log_names(self._fetch([path])[path])

    def ray_log(self, node: int, file: str, lines: int) -> str:
        """The last lines of one of them."""
        path = f"{LOG_FILE}?{urlencode({'node_id': self._node_id(node), 'filename': file, 'lines': lines})}"
        return str(self._fetch([path])[path])

    def _node_id(self, node: int) -> str:
        _, _, state = self._live()
        for joined in state.nodes:
            if joined.node == node:
                return joined.node_id
        there = ", ".join(str(joined.node) for joined in state.nodes)
        raise NotFoundError(f"node {node} has not joined the cluster of run {self.id}", hint=f"these have: {there}")

    def down(self) -> None:
        """End the cluster and wait until nothing of it is left. Harmless when it has ended."""
        if self._client.cancel([self.id]):
            watcher = self.run.watcher()
            while not watcher.view().state.terminal:
                time.sleep(_LOOK_EVERY_S)

    def _fetch(self, paths: Sequence[str]) -> dict[str, Any]:
        view, folder, state = self._live()
        try:
            return fetch_through(self._backend.on_node(view.paths, state.host), folder, paths)
        except RestError as error:
            raise BackendError(f"the dashboard of {self.id}: {error}", hint=f"air ray logs {self.id}") from error

    def _live(self) -> tuple[RunView, Path, ClusterState]:
        """The run, the folder and the state of a cluster whose head has started. Raises NotFoundError."""
        view = self.run.view()
        state = state_of(view)
        if view.state.terminal:
            raise NotFoundError(f"the cluster of run {self.id} has ended ({view.state})", hint=f"air get {self.id}")
        if state is None:
            raise NotFoundError(f"the cluster of run {self.id} has not started yet", hint=f"air get {self.id}")
        return view, folder_of(view.paths, view), state


def state_of(view: RunView) -> ClusterState | None:
    """The cluster of the attempt that runs; None before its head has started, and after the run's end."""
    if view.state.terminal or not view.attempts or view.attempts[-1].ended_at is not None:
        return None
    return read_state(folder_of(view.paths, view))


def folder_of(paths: RunPaths, view: RunView) -> Path:
    return paths.ray(view.attempts[-1].number)

"""The one place where the supervisor talks to Ray: it is a driver, and everything here belongs to its job.

What a job owns ends with it: when this process dies, Ray kills the agents and removes their placement group.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from airlane.backends.ray.uv_environment import setup_failure
from airlane.errors import BackendError
from airlane.frozen import frozen

JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
_PROBE_S = 1.0
_REMOVAL_S = 5.0
_PAUSE_S = 0.05
_THREADS = 8
_PENDING = ("PENDING", "RESCHEDULING", "PREPARED")


class AgentLostError(Exception):
    """An agent's actor is gone; the text says why, `node_died` that its whole node is."""

    def __init__(self, words: str, *, node_died: bool = False) -> None:
        super().__init__(words)
        self.node_died = node_died


@frozen
class ClusterNode:
    """One live node: what it has, and what of it is free."""

    node_id: str
    address: str
    port: int
    total: Mapping[str, float]
    free: Mapping[str, float]


@frozen
class Demand:
    """What each node of a run asks for: a bundle, and the environment of what runs in it."""

    bundle: Mapping[str, float]
    runtime_env: Mapping[str, Any]


class Door:
    """A connection with the cluster that this process's job runs on."""

    def __init__(self) -> None:
        self._forget_package()
        import ray

        from airlane.backends.ray import agent

        ray.cloudpickle.register_pickle_by_value(agent)
        ray.init(address=os.environ.get("RAY_ADDRESS", "auto"), log_to_driver=False, logging_level="error")
        self._ray: ModuleType = ray
        self._agent = ray.remote(agent.Agent)

    def _forget_package(self) -> None:
        """With the environment of the job every node would unpack our package: agents get what they need from us."""
        config = json.loads(os.environ.get(JOB_CONFIG) or "{}")
        config.pop("runtime_env", None)
        os.environ[JOB_CONFIG] = json.dumps(config)

    @property
    def version(self) -> str:
        """Ray's own."""
        return str(self._ray.__version__)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the cluster may be gone
            self._ray.shutdown()

    def nodes(self) -> tuple[ClusterNode, ...]:
        """The nodes that live."""
        free = self._ray._private.state.available_resources_per_node()  # noqa: SLF001 - there is no public one
        return tuple(
            ClusterNode(
                row["NodeID"],
                row["NodeManagerAddress"],
                row["NodeManagerPort"],
                row["Resources"],
                free.get(row["NodeID"], {}),
            )
            for row in self._ray.nodes()
            if row["Alive"]
        )

    def put(self, content: bytes) -> Any:
        """Something large that several agents need."""
        return self._ray.put(content)

    def group(self, name: str, bundles: Sequence[Mapping[str, float]]) -> Any:
        """Ask for one bundle on each of as many nodes."""
        from ray.util import placement_group

        return placement_group([dict(bundle) for bundle in bundles], strategy="STRICT_SPREAD", name=name)

    def granted(self, group: Any) -> bool:
        """Raises BackendError when the group is gone."""
        state = self._ray.util.placement_group_table(group).get("state")
        if state not in ("CREATED", *_PENDING):
            raise BackendError(f"Ray has removed the run's placement group ({state})")
        return bool(state == "CREATED")

    def agent(self, group: Any, index: int, demand: Demand, *arguments: Any) -> Any:
        """Start an agent's actor in a bundle."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        rest = {name: amount for name, amount in demand.bundle.items() if name not in ("CPU", "GPU")}
        options: dict[str, Any] = {"runtime_env": dict(demand.runtime_env)} if demand.runtime_env else {}
        return self._agent.options(
            num_cpus=demand.bundle.get("CPU", 0),
            num_gpus=demand.bundle.get("GPU", 0),
            resources=rest or None,
            max_concurrency=_THREADS,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index),
            **options,
        ).remote(*arguments)

    def call(self, agent: Any, method: str, *arguments: Any) -> Any:
        """The promise of an answer."""
        return getattr(agent, method).remote(*arguments)

    def ready(self, promises: Sequence[Any], timeout_s: float, *, all_of_them: bool = False) -> list[Any]:
        """Those that are answered, waiting for one of them, or for all."""
        if not promises:
            return []
        wanted = len(promises) if all_of_them else 1
        done, rest = self._ray.wait(list(promises), num_returns=wanted, timeout=timeout_s)
        if rest and done:
            done += self._ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        return list(done)

    def answer(self, promise: Any) -> Any:
        """What is promised, waiting for it.

        Raises:
            AgentLostError: the actor is gone.
            EnvironmentBuildError: its environment could not be built.
        """
        errors = self._ray.exceptions
        try:
            return self._ray.get(promise)
        except errors.RuntimeEnvSetupError as error:
            raise setup_failure(str(error.error_message)) from error
        except errors.NodeDiedError as error:
            raise AgentLostError("its Ray node died", node_died=True) from error
        except (errors.ActorDiedError, errors.ActorUnavailableError, errors.WorkerCrashedError) as error:
            raise AgentLostError(_short(str(error))) from error
        except errors.RayTaskError as error:
            raise BackendError(f"an agent failed: {error.cause!r}") from error
        except errors.RayError as error:
            raise AgentLostError(_short(str(error))) from error

    def end(self, agents: Sequence[Any]) -> None:
        """Kill the actors."""
        for agent in agents:
            with contextlib.suppress(Exception):  # it is gone already
                self._ray.kill(agent, no_restart=True)

    def give_back(self, group: Any) -> None:
        """Remove the placement group."""
        from ray.util import remove_placement_group

        with contextlib.suppress(Exception):  # the cluster is gone
            remove_placement_group(group)
            deadline = time.monotonic() + _REMOVAL_S
            while self._ray.util.placement_group_table(group).get("state") != "REMOVED":
                if time.monotonic() > deadline:
                    return
                time.sleep(_PAUSE_S)

    def has_died(self, node: ClusterNode) -> bool:
        """Whether a node is gone. Ray notices after 14 s and more; its host says at once that nobody listens."""
        if all(row["NodeID"] != node.node_id or not row["Alive"] for row in self._ray.nodes()):
            return True
        try:
            socket.create_connection((node.address, node.port), _PROBE_S).close()
        except OSError:
            return True
        return False


def _short(words: str) -> str:
    """What Ray says of an actor's end, in one line."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return next(
        (line for line in lines if "cause" in line.lower() or "died" in line.lower()), lines[0] if lines else ""
    )

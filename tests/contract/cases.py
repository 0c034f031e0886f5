"""The backends that the contract is held against: to add one, add a line to CASES."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from airlane.backends.base import Allocation, Backend, Compute, NodePlace, NodeReport
from airlane.backends.registry import make_backend
from airlane.launch.order import Order
from airlane.store.disk import SystemDisk, make_private_folder
from airlane.store.paths import Home, RunPaths
from airlane.store.records import EnvironmentRecord, Limits, RunRecord
from airlane.store.runs import NewRun, RunContent, RunStore
from airlane.supervise.layout import lay_out

PATIENCE_S = 30.0


@dataclass(frozen=True)
class Case:
    """A backend that has room for one run of `compute`, and for no second one beside it."""

    backend: str
    compute: Compute
    too_large: Compute
    options: dict[str, Any]
    marks: tuple[str, ...] = ()
    # The fixture with the variables that lead to the place.
    place: str | None = None
    made: Callable[[Home], Backend] | None = None

    def make(self, home: Path) -> Backend:
        return self.made(Home(home)) if self.made is not None else make_backend(self.backend, Home(home), self.options)


def _on_ray(home: Home) -> Backend:
    from contract.on_ray import StepsOnRay

    return StepsOnRay(home, {})


CASES = {
    "local": Case(
        backend="local",
        compute=Compute(2, 1, "GPU_1xH100", simulate=True),
        too_large=Compute(3, 1, "GPU_1xH100", simulate=True),
        options={"simulated_slots": 2},
    ),
    "slurm": Case(
        backend="slurm",
        compute=Compute(2, 1, "CPU_1xCORE"),
        too_large=Compute(3, 1, "CPU_1xCORE"),
        options={},
        # Within an allocation of the lab's, where a supervisor is a process of this machine.
        marks=("lab",),
        place="held_allocation",
    ),
    "ray": Case(
        backend="ray",
        compute=Compute(2, 1, "CPU_1xCORE"),
        too_large=Compute(3, 1, "CPU_1xCORE"),
        options={},
        marks=("slow",),
        place="ray_cluster",
        made=_on_ray,
    ),
}


@dataclass(frozen=True)
class Inside:
    """What the body of a supervisor works with. Its `tell` is how the test learns of it."""

    backend: Backend
    record: RunRecord
    paths: RunPaths

    def tell(self, name: str, value: Any = None) -> None:
        SystemDisk().replace(told_file(self.paths, name), json.dumps(value).encode())

    def await_word(self, name: str) -> None:
        wait_until(self.paths.root.joinpath(f"word-{name}").exists, f"the word {name}")

    def granted(self, attempt: int = 0) -> Allocation:
        """An allocation, once it is granted."""
        allocation = self.backend.allocate(self.record, self.paths, attempt)
        self.await_grant(allocation)
        return allocation

    def await_grant(self, allocation: Allocation) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while allocation.waiting() is not None:
            assert time.monotonic() < deadline, "not granted"
            allocation.wait(0.5)

    def start_all(self, allocation: Allocation, *, attempt: int = 0) -> None:
        make_private_folder(self.paths.nodes(attempt))
        for place in allocation.places():
            allocation.start(self.order(place, attempt))

    def order(self, place: NodePlace, attempt: int) -> Order:
        """The command starts in the run's folder, which all nodes of the tests see, whatever they know of it."""
        seen, node = lay_out(self.paths, attempt, place).seen, place.node
        return Order(
            run_id=self.record.id,
            attempt=attempt,
            node_rank=node,
            command_file=str(seen.command),
            working_folder=str(self.paths.root),
            log_file=str(seen.log(attempt=attempt, node=node)),
            record_file=str(seen.node_record(attempt=attempt, node=node)),
            env={"AIR_RUN_ID": self.record.id, "AIR_ATTEMPT": str(attempt), "NODE_RANK": str(node)},
            stop_grace_s=5.0,
        )


Steps = Callable[[Inside], None]


@dataclass(frozen=True)
class Body:
    """The body of a supervisor."""

    steps: Steps
    backend: Backend
    record: RunRecord
    paths: RunPaths

    def __call__(self) -> None:
        inside = Inside(self.backend, self.record, self.paths)
        inside.tell("pid", os.getpid())
        self.steps(inside)
        inside.tell("done")


def new_run(case: Case, home: Path, command: str) -> NewRun:
    """A run folder with this command, not submitted yet."""
    compute = case.compute
    record = RunRecord(
        id="",
        experiment_name="contract",
        user="me",
        submitted_at=time.time(),
        workload_file="w.yaml",
        backend=case.backend,
        profile=None,
        nodes=compute.nodes,
        accelerators=compute.nodes * compute.accelerators_per_node,
        accelerators_per_node=compute.accelerators_per_node,
        accelerator_type=compute.accelerator_type,
        simulate=compute.simulate,
        limits=Limits(0, None, 5.0, 300.0),
        environment=EnvironmentRecord("host", (), "3.11", None),
    )
    return RunStore(Home(home)).create(record, RunContent(workload="", command=command))


def submit(backend: Backend, new: NewRun, steps: Steps, *, ready: bool = True) -> RunPaths:
    """Carry out the steps where the backend runs supervisors."""

    backend.submit(new, Body(steps, backend, new.record, new.paths), ready=ready)
    return new.paths


def told_file(paths: RunPaths, name: str) -> Path:
    return paths.root / f"told-{name}"


def told(paths: RunPaths, name: str) -> Any:
    """What the body told, waiting for it."""
    wait_until(told_file(paths, name).exists, f"{name}; the log says: {_log(paths)}")
    return json.loads(told_file(paths, name).read_bytes())


def give_word(paths: RunPaths, name: str) -> None:
    (paths.root / f"word-{name}").touch()


def as_facts(reports: tuple[NodeReport, ...]) -> list[dict[str, Any]]:
    return [asdict(report) for report in reports]


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Fail if it does not come true in time."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.01)


def _log(paths: RunPaths) -> str:
    return paths.supervisor_log.read_text() if paths.supervisor_log.exists() else "nothing"

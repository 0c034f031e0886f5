"""A client with a home of its own, and runs whose supervisors this test plays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from airlane.api import Client
from airlane.backends.base import Allocation, Backend, Compute, Liveness
from airlane.store import codec
from airlane.store.paths import RunPaths
from airlane.store.records import Attempt, Cause, CauseKind, EnvironmentRecord, Limits, RunRecord, Status
from airlane.store.runs import NewRun, RunContent, RunStore
from airlane.store.states import Phase, State
from airlane.store.supervisor_lock import is_held

WORKLOAD = """\
experiment_name: test
command: echo hi
environment: {version: host}
compute: {num_accelerators: 1, accelerator_type: CPU_1xCORE}
max_retries: 0
"""
CAUSES = {
    State.SUCCESS: Cause(CauseKind.COMPLETED, "the command exited with code 0 on every node"),
    State.FAILED: Cause(CauseKind.EXIT_CODE, "node 0 exited with code 3", node=0, exit_code=3),
    State.CANCELED: Cause(CauseKind.CANCELED, "canceled by the user"),
    State.TIMEDOUT: Cause(CauseKind.TIMEOUT, "too long"),
}


class MadeBackend(Backend):
    """A place where no process is started; `refusal` is what submitting ends with."""

    name = "local"

    def __init__(self) -> None:
        self.submitted: list[NewRun] = []
        self.swept: list[str] = []
        self.refusal: Exception | None = None
        self.meanwhile: Callable[[NewRun], None] = lambda _new: None

    def check(self, compute: Compute) -> tuple[str, ...]:
        return (f"{compute.nodes} made nodes",)

    def submit(self, run: NewRun, supervise: Callable[[], None], *, ready: bool) -> None:
        assert callable(supervise)
        assert isinstance(ready, bool)
        self.meanwhile(run)
        if self.refusal is not None:
            raise self.refusal
        self.submitted.append(run)

    def poll(self, runs: Sequence[RunPaths]) -> Mapping[str, Liveness]:
        answers = {True: Liveness.ALIVE, False: Liveness.DEAD, None: Liveness.UNKNOWN}
        return {run.id: answers[is_held(run.lock)] for run in runs}

    def sweep(self, run: RunPaths) -> None:
        self.swept.append(run.id)

    def allocate(self, run: RunRecord, paths: RunPaths, attempt: int) -> Allocation:
        raise AssertionError(run, paths, attempt)


@dataclass
class Bench:
    """A client, its backend, and a way to make runs."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    backend: MadeBackend = field(default_factory=MadeBackend)
    locks: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = self.folder / "config.toml"
        config.write_text('[profiles.local]\ntracking_uri = "none"\n')
        self.home = self.folder / "a 'home' with \"quotes\" and ünïcode\nand a newline"
        self.env = {"AIR_CONFIG": str(config), "USER": "me", "PATH": os.environ["PATH"]}
        self.client = self.new_client()

    def new_client(self, **env: str) -> Client:
        client = Client(home=self.home, env={**self.env, **env})
        client._backends["local"] = self.backend
        return client

    @property
    def store(self) -> RunStore:
        return RunStore(self.client.home)

    def workload(self, text: str = WORKLOAD) -> Path:
        path = self.folder / "a 'workload' ü.yaml"
        path.write_text(text)
        return path

    def run(self, state: State | None = None, *, alive: bool = False, ended_at: float = 2e9, **record: Any) -> RunPaths:
        """A run in this state (None: no status yet), with one attempt if it ever ran."""
        made = RunRecord(
            "", "test", "me", 1.796e9, str(self.workload()), "local", None, 2, 2, 1, "CPU_1xCORE", simulate=False,
            limits=Limits(0, None, 30.0, 300.0), environment=EnvironmentRecord("host", (), "3.11", None),
            tracking_uri="none",
        )  # fmt: skip
        new = self.store.create(replace(made, **record), RunContent(WORKLOAD, "echo hi"))
        if alive:
            self.locks.append(new.lock)
        else:
            os.close(new.lock)
        new.paths.nodes(0).mkdir(parents=True)
        if state is not None:
            self.tell(new.paths, state, ended_at=ended_at)
        return new.paths

    def tell(self, paths: RunPaths, state: State, *, ended_at: float = 2e9, attempts: int = 1) -> None:
        """Write a status, as a supervisor would."""
        end = (ended_at, state, CAUSES[state]) if state.terminal else (None, None, None)
        made = [Attempt(number, 1.796e9, 1.797e9, State.FAILED, CAUSES[State.FAILED]) for number in range(attempts - 1)]
        made += [Attempt(attempts - 1, 1.796e9, *end)] if state is not State.PENDING else []
        phase = None if state.terminal else Phase.RUNNING
        status = Status(state, phase, None, 1.796e9, 4242, "here", tuple(made), end[2], end[0])
        self.store.disk.replace(paths.status, codec.encode(status))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    for lock in made.locks:
        os.close(lock)

"""This machine: the supervisor is a forked process, a node is an agent, an accelerator is a flock-ed slot."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airlane.backends.base import Allocation, Backend, Compute, Finding, Liveness, NodeSize
from airlane.backends.detach import detach
from airlane.backends.local_allocation import LocalAllocation, end_agents
from airlane.backends.slots import Pool, Stage, Ticket
from airlane.errors import BackendError, CapacityError, ConfigError
from airlane.launch.cores import usable_cores
from airlane.spec.accelerators import ANY_MODEL
from airlane.store.paths import Home, RunPaths
from airlane.store.records import RunRecord
from airlane.store.runs import NewRun
from airlane.store.supervisor_lock import is_held

if TYPE_CHECKING:
    from airlane.launch.nvml import Gpu

DEFAULT_SIMULATED_SLOTS = 64
# One for all users of the machine, whatever their TMPDIR: otherwise two would be given the same GPU.
GPU_POOL = Path("/tmp/airlane-gpus")  # noqa: S108 (see slots.py on what is done about others who write there)
_LIVENESS = {True: Liveness.ALIVE, False: Liveness.DEAD, None: Liveness.UNKNOWN}
_OPTIONS = {"simulated_slots": int}


class LocalBackend(Backend):
    """Runs on this machine, under this user."""

    name = "local"

    def __init__(self, home: Home, options: Mapping[str, Any]) -> None:
        self._home = home
        self._tickets: dict[str, Ticket] = {}
        for key, value in options.items():
            if key not in _OPTIONS:
                raise ConfigError(f"the local backend has no option {key!r}", hint=f"options: {', '.join(_OPTIONS)}")
            if not isinstance(value, _OPTIONS[key]) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{key} must be a whole number above 0, not {value!r}")
        self._simulated_slots: int = options.get("simulated_slots", DEFAULT_SIMULATED_SLOTS)

    def check(self, compute: Compute) -> tuple[str, ...]:
        asked = compute.nodes * compute.accelerators_per_node
        if compute.simulate:
            return self._check_simulated(asked)
        if is_cpu(compute.accelerator_type):
            return _check_cpus(compute, asked)
        return _check_gpus(compute, asked)

    def _check_simulated(self, asked: int) -> tuple[str, ...]:
        if asked > self._simulated_slots:
            raise CapacityError(
                f"{asked} simulated accelerators are more than this machine pretends to have ({self._simulated_slots})",
                hint="set simulated_slots in the profile",
            )
        return (f"{asked} simulated accelerators on this machine",)

    def node_size(self, nodes: int) -> NodeSize:
        return NodeSize(gpus=len(visible_gpus()) // nodes, cpus=max(1, usable_cores() // nodes))

    def submit(self, run: NewRun, supervise: Callable[[], None], *, ready: bool) -> None:
        pool, _ = self._demand(run.record)
        stage = Stage.WAITING if ready else Stage.PREPARING
        ticket = pool.join(run.record.id, priority=run.record.priority, stage=stage)
        self._tickets[run.record.id] = ticket

        def body() -> None:
            try:
                supervise()
            finally:
                ticket.leave()

        try:
            detach(body, log=run.paths.supervisor_log, keep=(run.lock, ticket.descriptor))
        except BackendError:
            ticket.leave()
            raise
        finally:
            del self._tickets[run.record.id]
        ticket.forget()
        os.close(run.lock)

    def poll(self, runs: Sequence[RunPaths]) -> Mapping[str, Liveness]:
        return {run.id: _LIVENESS[is_held(run.lock)] for run in runs}

    def sweep(self, run: RunPaths) -> None:
        end_agents(run)

    def doctor(self) -> Iterator[Finding]:
        cores = usable_cores()
        yield Finding("cores", True, f"{cores}: accelerator_type CPU_1xCORE to CPU_{cores}xCORE")
        found = visible_gpus()
        if found:
            models = ", ".join(dict.fromkeys(gpu.name for gpu in found))
            yield Finding("GPUs", True, f"{len(found)}: {models}")
        else:
            yield Finding("GPUs", None, "none", "workloads for GPUs can be tried here with --simulate")

    def allocate(self, run: RunRecord, paths: RunPaths, attempt: int) -> Allocation:
        pool, count = self._demand(run)
        ticket = self._tickets[run.id]
        return LocalAllocation(
            run, paths, attempt, ticket=ticket, count=count, sweep_run=self._sweep_id, words=_noun(pool)
        )

    def _sweep_id(self, run_id: str) -> None:
        from airlane.launch.sweep import sweep

        sweep(run_id)

    def _demand(self, run: RunRecord) -> tuple[Pool, int]:
        """The pool a run takes from, and how many slots."""
        asked = run.nodes * run.accelerators_per_node
        slots = self._home.slots
        if run.simulate:
            return Pool(slots / "simulated", _numbers(self._simulated_slots)), asked
        if is_cpu(run.accelerator_type):
            # Several nodes on one machine share its cores; a run larger than the machine takes all of it.
            return Pool(slots / "cpu", _numbers(usable_cores())), min(asked, usable_cores())
        return Pool(GPU_POOL, tuple(gpu.uuid for gpu in visible_gpus()), shared=True), asked


def is_cpu(accelerator_type: str) -> bool:
    return accelerator_type.startswith("CPU_")


def visible_gpus() -> tuple[Gpu, ...]:
    """The GPUs of this machine that the caller's CUDA_VISIBLE_DEVICES leaves visible."""
    from airlane.launch.nvml import gpus

    found = gpus()
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return found
    visible: list[Gpu] = []
    for name in filter(None, map(str.strip, chosen.split(","))):
        gpu = next((gpu for gpu in found if name == str(gpu.index) or gpu.uuid.startswith(name)), None)
        if gpu is None:
            break  # as CUDA does: a name that is not there hides what comes after it
        visible.append(gpu)
    return tuple(visible)


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(count))


def _noun(pool: Pool) -> str:
    return {"cpu": "cores", "simulated": "simulated accelerators"}.get(pool.folder.name, "GPUs")


def _check_cpus(compute: Compute, asked: int) -> tuple[str, ...]:
    cores = usable_cores()
    if compute.accelerators_per_node > cores:
        raise CapacityError(
            f"This machine has {_count(cores, 'core')} (asked for: {compute.accelerators_per_node} on each node).",
            hint=f"use accelerator_type: CPU_{cores}xCORE, or --simulate",
        )
    line = f"{_count(asked, 'core')} on this machine"
    return (line,) if asked <= cores else (f"{compute.nodes} nodes share this machine's {_count(cores, 'core')}",)


def _check_gpus(compute: Compute, asked: int) -> tuple[str, ...]:
    found = visible_gpus()
    model = compute.accelerator_type.rpartition("x")[2]
    wanted = "GPU" if model == ANY_MODEL else model
    if asked > len(found):
        have = f"{len(found)} × {found[0].name}" if found else "no GPU"
        raise CapacityError(
            f"This machine has {have} (asked for: {asked} × {wanted}).",
            hint="try it without GPUs: add --simulate; or run it on a cluster: -p PROFILE",
        )
    if model == ANY_MODEL:
        return (f"{asked} × {found[0].name} on this machine",)
    if not any(model.lower() in gpu.name.lower() for gpu in found):
        return (f"{asked} × {found[0].name} on this machine (the file says {model})",)
    return (f"{asked} × {model} on this machine",)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")

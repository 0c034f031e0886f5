"""Slurm: one batch script is the run, its body the supervisor, and a node is a member of one step."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airlane.backends.base import Allocation, Backend, Compute, Finding, Interruption, Liveness, NodeSize, Waiting
from airlane.backends.slurm.capacity import check, chosen, max_time_s, node_size
from airlane.backends.slurm.jobs import Stage
from airlane.backends.slurm.ledger import JobRecord, Start, add_record, await_record, claim, job_records, write_script
from airlane.backends.slurm.liveness import last_record, liveness
from airlane.backends.slurm.options import read_options
from airlane.backends.slurm.scheduler import Slurm
from airlane.backends.slurm.script import batch_script, placement, time_limit_s
from airlane.backends.slurm.step import BESIDE, step_name
from airlane.backends.slurm.supervising import Supervising, restarts
from airlane.backends.slurm.verdicts import last_words
from airlane.backends.slurm.words import pending_words
from airlane.errors import BackendError, CapacityError, SlurmUnavailableError, StoreError
from airlane.store import codec
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Attempt, RunRecord, Status
from airlane.store.runs import NewRun
from airlane.store.states import Phase

# How long a supervisor that was asked to end may take before its job is ended with everything in it.
CANCEL_PATIENCE_S = 60.0
ASK_S = 30.0
SWEEP_S = 5.0
_SWEEP_PAUSE_S = 0.1
_HELD = "SLURM_JOB_ID"


class SlurmBackend(Backend):
    """Runs as jobs of a Slurm cluster, or within an allocation that the user holds already."""

    name = "slurm"
    elsewhere = True

    def __init__(self, home: Home, options: Mapping[str, Any]) -> None:
        self._home = home
        self._options = read_options(options)
        self._slurm = Slurm()
        self._supervising: Supervising | None = None

    def check(self, compute: Compute) -> tuple[str, ...]:
        held = held_job(os.environ)
        if held is None:
            return check(compute, self._options, self._slurm)
        job = self._slurm.show(held)
        hosts = job.hosts if job is not None else ()
        if len(hosts) < compute.nodes:
            raise CapacityError(
                f"your allocation (Slurm job {held}) has {len(hosts)} nodes (asked for: {compute.nodes})",
                hint="to submit a job of its own: env -u SLURM_JOB_ID air run ...",
            )
        wanted = self._options.cpus(compute.accelerator_type, compute.accelerators_per_node) or 1
        fewest = _fewest_cpus(os.environ)
        if fewest is not None and fewest < wanted:
            raise CapacityError(
                f"your allocation (Slurm job {held}) has nodes with {fewest} CPUs (asked for: {wanted} on each node)",
                hint=f"salloc --nodes={compute.nodes} --ntasks-per-node=1 --cpus-per-task={wanted}",
            )
        return (f"inside your allocation, Slurm job {held} on {', '.join(hosts)}: it is used, and left to you",)

    def node_size(self, nodes: int) -> NodeSize:
        held = held_job(os.environ)
        if held is None:
            return node_size(nodes, self._options, self._slurm)
        gpus = os.environ.get("SLURM_GPUS_ON_NODE", "")
        return NodeSize(gpus=int(gpus) if gpus.isdigit() else 0, cpus=_fewest_cpus(os.environ) or 1)

    def submission_script(self, run: RunRecord, paths: RunPaths) -> str | None:
        return None if held_job(os.environ) is not None else self._script(run, paths)

    def _script(self, run: RunRecord, paths: RunPaths) -> str:
        limit = time_limit_s(run, self._options, max_time_s(self._options, self._slurm))
        return batch_script(run, paths, self._options, python=self._options.interpreter, time_s=limit)

    def submit(self, run: NewRun, supervise: Callable[[], None], *, ready: bool) -> None:
        del ready  # the environment was built first
        held = held_job(os.environ)
        if held is not None:
            self._supervise_here(run, supervise, held)
            return
        try:
            script = write_script(run.paths, self._script(run.record, run.paths))
            job = self._slurm.submit(script, run.paths.root)
            try:
                add_record(run.paths, JobRecord(job, time.time()))
            except OSError:
                self._slurm.cancel(job)
                raise
        except OSError as error:
            raise StoreError(f"could not write {run.paths.slurm}: {error.strerror}", hint="free some space") from error
        os.close(run.lock)  # what tells whether this run lives is Slurm

    def _supervise_here(self, run: NewRun, supervise: Callable[[], None], job: int) -> None:
        """In the user's own allocation the supervisor is a process of this machine, as for a local run."""
        from airlane.backends.detach import detach

        add_record(run.paths, JobRecord(job, time.time(), held=True))
        detach(supervise, log=run.paths.supervisor_log, keep=(run.lock,))
        os.close(run.lock)

    def poll(self, runs: Sequence[RunPaths]) -> Mapping[str, Liveness]:
        return liveness(runs, self._slurm)

    def queued(self, runs: Sequence[RunPaths]) -> Mapping[str, Waiting]:
        jobs = {run.id: record.job for run in runs if (record := last_record(run)) is not None}
        try:
            found = self._slurm.jobs(jobs.values())
        except BackendError:
            return {}
        now = time.time()
        return {
            run_id: Waiting(pending_words(found[job], now), None)
            for run_id, job in jobs.items()
            if job in found and found[job].stage is Stage.PENDING
        }

    def where(self, run: RunPaths) -> str | None:
        record = last_record(run)
        return f"Slurm job {record.job}" if record is not None else None

    def cancel(self, run: RunPaths) -> None:
        records = job_records(run)
        if not records or records[-1].held:
            return  # the supervisor on this machine looks for the request
        try:
            self._cancel(run, records[-1].job)
        except SlurmUnavailableError as error:
            status = codec.read(Status, run.status)
            if status is not None and status.phase is not Phase.QUEUED:
                return  # the supervisor looks for the request, too: Slurm would only have been quicker
            raise SlurmUnavailableError(
                error.message,
                hint=f"the run ends when Slurm starts it; sooner, once Slurm answers: air cancel {run.id}",
            ) from error

    def _cancel(self, run: RunPaths, job: int) -> None:
        if run.cancel.exists() and time.time() - run.cancel.stat().st_mtime > CANCEL_PATIENCE_S:
            self._slurm.cancel(job)
            return
        self._slurm.cancel(job, pending_only=True)
        found = self._slurm.jobs([job]).get(job)
        if found is not None and found.stage is Stage.RUNNING:
            self._slurm.cancel(job, signal="TERM", batch=True)

    def take_over(self, run: RunRecord, paths: RunPaths) -> bool:
        own = held_job(os.environ)
        if own is None or not await_record(paths, own):
            os.write(2, f"airlane: job {own} is not the run's job any more: nothing to do\n".encode())
            return False
        claim(paths, Start(own, restarts(os.environ)))  # one that lives where Slurm cannot reach it learns it from this
        self._supervise(run, paths)
        return True

    def replaced(self, run: RunPaths) -> bool:
        del run
        return self._supervising is not None and self._supervising.replaced()

    def asked_to_stop(self) -> Interruption | None:
        if self._supervising is None:
            return super().asked_to_stop()
        return self._supervising.asked_to_stop()

    def last_words(self, run: RunPaths) -> Interruption | None:
        try:
            return last_words(run, self._slurm, own_job=held_job(os.environ))
        except BackendError:
            return None

    def sweep(self, run: RunPaths) -> None:
        record = last_record(run)
        if record is None or not record.held:
            return  # Slurm ends what is left of a job
        deadline = time.monotonic() + SWEEP_S
        try:
            while (steps := self._slurm.steps(record.job, step_name(run.id))) and time.monotonic() < deadline:
                for step in steps:
                    self._slurm.cancel(record.job, signal="KILL", step=step)
                time.sleep(_SWEEP_PAUSE_S)
        except BackendError:
            return  # the agents end by themselves when srun is gone

    def allocate(self, run: RunRecord, paths: RunPaths, attempt: int) -> Allocation:
        return self._supervise(run, paths).allocate(attempt)

    def move(self, run: RunRecord, paths: RunPaths, attempts: Sequence[Attempt]) -> str | None:
        return self._supervise(run, paths).move(attempts)

    def _supervise(self, run: RunRecord, paths: RunPaths) -> Supervising:
        if self._supervising is None:
            self._supervising = Supervising(run, paths, self._options, self._slurm, dict(os.environ))
            signal.signal(signal.SIGUSR1, self._supervising.warned)
        return self._supervising

    def a_node(self) -> str | None:
        names = [partition.name for partition in chosen(self._options, self._slurm.partitions())]
        groups = (group for name in names for group in self._slurm.groups(name))
        return next((host for group in groups for host in group.hosts), None)

    def ask_node(self, module: str, *arguments: str) -> tuple[str, str]:
        where = [f"{name}={value}" for name, value in placement(self._options)]
        program = [self._options.interpreter, "-I", "-m", module, *arguments]
        command = ["/bin/sh", "-c", 'uname -n; exec "$@" 2>&1', "sh", *program]
        done = self._slurm.run_on_node(["--job-name=air-doctor", *where, "--chdir=/"], command, ASK_S)
        host, _, said = done.stdout.partition("\n")
        if not host:
            raise BackendError(f"srun: {done.stderr.strip() or 'no answer'}", hint="srun hostname")
        return host, said

    def on_node(self, run: RunPaths, host: str, *, terminal: bool = False) -> tuple[str, ...]:
        job = job_records(run)[-1].job
        # srun holds back what does not end in a line break, as an answer of HTTP does not.
        step = (*BESIDE, "--nodes=1", "--ntasks=1", "--mpi=none", "--quiet", "--unbuffered")
        return ("srun", f"--jobid={job}", f"--nodelist={host}", *step, *(["--pty"] if terminal else []))

    def doctor(self) -> Iterator[Finding]:
        from airlane.backends.slurm.doctor import doctor

        return doctor(self._options, self._slurm, self._home)


def _fewest_cpus(environ: Mapping[str, str]) -> int | None:
    """The CPUs on the smallest node of the allocation; SLURM_JOB_CPUS_PER_NODE is like "8(x2),4"."""
    counts = re.findall(r"(\d+)(?:\(x\d+\))?", environ.get("SLURM_JOB_CPUS_PER_NODE", ""))
    return min(map(int, counts)) if counts else None


def held_job(environ: Mapping[str, str]) -> int | None:
    """The Slurm job whose allocation we are in, if we are in one."""
    text = environ.get(_HELD, "")
    return int(text) if text.isdigit() else None

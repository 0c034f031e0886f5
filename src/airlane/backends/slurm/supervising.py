"""The supervisor's side of a run's Slurm job: its steps, its time limit, and where the run goes on when it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airlane.backends.base import Interruption
from airlane.backends.slurm.allocation import SlurmAllocation
from airlane.backends.slurm.capacity import max_time_s
from airlane.backends.slurm.hostlist import hostnames
from airlane.backends.slurm.jobs import SlurmJob, Stage
from airlane.backends.slurm.ledger import JobRecord, Start, add_record, claimed_by, job_records, write_script
from airlane.backends.slurm.options import SlurmOptions
from airlane.backends.slurm.preflight import Preflight, preflight_command
from airlane.backends.slurm.scheduler import Slurm
from airlane.backends.slurm.script import batch_script, time_limit_s
from airlane.backends.slurm.step import look_options
from airlane.errors import BackendError, CapacityError, StoreError
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Attempt, CauseKind, RunRecord

# srun tells why a step was ended a moment after the supervisor got its SIGTERM.
_WHY_PATIENCE_S = 1.0
_ASK_AGAIN_S = 1.0
_ASK_WHY_AGAIN_S = 0.2
# Between srun's word that a job is preempted and Slurm's on what becomes of it.
_DECISION_S = 3.0
_PAUSE_S = 0.05
_RESTARTS = "SLURM_RESTART_COUNT"


class Supervising:
    """One supervisor's view of the job it runs in, or of the user's allocation that it was started from."""

    def __init__(
        self, run: RunRecord, paths: RunPaths, options: SlurmOptions, slurm: Slurm, env: dict[str, str]
    ) -> None:
        self._run = run
        self._paths = paths
        self._options = options
        self._slurm = slurm
        self._env = env
        self._record = job_records(paths)[-1]
        self._job: SlurmJob | None = None
        self._restarts = restarts(env)
        self._claim_seen: tuple[int, int] | None = None
        self._replaced = False
        self._allocation: SlurmAllocation | None = None
        self._why: Interruption | None = None
        self._asked_at: float | None = None
        self._ask_at = 0.0
        self._ask_why_at = 0.0
        self._warned = False
        self._failed_hosts: tuple[str, ...] = ()
        self._moved: str | None = None
        self._hosts = hostnames(env.get("SLURM_JOB_NODELIST", ""))

    @property
    def _number(self) -> int:
        return self._record.job

    def allocate(self, attempt: int) -> SlurmAllocation:
        """A step on the job's nodes; in the user's own allocation, without those that failed before."""
        hosts = self._hosts
        without = tuple(host for host in self._failed_hosts if host in hosts) if self._record.held else ()
        if self._record.held and len(hosts) - len(without) < self._run.nodes:
            raise CapacityError(
                f"your allocation (Slurm job {self._number}) has {len(hosts) - len(without)} nodes that work "
                f"(asked for: {self._run.nodes}; {', '.join(without) or 'none'} failed)"
            )
        self._allocation = SlurmAllocation(
            self._run,
            self._paths,
            attempt,
            options=self._options,
            slurm=self._slurm,
            job=self._number,
            held=self._record.held,
            hosts=hosts,
            without=without,
            env=self._env,
            time_is_up=self.time_is_up,
            why=self.why,
            preflight=self._preflight(hosts, without) if self._options.preflight else None,
        )
        return self._allocation

    def _preflight(self, hosts: Sequence[str], without: Sequence[str]) -> Preflight:
        home = Home(self._paths.root.parent.parent.parent)
        key = self._run.environment.key
        built = home.environments / key / "bin" / "python" if key is not None else None
        python = built if built is not None and built.exists() else Path(self._options.interpreter)
        held = self._number if self._record.held else None
        options = look_options(self._run, held_job=held, without=without)
        gpus = 0 if self._run.simulate or self._options.gres(self._run.accelerator_type) is None else 1
        command = preflight_command(options, python=python, home=home.root, gpus=gpus * self._run.accelerators_per_node)
        return Preflight(command, self._env, [host for host in hosts if host not in without])

    def warned(self, *_: Any) -> None:
        """SIGUSR1: the end may be near. The limit is looked up again, for it may have been moved."""
        self._warned = True

    def time_is_up(self) -> str | None:
        """In words, that the job's time limit is nearer than the warning; None while it is not."""
        if self._job is not None and not self._near_the_end() and not self._warned:
            return None
        if time.monotonic() >= self._ask_at:
            self._warned = False
            self._refresh()
        if not self._near_the_end():
            return None
        return f"Slurm's time limit is about to be reached (Slurm job {self._number})"

    def _near_the_end(self) -> bool:
        left_s = self._left_s()
        return left_s is not None and left_s <= self._options.warning_s(self._run.limits.stop_grace_s)

    def _left_s(self) -> float | None:
        end_at = self._job.end_at if self._job is not None else None
        return end_at - time.time() if end_at is not None else None

    def _refresh(self) -> SlurmJob | None:
        self._ask_at = time.monotonic() + _ASK_AGAIN_S
        try:
            job = self._slurm.show(self._number)
        except BackendError:
            return None
        self._job = job or self._job
        return job

    def replaced(self) -> bool:
        """Whether Slurm has started the run elsewhere: it took this machine for dead, and we are only cut off."""
        if self._record.held or self._replaced:
            return self._replaced
        try:
            found = self._paths.slurm_start.stat()
            seen = found.st_ino, found.st_mtime_ns
            if seen == self._claim_seen:
                return False
            other = claimed_by(self._paths)
        except (OSError, StoreError):
            return False  # what cannot be read says nothing
        self._claim_seen = seen
        self._replaced = other is not None and other != Start(self._number, self._restarts)
        return self._replaced

    def asked_to_stop(self) -> Interruption | None:
        """Why the supervisor got SIGTERM; None until that is known, or if it was for nothing."""
        now = time.monotonic()
        if self._asked_at is None:
            self._asked_at = now
        if self._why is None and self._allocation is not None:
            self._why = self._allocation.interruption()
        if self._why is None and now - self._asked_at > _WHY_PATIENCE_S:
            self._why = self.why()
        return self._why

    def why(self) -> Interruption | None:
        """Why Slurm ends the step or the job, as far as it says so itself; None until it does."""
        now = time.monotonic()
        self._asked_at = self._asked_at or now
        if now < self._ask_why_at:
            return None
        self._ask_why_at = now + (_ASK_WHY_AGAIN_S if now - self._asked_at < _WHY_PATIENCE_S else _ASK_AGAIN_S)
        job = self._refresh()
        told = job is not None and (job.stage is not Stage.RUNNING or job.preempted_at is not None)
        if job is None or not (told or now - self._asked_at > _WHY_PATIENCE_S):
            return None
        return self._explain(job)

    def _explain(self, job: SlurmJob) -> Interruption:
        where = f"Slurm job {self._number}"
        if self._record.held:
            return Interruption(CauseKind.CANCELED, f"the allocation that the run was started in has ended ({where})")
        if job.reason == "TimeLimit":
            return Interruption(CauseKind.TIMEOUT, f"Slurm's time limit was reached: {where}")
        if job.preempted_at is not None:
            return Interruption(CauseKind.PREEMPTED, f"Slurm gave the nodes to a run that goes first: {where}")
        if job.restarts > self._restarts:
            return Interruption(CauseKind.PREEMPTED, f"Slurm put the run back into the queue: {where}")
        return Interruption(CauseKind.CANCELED, f"canceled with scancel ({where})")

    def move(self, attempts: Sequence[Attempt]) -> str | None:
        """Where the next attempt is made, if not here: the same job started again, or a new one."""
        causes = [attempt.cause for attempt in attempts if attempt.cause is not None]
        failed = [cause.host for cause in causes if cause.kind is CauseKind.NODE_FAILED and cause.host is not None]
        self._failed_hosts = tuple(dict.fromkeys(failed))
        if self._moved is None and not self._record.held:
            self._moved = self._move(self._failed_hosts)
        return self._moved

    def _move(self, failed: tuple[str, ...]) -> str | None:
        interruption = self._why or (self._allocation.interruption() if self._allocation is not None else None)
        if interruption is not None:
            if self._slurm_starts_it_again():
                return f"Slurm starts job {self._number} again"
            return self._submit_another(failed, after=self._number)
        if set(failed) & set(self._hosts) or not self._has_time_for_another():
            # Not after this one: Slurm ends a job on a dead machine only when it has noticed that itself.
            return self._submit_another(failed)
        return None

    def _slurm_starts_it_again(self) -> bool:
        """Whether Slurm has put the job back into the queue, or is about to; preempted, it may end for good, too."""
        said = self._allocation.said_why if self._allocation is not None else ""
        if said.startswith("JOB REQUEUE"):
            return True
        deadline = time.monotonic() + _DECISION_S
        while True:
            job = self._refresh()
            if job is not None and (job.restarts > self._restarts or job.stage is Stage.PENDING):
                return True
            decided = job is not None and job.stage is not Stage.RUNNING
            if decided or not said.startswith("PREEMPTION") or time.monotonic() > deadline:
                return False
            time.sleep(_PAUSE_S)

    def _has_time_for_another(self) -> bool:
        left_s, timeout_s = self._left_s(), self._run.limits.timeout_s
        if self._allocation is None or left_s is None or timeout_s is None:
            return True
        grace_s = self._run.limits.stop_grace_s
        return left_s > timeout_s + grace_s + self._options.warning_s(grace_s)

    def _submit_another(self, without: tuple[str, ...], *, after: int | None = None) -> str:
        """A new job for the run, whose supervisor waits for this one's end; with `after`, Slurm does.

        Raises:
            BackendError, ConfigError: Slurm refuses it.
        """
        env = {name: value for name, value in self._env.items() if not _is_slurms(name)}
        slurm = Slurm(env=env)
        try:
            job = self._submit(slurm, without, after)
        except CapacityError:
            if not without:
                raise
            without = ()  # the others are too few: the run waits until one that failed is mended
            job = self._submit(slurm, without, after)
        try:
            add_record(self._paths, JobRecord(job, time.time(), excluded=without))
        except OSError:
            slurm.cancel(job)
            raise
        os.write(2, f"airlane: the run goes on as Slurm job {job}\n".encode())
        return f"goes on as Slurm job {job}" + (f", without {', '.join(without)}" if without else "")

    def _submit(self, slurm: Slurm, without: tuple[str, ...], after: int | None) -> int:
        limit = time_limit_s(self._run, self._options, max_time_s(self._options, slurm))
        text = batch_script(
            self._run, self._paths, self._options, python=self._options.interpreter, exclude=without, time_s=limit
        )
        return slurm.submit(write_script(self._paths, text), self._paths.root, after=after)


def restarts(env: Mapping[str, str]) -> int:
    """How often Slurm has started the job before."""
    return int(env.get(_RESTARTS) or 0)


def _is_slurms(name: str) -> bool:
    """Whether a variable is this job's, and would be wrong in the next one."""
    return name.startswith("SLURM_") and name != "SLURM_CONF"

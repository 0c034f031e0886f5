"""What Slurm knows about the end of a supervisor that could not tell it itself."""

from __future__ import annotations

from airlane.backends.base import Interruption
from airlane.backends.slurm.jobs import EndKind, JobEnd, SlurmJob, job_end
from airlane.backends.slurm.ledger import job_records
from airlane.backends.slurm.scheduler import Slurm
from airlane.backends.slurm.script import EXIT_NOT_SHARED
from airlane.backends.slurm.words import end_words, signal_name
from airlane.store import codec
from airlane.store.paths import RunPaths
from airlane.store.records import CauseKind, Status

_SCRIPT_SAYS = "airlane: "
_KINDS: dict[EndKind, CauseKind] = {
    EndKind.CANCELED: CauseKind.CANCELED,
    EndKind.TIMEOUT: CauseKind.TIMEOUT,
    EndKind.DEADLINE: CauseKind.TIMEOUT,
    EndKind.PREEMPTED: CauseKind.PREEMPTED,
    EndKind.REQUEUED: CauseKind.PREEMPTED,
    EndKind.NODE_FAIL: CauseKind.NODE_FAILED,
    EndKind.BOOT_FAIL: CauseKind.NODE_FAILED,
    EndKind.OUT_OF_MEMORY: CauseKind.OUT_OF_MEMORY,
    EndKind.NO_OUTPUT: CauseKind.SETUP,
    EndKind.FAILED: CauseKind.SUPERVISOR_LOST,
}


def last_words(run: RunPaths, slurm: Slurm, *, own_job: int | None) -> Interruption | None:
    """How the job ended whose supervisor left the run's last attempt open; None if Slurm does not say.

    `own_job` is the job that the caller runs in: of this one it asks how its last start ended, if it was started
    before, and otherwise how the run's job before it ended.

    Raises:
        SlurmUnavailableError: Slurm did not answer.
    """
    records = job_records(run)
    if not records:
        return None
    number = records[-1].job
    job = _ask(number, slurm)
    if number == own_job and job is not None:
        if job.restarts:
            return _last_start(run, slurm, job)
        if len(records) < 2:  # noqa: PLR2004 (the run's first job)
            return None
        job = _ask(records[-2].job, slurm)
    end = job_end(job) if job is not None else None
    return _interruption(run, job, end) if job is not None and end is not None else None


def _ask(number: int, slurm: Slurm) -> SlurmJob | None:
    return slurm.show(number) or slurm.account([number]).get(number)


def _interruption(run: RunPaths, job: SlurmJob, end: JobEnd) -> Interruption | None:
    if end.kind is EndKind.COMPLETED:
        return None
    kind, words, signal = _KINDS[end.kind], end_words(job, end), None
    if end.kind is EndKind.NO_OUTPUT:
        return Interruption(kind, words, hint="set home in the profile to a folder that all nodes share")
    if end.kind is EndKind.FAILED and end.exit_code == EXIT_NOT_SHARED:
        return _complaint(run) or Interruption(CauseKind.SETUP, words, hint=f"see {run.supervisor_log}")
    if end.kind is EndKind.FAILED and end.signal:
        signal = signal_name(end.signal)
        words = f"the run's supervisor was killed by {signal}: {words}"
    host = job.batch_host if kind is CauseKind.NODE_FAILED else None
    hint = f"see {run.supervisor_log}" if kind is CauseKind.SUPERVISOR_LOST and not signal else None
    return Interruption(kind, words, host, signal, hint)


def _complaint(run: RunPaths) -> Interruption | None:
    """What the batch script missed on its node, and what to set, in its own words (see script.py)."""
    try:
        lines = run.supervisor_log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    said = next((line for line in reversed(lines) if line.startswith(_SCRIPT_SAYS)), None)
    if said is None:
        return None
    missed, colon, advice = said.removeprefix(_SCRIPT_SAYS).partition(": set ")
    return Interruption(CauseKind.SETUP, missed, hint=f"set {advice}" if colon else None)


def _last_start(run: RunPaths, slurm: Slurm, job: SlurmJob) -> Interruption:
    """Slurm does not keep why it started a job again, but it does know which machines are down.

    Preempted or requeued, a supervisor has the time to say so: one that said nothing went down with its machine.
    """
    status = codec.read(Status, run.status)
    last = status.attempts[-1] if status is not None and status.attempts else None
    again = f"Slurm started job {job.id} again"
    for host in last.hosts if last is not None else ():
        node = slurm.node(host)
        if node is not None and not node.fit:
            return Interruption(CauseKind.NODE_FAILED, f"{host} failed: {again}", host)
    if last is not None and job.preempted_at is not None and job.preempted_at >= int(last.started_at):
        return Interruption(CauseKind.PREEMPTED, f"the run was preempted: {again}")
    where = f" on {last.hosts[0]}" if last is not None and last.hosts else ""
    return Interruption(CauseKind.NODE_FAILED, f"the supervisor{where} was lost without a word: {again}")

"""Whether the supervisors of runs live, as Slurm tells it: one question for all, and a second look before a no."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from airlane.backends.base import Liveness
from airlane.backends.slurm.jobs import SlurmJob, Stage
from airlane.backends.slurm.ledger import JobRecord, job_records
from airlane.backends.slurm.scheduler import Slurm
from airlane.errors import AirError, BackendError
from airlane.store.paths import RunPaths
from airlane.store.supervisor_lock import is_held

# A controller that has just come back may not have read all of its jobs yet.
SECOND_LOOK_S = 1.0
# sbatch gives up before, and the clocks of two machines differ less.
LONGEST_SUBMISSION_S = 300.0
_HELD = {True: Liveness.ALIVE, False: Liveness.DEAD, None: Liveness.UNKNOWN}
_STAGES = {
    Stage.PENDING: Liveness.WAITING,
    Stage.RUNNING: Liveness.ALIVE,
    Stage.ENDING: Liveness.ALIVE,
    Stage.ENDED: Liveness.DEAD,
    Stage.UNKNOWN: Liveness.UNKNOWN,
}


def liveness(
    runs: Sequence[RunPaths], slurm: Slurm, *, sleep: Callable[[float], None] = time.sleep
) -> dict[str, Liveness]:
    """By run id. A job that one answer lacks is looked for again; what nobody knows twice has ended."""
    found: dict[str, Liveness] = {}
    jobs: dict[str, int] = {}
    for run in runs:
        record = last_record(run)
        if record is None:
            found[run.id] = _without_a_job(run)
        elif record.held:
            found[run.id] = _HELD[is_held(run.lock)]
        else:
            jobs[run.id] = record.job
    if jobs:
        found |= _ask(jobs, slurm, sleep)
    return found


def last_record(run: RunPaths) -> JobRecord | None:
    """The run's last job; None where there is none, or where what tells of it is damaged."""
    try:
        records = job_records(run)
    except AirError:
        return None
    return records[-1] if records else None


def _without_a_job(run: RunPaths) -> Liveness:
    """It is being submitted, or its submitter died in between: then its lock is free, for longer than that takes."""
    try:
        age_s = time.time() - run.record.stat().st_mtime
        damaged = run.slurm_record(0).exists()
    except OSError:
        return Liveness.UNKNOWN
    if damaged or age_s < LONGEST_SUBMISSION_S or is_held(run.lock) is not False:
        return Liveness.UNKNOWN
    return Liveness.DEAD


def _ask(jobs: dict[str, int], slurm: Slurm, sleep: Callable[[float], None]) -> dict[str, Liveness]:
    try:
        known: dict[int, SlurmJob] = dict(slurm.jobs(jobs.values()))
        missing = [job for job in jobs.values() if job not in known]
        if missing:
            known |= slurm.account(missing)
            missing = [job for job in missing if job not in known]
        if missing:
            sleep(SECOND_LOOK_S)
            known |= slurm.jobs(missing)
    except BackendError:
        return dict.fromkeys(jobs, Liveness.UNKNOWN)
    return {run: _STAGES[known[job].stage] if job in known else Liveness.DEAD for run, job in jobs.items()}

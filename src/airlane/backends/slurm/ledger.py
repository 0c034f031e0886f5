"""Which Slurm jobs a run has become: slurm/<n>.json, each written once, by whoever submitted it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from airlane.frozen import frozen
from airlane.store import codec
from airlane.store.disk import SystemDisk, make_private_folder
from airlane.store.paths import RunPaths

# sbatch tells a job's id before it starts, but files take a while from one machine to another.
_RECORD_PATIENCE_S = 60.0
_PAUSE_S = 0.02


@frozen
class JobRecord:
    """One Slurm job. `held` says that the allocation was the user's before the run; `excluded` are hosts kept out."""

    job: int
    submitted_at: float
    held: bool = False
    excluded: tuple[str, ...] = ()


@frozen
class Start:
    """One start of one of the run's jobs: Slurm starts a job again under the same number."""

    job: int
    restarts: int


def job_records(run: RunPaths) -> tuple[JobRecord, ...]:
    """The jobs of a run, the first one first. Raises StoreError when one of the files is damaged."""
    records: list[JobRecord] = []
    while (record := codec.read(JobRecord, run.slurm_record(len(records)))) is not None:
        records.append(record)
    return tuple(records)


def add_record(run: RunPaths, record: JobRecord) -> None:
    """Write down one more job. Raises OSError when the disk refuses."""
    make_private_folder(run.slurm)
    SystemDisk().replace(run.slurm_record(len(job_records(run))), codec.encode(record), last=True)


def claim(run: RunPaths, start: Start) -> None:
    """Say that from now on this start is the run's supervisor. Raises OSError when the disk refuses."""
    make_private_folder(run.slurm)
    SystemDisk().replace(run.slurm_start, codec.encode(start))


def claimed_by(run: RunPaths) -> Start | None:
    """The start that is the run's supervisor."""
    return codec.read(Start, run.slurm_start)


def write_script(run: RunPaths, text: str) -> Path:
    """The file with the next job's batch script. Raises OSError when the disk refuses."""
    make_private_folder(run.slurm)
    file = run.slurm_script(len(job_records(run)))
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o700)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as opened:
        opened.write(text)
    return file


def await_record(run: RunPaths, job: int) -> bool:
    """Whether the job is the run's last one. Its submitter may be about to write it down: that is waited for."""
    deadline = time.monotonic() + _RECORD_PATIENCE_S
    while True:
        jobs = [record.job for record in job_records(run)]
        if job in jobs:
            return jobs[-1] == job
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)

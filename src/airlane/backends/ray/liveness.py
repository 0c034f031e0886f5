"""What becomes of runs that are jobs of a Ray cluster, as its head tells it: one question for all runs of a cluster."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airlane.backends.base import Interruption, Liveness, Waiting
from airlane.backends.ray.ledger import LONGEST_SUBMISSION_S, JobRecord, RayFiles, read_job, read_token
from airlane.backends.ray.mirror import catch_up, ensure_mirror
from airlane.backends.ray.silence import is_gone, note_answer, note_refusal
from airlane.errors import AirError, RayUnreachableError
from airlane.store.paths import RunPaths
from airlane.store.records import CauseKind
from airlane.store.supervisor_lock import is_held

if TYPE_CHECKING:
    from airlane.cluster.jobs import Jobs, RayJob

# How long an agent whose supervisor is gone takes to end its command, and a moment more.
ORPHANS_S = 6.0
_GONE = "the Ray cluster at {url} is gone: nothing answers there any more"
_NEVER = "the run did not reach the Ray cluster at {url}: whoever submitted it was ended before"
_NEVER_SENT = "the run did not reach a Ray cluster: whoever submitted it was ended before"
_FORGOTTEN = "the Ray cluster at {url} does not know the run's job: was it started anew?"


class Watcher:
    """Looks after runs from the user's side. One answer of a cluster is kept for what is asked next about a run."""

    def __init__(self) -> None:
        self._jobs: dict[str, RayJob | None] = {}
        self._clients: dict[JobRecord, Jobs] = {}

    def client(self, record: JobRecord, run: RunPaths) -> Jobs:
        """The jobs of the run's cluster."""
        from airlane.cluster.jobs import Jobs
        from airlane.cluster.rest import Dashboard

        if record not in self._clients:
            self._clients[record] = Jobs(Dashboard(record.url, read_token(run, record)))
        return self._clients[record]

    def bring(self, runs: Sequence[RunPaths]) -> bool:
        """Bring the files of runs that nobody follows now; whether there was one."""
        brought = [catch_up(run) for run in runs if read_job(run) is not None]  # each, whatever another brought
        return any(brought)

    def liveness(self, runs: Sequence[RunPaths]) -> dict[str, Liveness]:
        """By run id. Of a run whose job has ended, everything is here before it is called dead."""
        found: dict[str, Liveness] = {}
        there: dict[str, list[tuple[RunPaths, JobRecord]]] = {}
        for run in runs:
            record = read_job(run)
            if record is None:
                found[run.id] = _without_a_job(run)
            else:
                there.setdefault(record.url, []).append((run, record))
        for group in there.values():
            found |= self._ask(group)
        return found

    def _ask(self, group: Sequence[tuple[RunPaths, JobRecord]]) -> dict[str, Liveness]:
        run, record = group[0]
        jobs = self.client(record, run)
        try:
            if len(group) == 1:
                known = {record.submission_id: jobs.get(record.submission_id)}
            else:
                known = {job.id: job for job in jobs.list()}
            return {run.id: self._judge(run, record, known.get(record.submission_id)) for run, record in group}
        except RayUnreachableError as error:
            return {run.id: _unreached(run, record, error) for run, record in group}
        except AirError:
            return {run.id: Liveness.UNKNOWN for run, _ in group}

    def _judge(self, run: RunPaths, record: JobRecord, job: RayJob | None) -> Liveness:
        note_answer(run)
        if job is None and (is_held(run.lock) is not False or _may_be_on_its_way(run, record)):
            return Liveness.UNKNOWN
        job = job or self._ask_again(run, record)
        self._jobs[run.id] = job
        if job is None:
            return Liveness.DEAD
        if job.state.terminal:
            catch_up(run, to_the_end=True)
            self._keep_log(run, record, job)
            return Liveness.DEAD
        ensure_mirror(run)
        if run.cancel.exists():  # whoever asked may have found the cluster away
            with contextlib.suppress(AirError):
                self.client(record, run).stop(record.submission_id)
        return Liveness.WAITING if job.state == "PENDING" else Liveness.ALIVE

    def _ask_again(self, run: RunPaths, record: JobRecord) -> RayJob | None:
        """One that was submitted between the question and the look at its lock. Raises what the dashboard raises."""
        return self.client(record, run).get(record.submission_id)

    def queued(self, runs: Sequence[RunPaths]) -> dict[str, Waiting]:
        """What the runs wait for whose jobs have not begun."""
        jobs = {run.id: self._jobs.get(run.id) for run in runs}
        return {run_id: Waiting(_pending(job)) for run_id, job in jobs.items() if job is not None}

    def stop(self, record: JobRecord, run: RunPaths) -> None:
        """Ask a run's job to end. Harmless when it has ended, or never began."""
        client = self.client(record, run)
        if client.get(record.submission_id) is not None:
            client.stop(record.submission_id)

    def sweep(self, run: RunPaths) -> None:
        """Return when nothing is left of a run whose driver died: its agents notice, and end their commands."""
        with contextlib.suppress(OSError):
            RayFiles(run).package.unlink(missing_ok=True)
        job = self._jobs.get(run.id)
        if job is not None and job.ended_at is not None:
            time.sleep(min(ORPHANS_S, max(0.0, job.ended_at + ORPHANS_S - time.time())))

    def last_words(self, run: RunPaths) -> Interruption | None:
        """How the job of a run ended whose supervisor did not say so."""
        record = read_job(run)
        if record is None:
            return Interruption(CauseKind.SUPERVISOR_LOST, _NEVER_SENT, hint=f"air rerun {run.id}")
        if run.id not in self._jobs:
            words = _GONE if is_gone(run, record) else None
            kind = CauseKind.NODE_FAILED
            return Interruption(kind, words.format(url=record.url), hint=f"air rerun {run.id}") if words else None
        job = self._jobs[run.id]
        if job is None:
            words = _FORGOTTEN if run.status.exists() else _NEVER
            return Interruption(CauseKind.SUPERVISOR_LOST, words.format(url=record.url), hint=f"air rerun {run.id}")
        return _end(job)

    def _keep_log(self, run: RunPaths, record: JobRecord, job: RayJob) -> None:
        """What the supervisor said, for people: it is on the cluster until then."""
        if run.supervisor_log.exists():
            return
        with contextlib.suppress(AirError, OSError):
            run.supervisor_log.write_bytes(b"".join(self.client(record, run).log(job)))


def _without_a_job(run: RunPaths) -> Liveness:
    """It is being submitted, or its submitter died in between: then its lock is free, and nobody submits it."""
    if is_held(run.lock) is not False or read_job(run) is not None:  # it was submitted between two looks
        return Liveness.UNKNOWN
    return Liveness.DEAD


def _may_be_on_its_way(run: RunPaths, record: JobRecord) -> bool:
    """Whether the cluster may only now take in a job whose submitter died: then it would run, and nobody would know."""
    return not run.status.exists() and time.time() - record.submitted_at < LONGEST_SUBMISSION_S


def _unreached(run: RunPaths, record: JobRecord, error: RayUnreachableError) -> Liveness:
    if error.refused:
        note_refusal(run)
    return Liveness.DEAD if is_gone(run, record) else Liveness.UNKNOWN


def _pending(job: RayJob) -> str:
    said = (job.message or "").strip().splitlines()
    return f"Ray starts the run's job{': ' + said[0] if said else ''}"


def _end(job: RayJob) -> Interruption | None:
    from airlane.cluster.jobs import JobState

    where = f"Ray job {job.id}"
    if job.state is JobState.STOPPED:
        return Interruption(CauseKind.CANCELED, f"canceled by the user ({where} was stopped)")
    if job.state is JobState.SUCCEEDED or job.exit_code == 0:
        return None
    if job.exit_code is not None and job.exit_code < 0:
        import signal

        name = signal.Signals(-job.exit_code).name
        return Interruption(
            CauseKind.SUPERVISOR_LOST, f"the run's supervisor was killed by {name} ({where})", signal=name
        )
    said = [line for line in (job.message or "").splitlines() if line.strip()]
    words = said[-1].strip() if said else "it does not say why"
    return Interruption(CauseKind.SUPERVISOR_LOST, f"{where} failed: {words}", hint=f"air ray job logs {job.id}")

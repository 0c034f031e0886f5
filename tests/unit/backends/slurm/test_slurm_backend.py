"""The backend as its callers see it, by recorded answers of Slurm; nothing is submitted for real."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from airlane.backends import detach
from airlane.backends.base import Compute, Interruption, Liveness, Waiting
from airlane.backends.registry import make_backend
from airlane.backends.slurm import backend as module
from airlane.backends.slurm.backend import CANCEL_PATIENCE_S, SlurmBackend, held_job
from airlane.backends.slurm.ledger import JobRecord, Start, add_record, claimed_by, job_records
from airlane.backends.slurm.programs import Completed
from airlane.backends.slurm.scheduler import Slurm
from airlane.errors import CapacityError, ConfigError, SlurmUnavailableError, StoreError
from airlane.store import codec
from airlane.store.paths import Home, RunPaths
from airlane.store.records import CauseKind, RunRecord, Status
from airlane.store.runs import NewRun
from airlane.store.states import Phase, State
from airlane.store.supervisor_lock import is_held

from .answers import GROUPS, NO_SUCH_JOB, PARTITIONS, QUEUE, REFUSED, Played, failed, said

SHOWN = "JobId=17 JobState=RUNNING Reason=None Restarts=0 NodeList=scan[1-2] BatchHost=scan1"
INSIDE = ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_CPUS_PER_NODE", "SLURM_RESTART_COUNT")
TWO_NODES = Compute(2, 1, "CPU_1xCORE")


@pytest.fixture(autouse=True)
def outside_of_slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in INSIDE:
        monkeypatch.delenv(name, raising=False)
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """In an allocation of the user's: job 17, two nodes."""
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "scan[1-2]")
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "8(x2)")


def backend_of(home: Home, **answers: Any) -> tuple[SlurmBackend, Played]:
    made = make_backend("slurm", home, {"partition": "gpu"})
    assert isinstance(made, SlurmBackend)
    recorded = {"scontrol_partition": said(PARTITIONS), "sinfo": said(GROUPS), "scontrol_job": said(SHOWN)}
    played = Played(**{**recorded, "sbatch": said("17\n"), "scancel": said(""), "squeue": said(QUEUE), **answers})
    made._slurm = Slurm(played, {})
    return made, played


def commands(played: Played, program: str) -> list[tuple[str, ...]]:
    return [command for command in played.commands if command[0] == program]


def nothing() -> None:
    raise AssertionError("a supervisor was started here")


@pytest.mark.parametrize(
    ("environ", "job"),
    [({}, None), ({"SLURM_JOB_ID": "17"}, 17), ({"SLURM_JOB_ID": ""}, None), ({"SLURM_JOB_ID": "x"}, None)],
)
def test_whether_we_are_in_an_allocation(environ: dict[str, str], job: int | None) -> None:
    assert held_job(environ) == job


# Submitting.


def test_a_submitted_run_has_a_script_and_a_job_and_no_lock(home: Home, new: NewRun) -> None:
    backend, played = backend_of(home)
    planned = backend.submission_script(new.record, new.paths)
    backend.submit(new, nothing, ready=True)
    assert commands(played, "sbatch") == [
        ("sbatch", "--parsable", f"--chdir={new.paths.root}", str(new.paths.slurm_script(0)))
    ]
    assert new.paths.slurm_script(0).read_text() == planned
    ((record),) = job_records(new.paths)
    assert (record.job, record.held, record.excluded) == (17, False, ())
    assert is_held(new.paths.lock) is False
    assert backend.where(new.paths) == "Slurm job 17"


def test_a_run_that_slurm_refuses_has_no_job(home: Home, new: NewRun) -> None:
    backend, _ = backend_of(
        home, sbatch=failed("sbatch: error: Batch job submission failed: Invalid qos specification")
    )
    with pytest.raises(ConfigError, match="does not know this QOS"):
        backend.submit(new, nothing, ready=True)
    assert job_records(new.paths) == ()
    assert backend.where(new.paths) is None
    os.close(new.lock)


def test_a_job_that_cannot_be_written_down_is_taken_back(
    home: Home, new: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "add_record", refuse)
    backend, played = backend_of(home)
    with pytest.raises(StoreError, match=r"could not write .*slurm: No space left on device"):
        backend.submit(new, nothing, ready=True)
    assert commands(played, "scancel") == [("scancel", "17")]
    os.close(new.lock)


def test_a_disk_without_room_for_the_script_submits_nothing(
    home: Home, new: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Path:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(module, "write_script", refuse)
    backend, played = backend_of(home)
    with pytest.raises(StoreError, match="Disk quota exceeded"):
        backend.submit(new, nothing, ready=True)
    assert commands(played, "sbatch") == []
    os.close(new.lock)


def test_in_an_allocation_the_supervisor_is_a_process_of_this_machine(
    home: Home, new: NewRun, inside: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del inside
    started: list[tuple[object, object, object]] = []
    monkeypatch.setattr(detach, "detach", lambda body, *, log, keep: started.append((body, log, keep)))
    backend, played = backend_of(home)
    assert backend.submission_script(new.record, new.paths) is None
    backend.submit(new, nothing, ready=True)
    assert started == [(nothing, new.paths.supervisor_log, (new.lock,))]
    assert job_records(new.paths)[0].held
    assert commands(played, "sbatch") == []


# Where a run would go.


def test_the_allocation_that_would_be_used_is_named(home: Home, inside: None) -> None:
    del inside
    (line,) = backend_of(home)[0].check(TWO_NODES)
    assert line == "inside your allocation, Slurm job 17 on scan1, scan2: it is used, and left to you"


@pytest.mark.parametrize(
    ("compute", "words"),
    [
        (Compute(3, 1, "CPU_1xCORE"), r"has 2 nodes \(asked for: 3\)"),
        (Compute(2, 9, "CPU_9xCORE"), r"has nodes with 8 CPUs \(asked for: 9 on each node\)"),
    ],
)
def test_an_allocation_that_is_too_small_is_refused_with_what_to_type(
    home: Home, inside: None, compute: Compute, words: str
) -> None:
    del inside
    with pytest.raises(CapacityError, match=words) as caught:
        backend_of(home)[0].check(compute)
    assert caught.value.hint


# What waits.


def made_job(paths: RunPaths, job: int, *, held: bool = False) -> RunPaths:
    add_record(paths, JobRecord(job, 1.0, held=held))
    return paths


def test_why_a_run_waits_is_told(home: Home, paths: RunPaths) -> None:
    backend, _ = backend_of(home)
    found = backend.queued([made_job(paths, 26)])
    assert found == {paths.id: Waiting("the nodes that it needs are down, drained or reserved: scan3", None)}


def test_a_run_that_has_started_does_not_wait(home: Home, paths: RunPaths) -> None:
    assert backend_of(home)[0].queued([made_job(paths, 40)]) == {}


@pytest.mark.parametrize("answer", [failed(REFUSED), failed(NO_SUCH_JOB)])
def test_a_controller_that_does_not_answer_says_nothing_about_the_queue(
    home: Home, paths: RunPaths, answer: Any
) -> None:
    assert backend_of(home, squeue=answer)[0].queued([made_job(paths, 26)]) == {}


def test_a_damaged_record_of_a_job_keeps_nobody_from_looking(home: Home, paths: RunPaths) -> None:
    made_job(paths, 26).slurm_record(0).write_bytes(b"{")
    backend, _ = backend_of(home)
    assert backend.queued([paths]) == {}
    assert backend.where(paths) is None
    assert backend.poll([paths]) == {paths.id: Liveness.UNKNOWN}


# Canceling.


def asked_to_cancel(paths: RunPaths, *, age_s: float = 0.0) -> RunPaths:
    paths.cancel.touch()
    then = time.time() - age_s
    os.utime(paths.cancel, (then, then))
    return paths


PENDING_ONLY = ("scancel", "--state=PENDING")


def test_a_run_that_waits_leaves_the_queue(home: Home, paths: RunPaths) -> None:
    backend, played = backend_of(home)
    backend.cancel(asked_to_cancel(made_job(paths, 26)))
    assert commands(played, "scancel") == [(*PENDING_ONLY, "26")]


def test_a_run_that_has_started_is_asked_to_end_by_itself(home: Home, paths: RunPaths) -> None:
    backend, played = backend_of(home)
    backend.cancel(asked_to_cancel(made_job(paths, 40)))
    assert commands(played, "scancel") == [
        (*PENDING_ONLY, "40"),
        ("scancel", "--signal=TERM", "--batch", "40"),
    ]


def test_a_run_that_did_not_end_for_a_minute_is_ended_with_its_job(home: Home, paths: RunPaths) -> None:
    backend, played = backend_of(home)
    backend.cancel(asked_to_cancel(made_job(paths, 40), age_s=CANCEL_PATIENCE_S + 5))
    assert commands(played, "scancel") == [("scancel", "40")]


def test_of_a_run_that_went_on_the_last_job_is_canceled(home: Home, paths: RunPaths) -> None:
    backend, played = backend_of(home)
    made_job(paths, 40)
    backend.cancel(asked_to_cancel(made_job(paths, 26)))
    assert commands(played, "scancel") == [(*PENDING_ONLY, "26")]


def test_a_cancel_that_slurm_does_not_hear_is_heard_by_the_supervisor(home: Home, paths: RunPaths) -> None:
    backend, _ = backend_of(home, scancel=failed(REFUSED))
    made_job(paths, 40)
    paths.status.write_bytes(codec.encode(Status(State.RUNNING, Phase.RUNNING, None, 1.0, 1, "scan1")))
    backend.cancel(asked_to_cancel(paths))


@pytest.mark.parametrize("phase", [None, Phase.QUEUED])
def test_a_cancel_that_nobody_hears_is_told(home: Home, paths: RunPaths, phase: Phase | None) -> None:
    backend, _ = backend_of(home, scancel=failed(REFUSED))
    made_job(paths, 26)
    if phase is not None:
        paths.status.write_bytes(codec.encode(Status(State.RUNNING, phase, None, 1.0, 1, "scan1")))
    with pytest.raises(SlurmUnavailableError) as caught:
        backend.cancel(asked_to_cancel(paths))
    assert f"air cancel {paths.id}" in str(caught.value.hint)


def test_the_users_own_allocation_is_not_canceled(home: Home, paths: RunPaths) -> None:
    backend, played = backend_of(home)
    backend.cancel(asked_to_cancel(made_job(paths, 40, held=True)))
    assert played.commands == []


def test_a_run_without_a_job_has_nothing_to_cancel(home: Home, paths: RunPaths) -> None:
    backend, played = backend_of(home)
    backend.cancel(asked_to_cancel(paths))
    assert played.commands == []


# In the job.


def test_a_job_takes_its_run_over_and_says_so(home: Home, run: RunRecord, paths: RunPaths, inside: None) -> None:
    del inside
    made_job(paths, 17)
    backend, _ = backend_of(home)
    assert not backend.replaced(paths)
    assert backend.take_over(run, paths)
    assert claimed_by(paths) == Start(17, 0)
    assert not backend.replaced(paths)
    assert callable(signal.getsignal(signal.SIGUSR1)), "Slurm's early warning is heard"


def test_a_job_that_another_follows_does_nothing(
    home: Home, run: RunRecord, paths: RunPaths, inside: None, capfd: pytest.CaptureFixture[str]
) -> None:
    del inside
    made_job(paths, 17)
    made_job(paths, 18)
    assert not backend_of(home)[0].take_over(run, paths)
    assert claimed_by(paths) is None
    assert capfd.readouterr().err == "airlane: job 17 is not the run's job any more: nothing to do\n"


def test_a_supervisor_that_slurm_has_put_back_is_replaced_by_the_next_start(
    home: Home, run: RunRecord, paths: RunPaths, inside: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del inside
    made_job(paths, 17)
    cut_off, _ = backend_of(home)
    assert cut_off.take_over(run, paths)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert backend_of(home)[0].take_over(run, paths)
    assert cut_off.replaced(paths)


def test_a_supervisor_that_has_not_looked_at_its_job_is_asked_to_stop_by_sigterm_alone(home: Home) -> None:
    assert backend_of(home)[0].asked_to_stop() == Interruption(
        CauseKind.CANCELED, "the supervisor was asked to stop (SIGTERM)"
    )


def test_a_controller_that_does_not_answer_has_no_last_words(home: Home, paths: RunPaths) -> None:
    assert backend_of(home, scontrol_job=failed(REFUSED))[0].last_words(made_job(paths, 17)) is None


def test_a_command_on_a_host_runs_in_the_runs_last_job(home: Home, paths: RunPaths) -> None:
    made_job(paths, 17)
    words = backend_of(home)[0].on_node(made_job(paths, 18), "scan2")
    assert words[0] == "srun"
    assert {"--jobid=18", "--nodelist=scan2", "--overlap", "--ntasks=1"} <= set(words)


# What a dead supervisor left.


def test_what_a_dead_supervisor_left_in_the_users_allocation_is_ended(
    home: Home, paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SWEEP_PAUSE_S", 0.0)
    answers = iter([f"17.3|air-{paths.id}\n17.4|air-another\n", f"17.3|air-{paths.id}\n", ""])

    class Steps(Played):
        def __call__(self, command: Sequence[str], timeout_s: float, env: Mapping[str, str]) -> Completed:
            if command[0] == "squeue":
                return said(next(answers))
            return super().__call__(command, timeout_s, env)

    backend, _ = backend_of(home)
    played = Steps(scancel=said(""))
    backend._slurm = Slurm(played, {})
    backend.sweep(made_job(paths, 17, held=True))
    assert played.commands == [("scancel", "--signal=KILL", "17.3")] * 2


@pytest.mark.parametrize("held", [True, False])
def test_where_slurm_ends_it_or_does_not_answer_nothing_is_swept(home: Home, paths: RunPaths, *, held: bool) -> None:
    backend, played = backend_of(home, squeue=failed(REFUSED))
    backend.sweep(made_job(paths, 17, held=held))
    assert commands(played, "scancel") == []

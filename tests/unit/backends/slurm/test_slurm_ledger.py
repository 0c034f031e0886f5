"""Which Slurm jobs a run has become, and which of them is its supervisor."""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from airlane.backends.slurm import ledger
from airlane.backends.slurm.ledger import (
    JobRecord,
    Start,
    add_record,
    await_record,
    claim,
    claimed_by,
    job_records,
    write_script,
)
from airlane.errors import StoreError
from airlane.store.disk import SystemDisk
from airlane.store.paths import RunPaths


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens each time that somebody would sleep; then a minute passes at once."""
    play: list[Callable[[], object]] = []
    now = [0.0]

    def sleep(_seconds: float) -> None:
        if play:
            play.pop(0)()
        else:
            now[0] += 61

    monkeypatch.setattr(ledger, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: now[0]))
    return play


def test_the_jobs_of_a_run_are_kept_in_their_order(paths: RunPaths) -> None:
    assert job_records(paths) == ()
    first, second = JobRecord(17, 1.0), JobRecord(18, 2.0, excluded=("scan3",))
    for number, record in enumerate((first, second)):
        script = write_script(paths, f"#!/bin/bash\n# {number}\n")
        assert script == paths.slurm_script(number)
        add_record(paths, record)
    assert job_records(paths) == (first, second)


def test_a_script_is_readable_and_written_again_where_sbatch_refused_it(paths: RunPaths) -> None:
    write_script(paths, "a long first try\n")
    script = write_script(paths, "ü\n")
    assert script.read_text() == "ü\n"
    assert stat.S_IMODE(script.stat().st_mode) == 0o700
    assert stat.S_IMODE(paths.slurm.stat().st_mode) == 0o700


def test_a_damaged_record_is_told_by_name(paths: RunPaths) -> None:
    add_record(paths, JobRecord(17, 1.0))
    paths.slurm_record(0).write_bytes(b"{")
    with pytest.raises(StoreError, match=r"0\.json is damaged"):
        job_records(paths)


def test_a_job_finds_itself(paths: RunPaths) -> None:
    add_record(paths, JobRecord(17, 1.0))
    assert await_record(paths, 17)


def test_a_job_waits_until_its_submitter_has_written_it_down(
    paths: RunPaths, sleeps: list[Callable[[], object]]
) -> None:
    sleeps += [lambda: None, lambda: add_record(paths, JobRecord(17, 1.0))]
    assert await_record(paths, 17)
    sleeps += [lambda: None, lambda: add_record(paths, JobRecord(18, 2.0))]
    assert await_record(paths, 18)


def test_a_job_waits_though_slurm_has_begun_to_count_anew(paths: RunPaths, sleeps: list[Callable[[], object]]) -> None:
    add_record(paths, JobRecord(67_000_000, 1.0))
    sleeps += [lambda: add_record(paths, JobRecord(1, 2.0))]
    assert await_record(paths, 1)


def test_a_job_that_another_follows_is_not_the_runs_any_more(paths: RunPaths) -> None:
    add_record(paths, JobRecord(17, 1.0))
    add_record(paths, JobRecord(18, 2.0))
    assert not await_record(paths, 17)


@pytest.mark.parametrize("others", [[], [JobRecord(16, 1.0)]])
def test_a_job_that_nobody_writes_down_gives_up(
    paths: RunPaths, sleeps: list[Callable[[], object]], others: list[JobRecord]
) -> None:
    for record in others:
        add_record(paths, record)
    assert not await_record(paths, 17)
    assert sleeps == []


def test_the_last_claim_counts(paths: RunPaths) -> None:
    assert claimed_by(paths) is None
    claim(paths, Start(17, 0))
    claim(paths, Start(17, 1))
    assert claimed_by(paths) == Start(17, 1)


def test_a_full_disk_leaves_the_records_as_they_were(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    add_record(paths, JobRecord(17, 1.0))

    def refuse(_disk: SystemDisk, path: Path, _data: bytes, *, last: bool = False) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path), last)

    monkeypatch.setattr(SystemDisk, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        add_record(paths, JobRecord(18, 2.0))
    assert job_records(paths) == (JobRecord(17, 1.0),)

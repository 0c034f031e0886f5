"""What is written down about the Ray job that a run is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from airlane.backends.ray.ledger import (
    Coming,
    JobRecord,
    Position,
    RayFiles,
    read_job,
    read_position,
    read_token,
    take,
    write_job,
    write_position,
)
from airlane.errors import ConfigError, StoreError
from airlane.store.paths import RunPaths

OPAQUE = "an opaque word"
RECORD = JobRecord("http://head:8265", "air-7k2m9q4d", "air-7k2m9q4d", 100.0)


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    folder = tmp_path / "ünïcode 'runs'" / "7k2m9q4d"
    folder.mkdir(parents=True)
    return RunPaths(folder)


def test_a_run_without_a_job_has_no_record(run: RunPaths) -> None:
    assert read_job(run) is None


def test_the_record_is_private_and_survives(run: RunPaths) -> None:
    write_job(run, RECORD, token=None)
    assert read_job(run) == RECORD
    assert RayFiles(run).job.stat().st_mode & 0o777 == 0o600
    assert RayFiles(run).root.stat().st_mode & 0o777 == 0o700


def test_a_damaged_record_is_named(run: RunPaths) -> None:
    write_job(run, RECORD, token=None)
    RayFiles(run).job.write_bytes(b"{")
    with pytest.raises(StoreError, match=r"job\.json is damaged"):
        read_job(run)


def test_a_token_from_a_variable_is_kept_privately_for_the_mirror(run: RunPaths) -> None:
    write_job(run, RECORD, token=OPAQUE)
    assert read_token(run, RECORD) == OPAQUE
    assert RayFiles(run).token.stat().st_mode & 0o777 == 0o600
    assert OPAQUE.encode() not in RayFiles(run).job.read_bytes()


def test_a_token_from_a_file_stays_there_and_is_read_each_time(run: RunPaths, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    record = JobRecord("http://head:8265", "air-7k2m9q4d", "air-7k2m9q4d", 100.0, token_file=str(file))
    write_job(run, record, token=OPAQUE)
    assert not RayFiles(run).token.exists()
    file.write_text("second\n")
    assert read_token(run, record) == "second"


def test_a_cluster_without_a_token_needs_none(run: RunPaths) -> None:
    write_job(run, RECORD, token=None)
    assert read_token(run, RECORD) is None


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_token_file_that_is_gone_or_no_text_is_named(run: RunPaths, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    record = JobRecord("http://head:8265", "air-7k2m9q4d", "air-7k2m9q4d", 100.0, token_file=str(file))
    with pytest.raises(ConfigError, match="cannot be read from") as raised:
        read_token(run, record)
    assert str(file) in (raised.value.hint or "")


def test_a_position_survives_and_a_damaged_one_is_the_beginning(tmp_path: Path) -> None:
    file = tmp_path / "position.json"
    assert read_position(file) == Position()
    write_position(file, Position(3, 17, Coming.CUT_OFF))
    assert read_position(file) == Position(3, 17, Coming.CUT_OFF)
    for damage in (b"", b"{", b'{"part": "x"}', b'{"coming": "tomorrow"}'):
        file.write_bytes(damage)
        assert read_position(file) == Position()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    lock = tmp_path / "mirror.lock"
    descriptor = take(lock)
    assert descriptor is not None
    yield lock
    os.close(descriptor)


def test_a_lock_is_taken_by_one(held: Path) -> None:
    assert take(held) is None


def test_a_lock_is_free_when_its_owner_has_gone(tmp_path: Path) -> None:
    first = take(tmp_path / "mirror.lock")
    assert first is not None
    os.close(first)
    second = take(tmp_path / "mirror.lock")
    assert second is not None
    os.close(second)

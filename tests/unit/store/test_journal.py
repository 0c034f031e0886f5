"""The supervisor's pen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airlane.store import codec
from airlane.store.disk import SystemDisk
from airlane.store.journal import Journal
from airlane.store.paths import RunPaths
from airlane.store.records import Status
from airlane.store.states import State

from .made_records import made_status


class FullDisk(SystemDisk):
    """A disk that is full while `full` says so."""

    full = False

    def replace(self, path: Path, data: bytes, *, last: bool = False) -> None:
        self._check()
        super().replace(path, data, last=last)

    def append(self, path: Path, data: bytes) -> None:
        self._check()
        super().append(path, data)

    def _check(self) -> None:
        if self.full:
            raise OSError(28, "No space left on device")


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    folder = tmp_path / "a 'run' \"ü\"\n"
    folder.mkdir()
    return RunPaths(folder)


def test_a_status_is_written_and_may_be_written_again(paths: RunPaths) -> None:
    journal = Journal(paths, SystemDisk())
    status = made_status()
    assert journal.put(status)
    assert journal.put(status)
    assert codec.read(Status, paths.status) == status


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (State.RUNNING, State.PENDING),
        (State.SUCCESS, State.RUNNING),
        (State.FAILED, State.SUCCESS),
        (State.PENDING, State.SUCCESS),
        (State.CANCELED, State.PENDING),
    ],
)
def test_a_status_never_moves_backwards(paths: RunPaths, before: State, after: State) -> None:
    journal = Journal(paths, SystemDisk())
    journal.put(made_status(before))
    with pytest.raises(AssertionError, match=f"a run cannot go from {before} to {after}"):
        journal.put(made_status(after))
    kept = codec.read(Status, paths.status)
    assert kept is not None
    assert kept.state is before


def test_a_terminal_status_may_be_told_again_but_not_changed(paths: RunPaths) -> None:
    journal = Journal(paths, SystemDisk())
    journal.put(made_status(State.SUCCESS))
    assert journal.put(made_status(State.SUCCESS))
    with pytest.raises(AssertionError):
        journal.put(made_status(State.SUCCESS, tracking_error="late"))


def test_a_full_disk_refuses_a_status_and_takes_it_later(paths: RunPaths) -> None:
    disk = FullDisk()
    journal = Journal(paths, disk)
    journal.put(made_status(State.PENDING))
    disk.full = True
    assert not journal.put(made_status(State.RUNNING))
    assert not journal.put(made_status(State.FAILED))
    kept = codec.read(Status, paths.status)
    assert kept is not None
    assert kept.state is State.PENDING
    disk.full = False
    assert journal.put(made_status(State.FAILED))
    with pytest.raises(AssertionError):  # what was refused counts for the order all the same
        journal.put(made_status(State.RUNNING))


def test_events_are_lines_of_json_in_order(paths: RunPaths) -> None:
    journal = Journal(paths, SystemDisk())
    journal.event("attempt_started", 1.23456, attempt=0, hosts=["here", 'a "ü"\nb'])
    journal.event("finished", 2.0, state=State.SUCCESS)
    lines = [json.loads(line) for line in paths.events.read_text().splitlines()]
    assert lines == [
        {"ts": 1.235, "type": "attempt_started", "attempt": 0, "hosts": ["here", 'a "ü"\nb']},
        {"ts": 2.0, "type": "finished", "state": "SUCCESS"},
    ]


def test_an_event_with_bytes_that_are_no_text_is_kept_readable(paths: RunPaths) -> None:
    Journal(paths, SystemDisk()).event("finished", 1.0, cause=b"\xff".decode("utf-8", "surrogateescape"))
    assert json.loads(paths.events.read_text())["cause"] == "\udcff"


def test_events_that_a_full_disk_refuses_are_counted(paths: RunPaths) -> None:
    disk = FullDisk()
    journal = Journal(paths, disk)
    disk.full = True
    journal.event("one", 1.0)
    journal.event("two", 2.0)
    disk.full = False
    journal.event("three", 3.0)
    assert journal.lost_events == 2
    assert len(paths.events.read_text().splitlines()) == 1


class TightDisk(SystemDisk):
    """A disk that has room for nothing more unless the run gives its reserve away."""

    def __init__(self, paths: RunPaths) -> None:
        self._reserve = paths.reserve

    def replace(self, path: Path, data: bytes, *, last: bool = False) -> None:
        if self._reserve.exists():
            raise OSError(28, "No space left on device")
        super().replace(path, data, last=last)


def test_the_end_of_a_run_is_told_on_a_full_disk_from_the_room_kept_for_it(paths: RunPaths) -> None:
    journal = Journal(paths, TightDisk(paths))
    journal.reserve()
    assert not journal.put(made_status(state=State.RUNNING))
    ended = made_status(state=State.FAILED)
    assert journal.put(ended)
    assert codec.read(Status, paths.status) == ended
    assert not paths.reserve.exists()

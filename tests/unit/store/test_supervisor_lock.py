"""The lock that says whether a supervisor lives, and where it was taken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airlane.store import supervisor_lock
from airlane.store.supervisor_lock import hold, is_held, this_machine

OTHER_MACHINE = ("login2", "11111111-2222-3333-4444-555555555555")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a 'lock' ü\n"


def test_it_is_held_until_its_last_holder_closes_it(path: Path) -> None:
    descriptor = hold(path)
    inherited = os.dup(descriptor)
    assert is_held(path) is True
    os.close(descriptor)
    assert is_held(path) is True
    os.close(inherited)
    assert is_held(path) is False


def test_looking_at_it_twice_is_harmless_and_leaks_nothing(path: Path) -> None:
    descriptor = hold(path)
    before = len(list(Path("/dev/fd").iterdir()))
    assert [is_held(path) for _ in range(3)] == [True] * 3
    os.close(descriptor)
    assert [is_held(path) for _ in range(3)] == [False] * 3
    assert len(list(Path("/dev/fd").iterdir())) == before - 1


def test_no_file_is_no_supervisor(path: Path) -> None:
    assert is_held(path) is False


def test_a_lock_without_a_machine_is_taken_at_its_word(path: Path) -> None:
    path.touch()
    assert is_held(path) is False


def test_a_lock_taken_on_another_machine_says_nothing_here_when_it_looks_free(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_lock, "this_machine", lambda: OTHER_MACHINE)
    descriptor = hold(path)
    monkeypatch.undo()
    assert is_held(path) is True  # a file system that shows it is believed
    os.close(descriptor)
    assert is_held(path) is None


@pytest.mark.parametrize("same", [0, 1])
def test_a_restarted_machine_and_another_container_on_it_are_the_same_machine(
    path: Path, monkeypatch: pytest.MonkeyPatch, same: int
) -> None:
    then = list(OTHER_MACHINE)
    then[same] = this_machine()[same] or "no boot id"
    monkeypatch.setattr(supervisor_lock, "this_machine", lambda: tuple(then))
    os.close(hold(path))
    monkeypatch.undo()
    if this_machine()[same]:
        assert is_held(path) is False


def test_a_lock_that_cannot_be_looked_at_says_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.close(hold(path))

    def refuse(*_: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    assert is_held(path) is None


def test_a_machine_has_a_name() -> None:
    assert this_machine()[0]


def test_a_lock_that_another_keeps_is_not_waited_for_longer_than_asked(tmp_path: Path) -> None:
    first = hold(tmp_path / "lock")
    second = hold(tmp_path / "lock", patience_s=0.0)
    os.close(second)
    assert is_held(tmp_path / "lock") is True
    os.close(first)
    assert is_held(tmp_path / "lock") is False

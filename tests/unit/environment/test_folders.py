"""The environments that are there, who uses them, and removing the rest."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from airlane.environment import folders
from airlane.environment.folders import EnvironmentInfo, hold, list_environments, prune, show
from airlane.errors import ConflictError, NotFoundError
from airlane.store.paths import Home

DAY_S = 86400.0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "a 'home'\nof ours")
    found.environments.mkdir(parents=True)
    return found


def add(home: Home, key: str, *, used_days_ago: float = 0.0, base: str = "5") -> EnvironmentInfo:
    folder = home.environments / key
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").write_bytes(b"x" * 100)
    used = time.time() - used_days_ago * DAY_S
    info = EnvironmentInfo(
        key=key,
        base=base,
        dependencies=("ünïcode>=1",),
        python_version="3.11",
        platform="linux-x86_64",
        packages=3,
        size_bytes=100,
        created_at=used,
        last_used_at=used,
        build_s=1.5,
        moved=(),
        folder=folder,
    )
    folders.write_record(folder, info)
    os.utime(folder / "environment.json", (used, used))
    return info


def keys(infos: tuple[EnvironmentInfo, ...]) -> list[str]:
    return [info.key for info in infos]


def test_there_is_nothing_in_a_home_that_is_not_there(tmp_path: Path) -> None:
    home = Home(tmp_path / "none")
    assert list_environments(home) == ()
    assert prune(home) == ()
    assert not home.root.exists()


def test_a_record_is_read_back_as_it_was_written(home: Home) -> None:
    written = add(home, "abc", used_days_ago=2)
    (read,) = list_environments(home)
    assert replace(read, last_used_at=0) == replace(written, last_used_at=0)
    assert read.last_used_at == pytest.approx(written.last_used_at, abs=0.01)


def test_the_last_used_comes_first(home: Home) -> None:
    add(home, "old", used_days_ago=3)
    add(home, "new", used_days_ago=1)
    add(home, "older", used_days_ago=4)
    assert keys(list_environments(home)) == ["new", "old", "older"]
    folders.touch(home.environments / "older")
    assert keys(list_environments(home)) == ["older", "new", "old"]


def test_what_is_no_environment_is_passed_over(home: Home) -> None:
    (home.environments / "empty").mkdir()
    (home.environments / "file").write_text("x", encoding="utf-8")
    broken = home.environments / "broken"
    broken.mkdir()
    (broken / "environment.json").write_text('{"key": 1', encoding="utf-8")
    assert list_environments(home) == ()


def test_an_environment_is_found_by_the_beginning_of_its_key(home: Home) -> None:
    add(home, "abc123")
    add(home, "abd456")
    assert show(home, "abc").key == "abc123"
    with pytest.raises(ConflictError, match="'ab' begins more than one key: "):
        show(home, "ab")
    for unknown in ("x", ""):
        with pytest.raises(NotFoundError):
            show(home, unknown)


def test_prune_removes_what_nobody_has_used_for_so_long(home: Home) -> None:
    add(home, "old", used_days_ago=40)
    add(home, "recent", used_days_ago=20)
    assert keys(prune(home, older_than_days=30, dry_run=True)) == ["old"]
    assert keys(list_environments(home)) == ["recent", "old"]
    assert keys(prune(home, older_than_days=30)) == ["old"]
    assert keys(list_environments(home)) == ["recent"]
    assert not (home.environments / "old").exists()


def test_prune_without_a_limit_leaves_what_was_used_just_now(home: Home) -> None:
    add(home, "fresh")
    add(home, "old", used_days_ago=1)
    assert keys(prune(home)) == ["old"]
    assert keys(prune(home, older_than_days=0)) == ["fresh"]


def test_prune_keeps_what_it_is_told_to_keep(home: Home) -> None:
    add(home, "old", used_days_ago=40)
    assert prune(home, keep={"old"}) == ()


def test_an_environment_that_is_held_is_never_pruned(home: Home) -> None:
    add(home, "old", used_days_ago=40)
    with hold(home, "old"), hold(home, "old"):
        assert prune(home, older_than_days=0) == ()
    assert keys(prune(home, older_than_days=0)) == ["old"]


def test_holding_the_hosts_own_python_is_nothing(home: Home) -> None:
    with hold(home, None):
        assert list(home.environments.iterdir()) == []


def test_an_environment_under_construction_is_never_pruned(home: Home) -> None:
    add(home, "old", used_days_ago=40)
    with folders.build_lock(home, "old", waiting=pytest.fail):
        place = folders.new_building_folder(home, "old")
        assert prune(home, older_than_days=0) == ()
        assert place.exists()
    prune(home, older_than_days=0)
    assert not place.exists()


def test_a_new_build_removes_only_what_killed_builds_of_the_same_key_left(home: Home) -> None:
    mine, other = folders.new_building_folder(home, "aaa"), folders.new_building_folder(home, "bbb")
    (mine / "half").mkdir()
    folders.remove_unfinished(home, "aaa")
    assert not mine.exists()
    assert other.exists()


def test_a_folder_that_cannot_be_removed_whole_is_no_environment_any_more(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = add(home, "abc")
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    folders.discard(info.folder)
    assert not info.folder.exists()
    assert list_environments(home) == ()


def test_whoever_waits_for_a_build_can_give_up(home: Home) -> None:
    def give_up() -> None:
        raise folders.stopped_error()

    with (
        folders.build_lock(home, "abc", waiting=pytest.fail) as (_, locks),
        pytest.raises(type(folders.stopped_error()), match="was stopped"),
        folders.build_lock(home, "abc", waiting=give_up),
    ):
        pytest.fail("two builders at once")
    assert locks


def test_the_size_counts_links_and_not_what_they_point_at(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"x" * 1000)
    (tmp_path / "a/link").symlink_to("b")
    assert folders.tree_size_bytes(tmp_path) == 1001

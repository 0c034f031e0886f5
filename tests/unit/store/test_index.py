"""The cache of ended runs: never the truth, never in the way, and fast."""

from __future__ import annotations

import sqlite3
import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest

from airlane.store import index as module
from airlane.store.index import IndexRow, RunIndex, index_row
from airlane.store.paths import RunPaths
from airlane.store.records import Cause, CauseKind, Verdict
from airlane.store.runs import RunView
from airlane.store.states import State

from .made_records import made_record, made_status

NOW = 1_796_034_067.0
DONE = Cause(CauseKind.COMPLETED, 'the command said "ü"\n')


def ended(run_id: str = "7k2m9q4d", **record: object) -> RunView:
    """A run that has succeeded."""
    status = made_status(State.SUCCESS, cause=DONE, ended_at=NOW + 60)
    return RunView(RunPaths(Path("/runs") / run_id), made_record(id=run_id, **record), status, None)


@pytest.fixture
def index(tmp_path: Path) -> RunIndex:
    return RunIndex(tmp_path / "a 'home' ü\n.db")


def file_of(index: RunIndex) -> Path:
    return index._path


def test_a_saved_run_is_read_back_whole(index: RunIndex) -> None:
    view = ended(experiment_name="sft-ü", user="ada", accelerators=16)
    index.save([view])
    assert index.views([view.paths]) == {view.record.id: view}
    assert index.rows() == {view.record.id: IndexRow("ada", "sft-ü", "CPU_1xCORE", 16, NOW + 60)}


def test_a_verdict_is_kept_with_its_run(index: RunIndex) -> None:
    verdict = Verdict(State.FAILED, Cause(CauseKind.SUPERVISOR_LOST, "lost"), NOW + 9, "a reader")
    view = replace(ended(), status=made_status(State.RUNNING), verdict=verdict)
    never_started = replace(ended("7k2m9q4e"), status=None, verdict=verdict)
    index.save([view, never_started])
    assert index.views([view.paths, never_started.paths]) == {
        view.record.id: view, never_started.record.id: never_started,
    }  # fmt: skip
    assert index.rows()[view.record.id].ended_at == NOW + 9


def test_saving_again_replaces_and_saving_nothing_makes_no_file(index: RunIndex) -> None:
    index.save([])
    assert not file_of(index).exists()
    index.save([ended()])
    index.save([ended(experiment_name="other")])
    assert [row.experiment_name for row in index.rows().values()] == ["other"]


def test_a_run_that_is_forgotten_is_read_anew_and_the_others_are_kept(index: RunIndex) -> None:
    index.forget("7k2m9q4d")
    assert not file_of(index).exists()
    one, other = ended(), ended("7k2m9q4e")
    index.save([one, other])
    index.forget("7k2m9q4d")
    assert list(index.rows()) == ["7k2m9q4e"]


def test_an_index_that_cannot_forget_is_started_anew(index: RunIndex) -> None:
    index.save([ended()])
    file_of(index).write_bytes(b"no database")
    index.forget("7k2m9q4d")
    assert index.rows() == {}


def test_a_missing_index_is_empty(index: RunIndex) -> None:
    assert index.rows() == {}
    assert index.views([ended().paths]) == {}
    assert not file_of(index).exists()


def test_it_is_private(index: RunIndex) -> None:
    index.save([ended()])
    assert stat.S_IMODE(file_of(index).stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_index_reads_as_empty_and_is_started_anew(index: RunIndex, damage: bytes) -> None:
    index.save([ended()])
    file_of(index).write_bytes(damage)
    assert index.rows() == {}
    index.save([ended()])
    index.save([ended()])
    assert list(index.rows()) == ["7k2m9q4d"]


def test_an_index_damaged_in_the_middle_is_started_anew_by_a_read_alone(index: RunIndex) -> None:
    index.save([ended(f"{number:08d}") for number in range(500)])
    content = bytearray(file_of(index).read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 100] = b"\xff" * 100
    file_of(index).write_bytes(content)
    assert index.rows() == {}
    index.save([ended()])
    assert list(index.rows()) == ["7k2m9q4d"]


def test_an_empty_file_and_one_of_another_program_are_no_obstacle(index: RunIndex) -> None:
    file_of(index).touch()
    assert index.rows() == {}
    index.save([ended()])
    assert list(index.rows()) == ["7k2m9q4d"]


def test_a_record_that_cannot_be_read_is_left_out(index: RunIndex) -> None:
    good, bad = ended(), ended("7k2m9q4e")
    index.save([good, bad])
    with sqlite3.connect(file_of(index)) as connection:
        connection.execute("UPDATE runs SET record = '{}' WHERE id = '7k2m9q4e'")
    connection.close()
    assert index.views([good.paths, bad.paths]) == {good.record.id: good}


def test_a_locked_index_is_neither_waited_for_for_long_nor_harmed(
    index: RunIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST_WAIT_S", 0.01)
    index.save([ended()])
    holder = sqlite3.connect(file_of(index), isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    index.save([ended("7k2m9q4e")])
    assert index.rows() == {}
    holder.execute("ROLLBACK")
    holder.close()
    assert list(index.rows()) == ["7k2m9q4d"]


def test_a_place_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "no" / "index.db", tmp_path / "file" / "index.db", tmp_path):
        index = RunIndex(path)
        index.save([ended()])
        assert index.rows() == {}


def test_more_runs_than_a_query_takes_are_read_at_once(index: RunIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_PARAMETERS", 3)
    views = [ended(f"{number:08d}") for number in range(10)]
    index.save(views)
    assert index.views([view.paths for view in views]) == {view.record.id: view for view in views}
    assert index.views([]) == {}


def test_ten_thousand_rows_are_read_in_less_time_than_a_thousand_records_take_to_decode(index: RunIndex) -> None:
    # A ratio of two things measured here: the list must not read the records of runs that it does not show.
    columns = module._columns(ended())
    index._insert([(f"{number:08d}", *columns[1:]) for number in range(10_000)])
    shown = [RunPaths(Path("/runs") / f"{number:08d}") for number in range(1000)]

    def best(what: str) -> float:
        times = []
        for _ in range(3):
            begun = time.perf_counter()
            assert len(index.rows() if what == "rows" else index.views(shown)) in (10_000, 1000)
            times.append(time.perf_counter() - begun)
        return min(times)

    assert best("rows") < best("views")


def test_a_row_is_what_a_list_filters_by() -> None:
    assert index_row(ended()) == IndexRow("me", "test", "CPU_1xCORE", 1, NOW + 60)

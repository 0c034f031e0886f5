"""The list of runs: which, in which order, from where, and what of it is damaged."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from airlane.api import listing
from airlane.errors import ArgumentError, NotFoundError, StoreError
from airlane.store import codec
from airlane.store.paths import RunPaths
from airlane.store.records import RunRecord
from airlane.store.runs import RunStore, RunView
from airlane.store.states import State

from .conftest import Bench


def ids(views: tuple[RunView, ...]) -> list[str]:
    return [view.record.id for view in views]


def test_the_newest_come_first_and_no_more_than_asked_for(bench: Bench) -> None:
    made = [bench.run(State.SUCCESS).id for _ in range(5)]
    assert ids(bench.client.list()) == made[::-1]
    assert ids(bench.client.list(limit=2)) == made[:2:-1]
    assert ids(bench.client.list(limit=2)) == made[:2:-1]  # now from the index


def test_a_list_of_nothing_is_empty_and_makes_nothing(bench: Bench) -> None:
    assert bench.client.list() == ()
    assert not bench.home.exists()


def test_old_ones_are_left_out_unless_they_are_asked_for_or_still_run(bench: Bench) -> None:
    now = time.time()
    old = bench.run(State.SUCCESS, ended_at=now - 25 * 3600).id
    recent = bench.run(State.FAILED, ended_at=now - 23 * 3600).id
    running, waiting = bench.run(State.RUNNING, alive=True).id, bench.run(alive=True).id
    for _ in range(2):  # from the folders, then from the index
        assert ids(bench.client.list()) == [waiting, running, recent]
        assert ids(bench.client.list(all_status=True)) == [waiting, running, recent, old]


def test_other_users_are_left_out_unless_they_are_asked_for(bench: Bench) -> None:
    mine, theirs = bench.run(State.SUCCESS).id, bench.run(State.SUCCESS, user="you").id
    for _ in range(2):
        assert ids(bench.client.list()) == [mine]
        assert ids(bench.client.list(all_users=True)) == [theirs, mine]
        assert ids(bench.client.list(filters={"user": "you"})) == [theirs]


@pytest.mark.parametrize(
    ("filters", "matching"),
    [
        ({"experiment": "sft-*"}, [0, 1]),
        ({"experiment": "SFT-A"}, [0]),
        ({"experiment": "sft"}, []),
        ({"experiment": "*-[ab]"}, [0, 1]),
        ({"accelerator_type": "h100"}, [0]),
        ({"accelerator_type": "gpu"}, [0, 1]),
        ({"num_accelerators": "8"}, [0]),
        ({"num_accelerators": "08"}, [0]),
        ({"experiment": "sft-*", "num_accelerators": "16"}, [1]),
    ],
)
def test_filters_are_all_to_match(bench: Bench, filters: dict[str, str], matching: list[int]) -> None:
    made = [
        bench.run(State.SUCCESS, experiment_name="sft-a", accelerator_type="GPU_8xH100", accelerators=8).id,
        bench.run(State.SUCCESS, experiment_name="sft-b", accelerator_type="GPU_8xA100", accelerators=16).id,
        bench.run(State.SUCCESS, experiment_name="eval", accelerator_type="CPU_1xCORE", accelerators=1).id,
    ]
    assert ids(bench.client.list(filters=filters)) == [made[number] for number in reversed(matching)]


def test_a_wrong_filter_is_refused(bench: Bench) -> None:
    with pytest.raises(NotFoundError, match="there is no such key") as caught:
        bench.client.list(filters={"experimnt": "x"})
    assert "experiment" in str(caught.value.hint)
    with pytest.raises(ArgumentError, match="expected a whole number"):
        bench.client.list(filters={"num_accelerators": "many"})


def test_a_dead_run_is_settled_on_the_way(bench: Bench) -> None:
    run = bench.run(State.RUNNING)
    (view,) = bench.client.list()
    assert (view.state, bench.backend.swept) == (State.FAILED, [run.id])


def test_ended_runs_are_read_from_their_folders_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    running = bench.run(State.RUNNING, alive=True)
    for _ in range(3):
        bench.run(State.SUCCESS)
    before = bench.client.list()
    read: list[str] = []
    really = RunStore.view

    def view(store: RunStore, paths: RunPaths) -> RunView:
        read.append(paths.id)
        return really(store, paths)

    monkeypatch.setattr(RunStore, "view", view)
    assert bench.client.list() == before
    assert set(read) == {running.id}


def test_an_index_that_is_damaged_or_gone_changes_no_answer(bench: Bench) -> None:
    for _ in range(3):
        bench.run(State.SUCCESS)
    before = bench.client.list()
    bench.client.home.index.write_bytes(b"\xff" * 9999)
    assert bench.client.list() == before
    bench.client.home.index.unlink()
    assert bench.client.list() == before
    assert bench.client.list() == before


def test_a_run_that_is_removed_is_not_listed_any_more(bench: Bench) -> None:
    kept, removed = bench.run(State.SUCCESS), bench.run(State.SUCCESS)
    bench.client.list()
    removed.root.rename(bench.folder / "away")
    assert ids(bench.client.list()) == [kept.id]


@pytest.mark.parametrize("name", ["run.json", "status.json", "verdict.json"])
def test_a_damaged_run_is_left_out_and_told_and_the_others_are_listed(bench: Bench, name: str) -> None:
    good, bad = bench.run(State.SUCCESS), bench.run(State.RUNNING)
    (bad.root / name).write_bytes(b"{")
    told: list[StoreError] = []
    for times in (1, 2):
        assert ids(bench.client.list(on_damage=told.append)) == [good.id]
        assert [str(bad.root / name) in error.message for error in told] == [True] * times
    assert ids(bench.client.list()) == [good.id]


def test_a_damaged_record_of_a_node_keeps_no_run_from_its_end(bench: Bench) -> None:
    bad = bench.run(State.RUNNING)
    bad.node_record(attempt=0, node=0).write_bytes(b"\xff")
    (view,) = bench.client.list()
    assert view.state is State.FAILED
    assert bench.client.get(bad.id).view() == view


def test_a_submission_that_was_cut_off_is_neither_listed_nor_told(bench: Bench) -> None:
    half = bench.run()
    half.record.unlink()
    assert bench.client.list(on_damage=lambda error: pytest.fail(error.message)) == ()


def test_bytes_that_are_no_text_in_a_record_do_no_harm(bench: Bench) -> None:
    name = b"/home/me/\xff.yaml".decode("utf-8", "surrogateescape")
    bench.run(State.SUCCESS, workload_file=name)
    for _ in range(2):
        (view,) = bench.client.list()
        assert view.record.workload_file == name
        assert codec.decode(RunRecord, codec.encode(view.record), source="test") == view.record


def test_a_day_is_what_counts_as_recent() -> None:
    assert listing.recent(100_000.0) == 100_000.0 - 86_400


def test_a_home_that_is_not_there_is_not_made(bench: Bench, tmp_path: Path) -> None:
    assert bench.new_client().list(all_users=True, all_status=True) == ()
    assert not (tmp_path / "home").exists()

"""Records on disk: nothing is lost on the way there and back, and damage is named."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlane.errors import StoreError
from airlane.store import codec
from airlane.store.records import Attempt, Cause, CauseKind, NodeRecord, RunRecord, Status, Verdict
from airlane.store.states import State

from .made_records import made_record, made_status, records

KINDS = (RunRecord, Status, Verdict, NodeRecord, Attempt, Cause)


@given(st.data())
def test_every_record_survives_the_trip_through_its_file(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    record = data.draw(records(kind))
    encoded = codec.encode(record)
    assert encoded.count(b"\n") == 1
    assert encoded.endswith(b"\n")
    encoded.decode("utf-8")  # other programs can read it
    assert codec.decode(kind, encoded, source="test") == record


def test_words_in_other_scripts_stay_readable_in_the_file() -> None:
    assert "训练 ü" in codec.encode(made_record(experiment_name="训练 ü")).decode()


def test_a_file_name_that_is_no_text_is_kept() -> None:
    name = b"/home/me/\xff\xfe.yaml".decode("utf-8", "surrogateescape")
    record = made_record(workload_file=name, experiment_name="训练")
    assert codec.decode(RunRecord, codec.encode(record), source="test") == record


@given(st.binary(max_size=200))
def test_junk_is_damage_and_nothing_else(junk: bytes) -> None:
    with pytest.raises(StoreError, match=r"^status\.json is damaged: "):
        codec.decode(Status, junk, source="status.json")


def _without(name: str) -> dict[str, Any]:
    fields = asdict(made_status())
    del fields[name]
    return fields


@pytest.mark.parametrize(
    "fields",
    [
        _without("state"),
        {**asdict(made_status()), "state": "DONE"},
        {**asdict(made_status()), "updated_at": "now"},
        {**asdict(made_status()), "updated_at": True},
        {**asdict(made_status()), "supervisor_pid": 1.5},
        {**asdict(made_status()), "supervisor_pid": True},
        {**asdict(made_status()), "attempts": "none"},
        {**asdict(made_status()), "attempts": [1]},
        {**asdict(made_status()), "attempts": [{"number": 0}]},
        {**asdict(made_status()), "cause": []},
        [],
        "state",
        None,
        7,
    ],
)
def test_a_file_that_is_json_but_no_record_is_damage_too(tmp_path: Path, fields: Any) -> None:
    path = tmp_path / "a 'quoted' ü\nstatus.json"
    path.write_text(json.dumps(fields))
    with pytest.raises(StoreError) as caught:
        codec.read(Status, path)
    assert caught.value.message.startswith(f"{path} is damaged: ")


@pytest.mark.parametrize("cut", [0, 1, 50, -2])
def test_a_record_cut_short_is_damage(cut: int) -> None:
    with pytest.raises(StoreError):
        codec.decode(Status, codec.encode(made_status())[:cut], source="status.json")


def test_fields_of_a_newer_version_are_ignored_and_missing_ones_have_their_default() -> None:
    fields = {**asdict(made_status()), "colour": "blue"}
    del fields["tracking_error"], fields["attempts"]
    assert codec.decode(Status, json.dumps(fields).encode(), source="test") == made_status()


def test_a_whole_number_of_seconds_is_a_time() -> None:
    fields = {**asdict(made_status()), "updated_at": 7}
    decoded = codec.decode(Status, json.dumps(fields).encode(), source="test")
    assert isinstance(decoded.updated_at, float)


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert codec.read(Status, tmp_path / "no.json") is None
    assert codec.read(Status, tmp_path / "file" / "no.json") is None


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "status.json").mkdir()
    with pytest.raises(StoreError, match=r"status\.json cannot be read: Is a directory"):
        codec.read(Status, tmp_path / "status.json")


def test_nested_records_are_rebuilt_whole() -> None:
    cause = Cause(CauseKind.SIGNAL, "node 1 was killed", node=1, log_lines=("a", "b"), collateral_nodes=(0, 2))
    attempts = (Attempt(0, 1.0, 2.0, State.FAILED, cause, ("a", "b")), Attempt(1, 3.0))
    status = made_status(attempts=attempts, cause=cause)
    assert codec.decode(Status, codec.encode(status), source="test") == status

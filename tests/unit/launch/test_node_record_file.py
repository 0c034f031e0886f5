from __future__ import annotations

import json
from pathlib import Path

import pytest

from airlane.launch.record import RecordFile
from airlane.launch.reserve import reserve


def test_a_record_is_replaced_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "it's a folder" / "0.json"
    path.parent.mkdir()
    record = RecordFile(str(path))
    record.begin({"pid": 1, "error": "a much longer text than the next one has"})
    assert json.loads(path.read_text())["pid"] == 1
    record.finish({"pid": 2})
    assert json.loads(path.read_text()) == {"pid": 2}
    assert [entry.name for entry in path.parent.iterdir()] == ["0.json"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_record_longer_than_its_reserved_room_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "0.json"
    record = RecordFile(str(path))
    record.begin({})
    record.finish({"error": "x" * 10_000})
    assert len(json.loads(path.read_text())["error"]) == 10_000


def test_the_end_needs_no_room_that_the_beginning_did_not_take(tmp_path: Path) -> None:
    path = tmp_path / "0.json"
    record = RecordFile(str(path))
    record.begin({"pid": 1})
    reserved = (tmp_path / "0.json.next").stat()
    record.finish({"pid": 1, "exit_code": 0})
    assert path.stat().st_ino == reserved.st_ino
    assert path.stat().st_blocks <= reserved.st_blocks


def test_the_beginning_takes_the_room_that_was_reserved_before_the_command(tmp_path: Path) -> None:
    path = tmp_path / "0.json"
    reserve(str(path))
    reserved = (tmp_path / "0.json.next").stat()
    RecordFile(str(path)).begin({"pid": 1})
    assert path.stat().st_ino == reserved.st_ino
    assert path.stat().st_size == reserved.st_size


def test_without_room_for_another_file_the_end_is_written_over_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "0.json"
    record = RecordFile(str(path))
    record.begin({"pid": 1})
    (tmp_path / "0.json.next").unlink()
    (tmp_path / "0.json.next").mkdir()  # stands for a disk with no room
    record.finish({"pid": 1, "exit_code": 0})
    assert json.loads(path.read_text()) == {"pid": 1, "exit_code": 0}


def test_a_start_that_cannot_be_recorded_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        RecordFile(str(tmp_path / "gone" / "0.json")).begin({})

from __future__ import annotations

from pathlib import Path

import pytest

from airlane.errors import TrackingRejectedError
from airlane.tracking import artifacts
from airlane.tracking.address import Address, parse
from airlane.tracking.artifacts import Part, destination, parts

ENV = {"HOME": "/nonexistent"}
HERE = parse("http://127.0.0.1:5000", ENV)
THERE = parse("https://mlflow.lab/team", ENV)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "PART_BYTES", 100)
    monkeypatch.setattr(artifacts, "MOST_PARTS", 5)


def content(part: Part) -> bytes:
    return part.path.read_bytes()[part.start : part.start + part.length_bytes]


def test_a_small_file_goes_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a 'b' é#?.log"
    path.write_bytes(b"hello\n")
    (part,) = parts(path, "logs/node_0")
    assert part.name == "logs/node_0/a _b_ é__.log"
    assert content(part) == b"hello\n"
    assert next(parts(path, "")).name == "a _b_ é__.log"


def test_a_missing_or_empty_file_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert list(parts(tmp_path / "empty", "x")) == []
    assert list(parts(tmp_path / "none", "x")) == []
    assert list(parts(tmp_path / "empty" / "below a file", "x")) == []


def test_a_large_file_goes_in_numbered_parts_that_end_at_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(b"line %d\n" % i for i in range(45)))
    found = list(parts(path, "logs/node_0"))
    assert [part.name for part in found] == [f"logs/node_0/0.{i:03d}.log" for i in range(len(found))]
    assert b"".join(map(content, found)) == path.read_bytes()
    assert all(content(part).endswith(b"\n") for part in found)


def test_a_file_without_line_ends_is_cut_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"x" * 350)
    found = list(parts(path, ""))
    assert b"".join(map(content, found)) == path.read_bytes()
    assert len(found) == 4


def test_of_a_very_large_file_the_beginning_and_the_end_are_kept_and_the_gap_is_told(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(b"line %d\n" % i for i in range(1000)))
    note, *found = parts(path, "logs/node_0")
    assert note.name == "logs/node_0/0.left-out.txt"
    assert note.note is not None
    assert str(path).encode() in note.note
    kept = b"".join(map(content, found))
    lines = kept.splitlines()
    assert lines[0] == b"line 0"
    assert lines[-1] == b"line 999"
    assert len(found) <= 6
    assert set(lines) <= set(path.read_bytes().splitlines()), "no line is cut"
    assert len(lines) == len(set(lines)), "no line comes twice"


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("mlflow-artifacts:/1/9f2/artifacts", "1/9f2/artifacts"),
        ("mlflow-artifacts://mlflow.lab/1/9f2/artifacts", "1/9f2/artifacts"),
        ("https://mlflow.lab/team/api/2.0/mlflow-artifacts/artifacts/1/9%20f/artifacts", "1/9 f/artifacts"),
    ],
)
def test_artifacts_behind_the_server_go_through_it(uri: str, path: str) -> None:
    assert destination(uri, THERE) == path


def test_artifacts_in_a_folder_of_this_machine_are_copied_there() -> None:
    assert destination("file:///data/ml%20flow/1", HERE) == Path("/data/ml flow/1")
    assert destination("/data/ml%20flow/1", HERE) == Path("/data/ml%20flow/1")


@pytest.mark.parametrize(
    ("uri", "address", "shown"),
    [
        ("s3://bucket/x", THERE, "s3://bucket"),
        ("dbfs:/Volumes/x", THERE, "dbfs://"),
        ("file:///data/1", THERE, "file://"),
        ("/data/1", THERE, "a folder of the server"),
        ("mlflow-artifacts://other.lab/1", THERE, "mlflow-artifacts://other.lab"),
    ],
)
def test_artifacts_out_of_reach_are_refused_with_where_they_are(uri: str, address: Address, shown: str) -> None:
    with pytest.raises(TrackingRejectedError) as refused:
        destination(uri, address)
    assert shown in refused.value.message

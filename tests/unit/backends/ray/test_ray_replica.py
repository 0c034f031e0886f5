"""Carrying the files of a run folder: what moves, in which order, and what both ends survive."""

from __future__ import annotations

import contextlib
import json
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from airlane.backends.ray.reading import fair_shares
from airlane.backends.ray.replica import PIECE_BYTES, Frame, GapError, Sink, Source
from airlane.errors import StoreError

from .made_cluster import files_of

MUCH = 1 << 30
LOG, RECORD = "attempts/0/nodes/0.log", "attempts/0/nodes/0.json"
OVER = json.dumps({"state": "SUCCESS", "attempts": [{"number": 0, "ended_at": 5.0}]}).encode()
GOING = json.dumps({"state": "RUNNING", "attempts": [{"number": 0, "ended_at": None}]}).encode()
AGAIN = json.dumps(
    {"state": "RUNNING", "attempts": [{"number": 0, "ended_at": 5.0}, {"number": 1, "ended_at": None}]}
).encode()


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "the node's"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "the user's"


def write(root: Path, path: str, content: bytes) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def append(root: Path, path: str, content: bytes) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as opened:
        opened.write(content)


def paths_of(frames: tuple[Frame, ...]) -> list[str]:
    return [frame.path for frame in frames]


def carry(source: Source, sink: Sink, limit_bytes: int = MUCH) -> None:
    """Until nothing is new."""
    while frames := source.changes(limit_bytes):
        for frame in frames:
            sink.apply(frame)


@contextlib.contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """No file of this process grows beyond: the nearest thing to a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_only_what_a_log_has_gained_moves(here: Path) -> None:
    source = Source(here)
    append(here, LOG, b"one\n")
    assert source.changes(MUCH) == (Frame(LOG, 0, b"one\n"),)
    append(here, LOG, b"two\n")
    assert source.changes(MUCH) == (Frame(LOG, 4, b"two\n"),)
    assert source.changes(MUCH) == ()


def test_an_empty_log_is_told_of_once(here: Path) -> None:
    source = Source(here)
    write(here, LOG, b"")
    assert source.changes(MUCH) == (Frame(LOG, 0, b""),)
    assert source.changes(MUCH) == ()


def test_a_record_moves_whole_and_only_when_it_is_another(here: Path) -> None:
    source = Source(here)
    write(here, RECORD, b"{}")
    assert source.changes(MUCH) == (Frame(RECORD, None, b"{}"),)
    write(here, RECORD, b"{}")
    assert source.changes(MUCH) == ()
    write(here, RECORD, b'{"exit_code": 0}')
    assert source.changes(MUCH) == (Frame(RECORD, None, b'{"exit_code": 0}'),)


def test_a_record_of_the_same_size_written_in_the_same_moment_is_seen(here: Path) -> None:
    source = Source(here)
    file = write(here, RECORD, b'{"a": 1}')
    first = file.stat()
    assert source.changes(MUCH)
    file.write_bytes(b'{"a": 2}')
    os.utime(file, ns=(first.st_atime_ns, first.st_mtime_ns))
    assert source.changes(MUCH) == (Frame(RECORD, None, b'{"a": 2}'),)


def test_a_record_that_rests_is_not_read_again(here: Path) -> None:
    reads = []

    def read_long_after_it_was_written() -> float:
        reads.append(RECORD)
        return record.stat().st_mtime + 3600

    source = Source(here, clock=read_long_after_it_was_written)
    record = write(here, RECORD, b"{}")
    assert source.changes(MUCH)
    assert source.changes(MUCH) == ()
    assert reads == [RECORD]


def test_a_record_comes_after_the_log_beside_it(here: Path) -> None:
    source = Source(here)
    append(here, LOG, b"x" * 5000)
    write(here, RECORD, b'{"exit_code": 1}')
    seen: list[Frame] = []
    while frames := source.changes(1000):
        seen += frames
    assert seen[-1] == Frame(RECORD, None, b'{"exit_code": 1}')
    assert sum(len(frame.data) for frame in seen[:-1]) == 5000


def test_what_was_written_before_a_record_comes_before_it_though_the_log_was_looked_at_earlier(here: Path) -> None:
    append(here, LOG, b"begin\n")
    record = write(here, RECORD, b"{}")

    def write_the_end_while_the_record_is_read() -> float:
        append(here, LOG, b"end\n")
        return record.stat().st_mtime + 3600

    frames = Source(here, clock=write_the_end_while_the_record_is_read).changes(MUCH)
    assert frames == (Frame(LOG, 0, b"begin\nend\n"), Frame(RECORD, None, b"{}"))


def test_a_log_without_end_does_not_hold_up_the_status(here: Path) -> None:
    source = Source(here)
    append(here, LOG, b"x" * 100_000)
    write(here, "status.json", GOING)
    assert "status.json" in paths_of(source.changes(1000))


def test_a_log_without_end_does_not_hold_up_another_log(here: Path) -> None:
    source = Source(here)
    append(here, LOG, b"x" * 100_000)
    append(here, "events.jsonl", b"{}\n" * 10)
    assert Frame("events.jsonl", 0, b"{}\n" * 10) in source.changes(1000)


def test_a_record_whose_log_keeps_growing_comes_when_what_was_there_before_it_has(here: Path) -> None:
    source = Source(here)
    append(here, LOG, b"x" * 2000)
    write(here, RECORD, b"{}")
    looks = 0
    while RECORD not in paths_of(source.changes(500)):
        append(here, LOG, b"y" * 500)
        looks += 1
        assert looks < 10


def test_the_end_of_the_run_comes_after_every_log_and_every_record(here: Path) -> None:
    source = Source(here)
    write(here, "status.json", OVER)
    for node in range(3):
        append(here, f"attempts/0/nodes/{node}.log", b"x" * 3000)
        write(here, f"attempts/0/nodes/{node}.json", b"{}" * 100)
    append(here, "attempts/0/setup.log", b"x" * 10)
    seen: list[str] = []
    while frames := source.changes(1000):
        seen += paths_of(frames)
    assert seen[-1] == "status.json"
    assert len(set(seen)) == 8


def test_the_end_of_an_attempt_comes_after_its_files_and_does_not_wait_for_the_next_one(here: Path) -> None:
    source = Source(here)
    write(here, "status.json", AGAIN)
    write(here, RECORD, b"{}")
    append(here, LOG, b"x" * 3000)
    append(here, "attempts/1/nodes/0.log", b"y" * 1_000_000)
    seen: list[str] = []
    while "status.json" not in seen:
        frames = source.changes(1000)
        seen += paths_of(frames)
        assert frames
    assert seen.count(LOG) > 3
    assert seen.index(RECORD) > seen.index(LOG)
    assert source.changes(1000)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"state": "NEW"}', b'{"state": "RUNNING"}'])
def test_a_status_that_cannot_be_understood_is_told_all_the_same(here: Path, content: bytes) -> None:
    write(here, "status.json", content)
    assert Source(here).changes(MUCH) == (Frame("status.json", None, content),)


@pytest.mark.parametrize("before", [None, b'{"old": 1}'])
def test_a_record_written_while_the_end_of_the_run_is_read_comes_before_it(here: Path, before: bytes | None) -> None:
    status = write(here, "status.json", OVER)
    if before is not None:
        write(here, RECORD, before)
    new = iter([b'{"new": 1}'])

    def write_the_record_while_the_status_is_read() -> float:
        for content in new:
            write(here, RECORD, content)
        return status.stat().st_mtime

    frames = Source(here, clock=write_the_record_while_the_status_is_read).changes(MUCH)
    assert frames == (Frame(RECORD, None, b'{"new": 1}'), Frame("status.json", None, OVER))


def test_the_end_of_the_run_waits_for_a_record_that_was_written_again(here: Path) -> None:
    source = Source(here)
    append(here, LOG, b"x" * 3000)
    write(here, RECORD, b"{}")
    write(here, "status.json", OVER)
    seen = paths_of(source.changes(1000))
    append(here, LOG, b"x" * 3000)
    write(here, RECORD, b'{"again": 1}')
    while frames := source.changes(1000):
        seen += paths_of(frames)
    assert seen[-2:] == [RECORD, "status.json"]


def test_one_look_moves_about_as_much_as_was_asked_for(here: Path) -> None:
    for node in range(10):
        append(here, f"attempts/0/nodes/{node}.log", b"x" * 10 * PIECE_BYTES)
    frames = Source(here).changes(PIECE_BYTES * 20)
    assert sum(len(frame.data) for frame in frames) == PIECE_BYTES * 20
    assert max(len(frame.data) for frame in frames) <= PIECE_BYTES
    assert len(set(paths_of(frames))) == 10


def test_shares_are_fair() -> None:
    assert fair_shares([10, 1000, 300], 610) == [10, 300, 300]
    assert fair_shares([5, 5], 100) == [5, 5]
    assert fair_shares([1000, 1000], 100) == [50, 50]
    assert fair_shares([], 100) == []


def test_a_log_that_was_cut_short_is_told_anew(here: Path, there: Path) -> None:
    source, sink = Source(here), Sink(there)
    append(here, LOG, b"a long first life\n")
    carry(source, sink)
    write(here, LOG, b"second\n")
    carry(source, sink)
    assert files_of(there) == {LOG: b"second\n"}


def test_a_log_in_place_of_another_is_told_anew(here: Path, there: Path) -> None:
    source, sink = Source(here), Sink(there)
    append(here, LOG, b"short\n")
    carry(source, sink)
    write(here, "attempts/0/nodes/new", b"longer than the one before\n").replace(here / LOG)
    carry(source, sink)
    assert (there / LOG).read_bytes() == b"longer than the one before\n"


def test_a_large_file_that_is_no_log_moves_in_pieces_and_again_when_it_changes(here: Path, there: Path) -> None:
    source, sink = Source(here), Sink(there)
    write(here, "tracking/0/mlflow.db", os.urandom(3 * PIECE_BYTES + 17))
    frames = source.changes(PIECE_BYTES)
    assert [(frame.offset, len(frame.data)) for frame in frames] == [(None, PIECE_BYTES)]
    for frame in frames:
        sink.apply(frame)
    carry(source, sink, PIECE_BYTES)
    assert files_of(there) == files_of(here)
    write(here, "tracking/0/mlflow.db", os.urandom(2 * PIECE_BYTES))
    carry(source, sink)
    assert files_of(there) == files_of(here)
    write(here, "tracking/0/mlflow.db", b"small now")
    carry(source, sink)
    assert files_of(there) == files_of(here)


def test_a_large_file_that_changes_while_it_moves_arrives_as_it_is_in_the_end(here: Path, there: Path) -> None:
    source, sink = Source(here), Sink(there)
    write(here, "a.bin", b"1" * 3 * PIECE_BYTES)
    for frame in source.changes(PIECE_BYTES):
        sink.apply(frame)
    write(here, "a.bin", b"2" * 3 * PIECE_BYTES)
    carry(source, sink, PIECE_BYTES)
    assert files_of(there) == {"a.bin": b"2" * 3 * PIECE_BYTES}


def test_what_vanishes_is_left_out_and_holds_up_nothing(here: Path) -> None:
    source = Source(here)
    append(here, LOG, b"x" * 5000)
    write(here, RECORD, b"{}")
    source.changes(1000)
    (here / LOG).unlink()
    assert paths_of(source.changes(1000)) == [RECORD]
    assert source.changes(1000) == ()


def test_a_folder_that_is_not_there_has_nothing_new(here: Path) -> None:
    assert Source(here).changes(MUCH) == ()


@pytest.mark.parametrize(
    "path",
    [
        "secrets.json",
        "supervisor.lock",
        "reserve",
        "ray/token",
        "checkpoints/step-1/model.json",
        "attempts/0/code/0/main.log",
        "attempts/0/nodes/0.order.json",
        "attempts/0/nodes/0.json.next",
        "attempts/0/nodes/.0.json.0123456789ab",
        ".status.json.0123456789ab",
    ],
)
def test_secrets_orders_code_locks_and_unfinished_files_never_move(here: Path, path: str) -> None:
    write(here, path, b"x")
    assert Source(here, lambda _: True).changes(MUCH) == ()


def test_the_caller_chooses_among_the_rest(here: Path) -> None:
    write(here, "run.json", b"{}")
    append(here, LOG, b"x")
    assert paths_of(Source(here, lambda path: path.endswith(".log")).changes(MUCH)) == [LOG]


def test_files_of_a_run_kept_by_mlflow_move_whatever_they_are_called(here: Path) -> None:
    names = ["tracking/0/artifacts/code/main.py", "tracking/0/artifacts/x.lock", "tracking/0/artifacts/.hidden"]
    for name in names:
        write(here, name, b"x")
    assert sorted(paths_of(Source(here).changes(MUCH))) == sorted(names)


def test_links_are_not_followed(here: Path, tmp_path: Path) -> None:
    secret = write(tmp_path, "secret", b"s3cret")
    (here / "attempts").mkdir(parents=True)
    (here / "attempts/a.json").symlink_to(secret)
    (here / "attempts/a.log").symlink_to(secret)
    (here / "linked").symlink_to(tmp_path)
    assert Source(here).changes(MUCH) == ()


def test_a_source_goes_on_where_the_copy_ends(here: Path, there: Path) -> None:
    append(here, LOG, b"one\n")
    write(here, RECORD, b"{}")
    sink = Sink(there)
    carry(Source(here), sink)
    append(here, LOG, b"two\n")
    again = Source(here, positions=sink.positions()).changes(MUCH)
    assert again == (Frame(LOG, 4, b"two\n"), Frame(RECORD, None, b"{}"))


def test_a_source_that_is_told_of_more_than_there_is_begins_anew(here: Path, there: Path) -> None:
    append(here, LOG, b"short\n")
    append(there, LOG, b"a longer one of an earlier life\n")
    sink = Sink(there)
    carry(Source(here, positions=sink.positions()), sink)
    assert files_of(there) == files_of(here)


def test_a_piece_that_comes_twice_is_written_once(there: Path) -> None:
    sink = Sink(there)
    for frame in [Frame(LOG, 0, b"one\n"), Frame(LOG, 4, b"two\n")]:
        sink.apply(frame)
        sink.apply(frame)
    sink.apply(Frame(LOG, 0, b"one\ntwo\nthree\n"))
    assert files_of(there) == {LOG: b"one\ntwo\nthree\n"}


def test_a_piece_beyond_the_end_is_refused_and_changes_nothing(there: Path) -> None:
    sink = Sink(there)
    with pytest.raises(GapError):
        sink.apply(Frame(LOG, 4, b"two\n"))
    assert files_of(there) == {}
    sink.apply(Frame(LOG, 0, b"one"))
    with pytest.raises(GapError):
        sink.apply(Frame(LOG, 4, b"two\n"))
    assert files_of(there) == {LOG: b"one"}


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.log", "a/../../x.log", "a//b", "", ".", "a/\0.log", "a/"])
@pytest.mark.parametrize("offset", [0, None])
def test_a_path_that_leads_out_of_the_folder_is_refused(there: Path, path: str, offset: int | None) -> None:
    with pytest.raises(StoreError, match="outside"):
        Sink(there).apply(Frame(path, offset, b"x"))


def test_a_link_in_place_of_a_log_is_not_written_through(there: Path, tmp_path: Path) -> None:
    victim = write(tmp_path, "victim", b"mine")
    (there / "attempts/0/nodes").mkdir(parents=True)
    (there / LOG).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        Sink(there).apply(Frame(LOG, 0, b"theirs"))
    assert victim.read_bytes() == b"mine"


def test_the_copy_is_private(there: Path) -> None:
    sink = Sink(there)
    sink.apply(Frame(LOG, 0, b"x"))
    sink.apply(Frame(RECORD, None, b"x"))
    assert {(there / path).stat().st_mode & 0o777 for path in (LOG, RECORD)} == {0o600}
    assert {folder.stat().st_mode & 0o777 for folder in (there / LOG).parents[:4]} == {0o700}


def test_a_disk_that_takes_only_a_part_loses_nothing(there: Path) -> None:
    sink = Sink(there)
    frame = Frame(LOG, 0, bytes(range(256)) * 40)
    with files_end_at(1000), pytest.raises(OSError, match="File too large"):
        sink.apply(frame)
    assert (there / LOG).stat().st_size == 1000
    sink.apply(frame)
    assert (there / LOG).read_bytes() == frame.data


def test_a_disk_that_refuses_a_record_leaves_the_old_one(there: Path) -> None:
    sink = Sink(there)
    sink.apply(Frame(RECORD, None, b"old"))
    with files_end_at(2), pytest.raises(OSError, match="File too large"):
        sink.apply(Frame(RECORD, None, b"new and larger"))
    assert files_of(there) == {RECORD: b"old"}


def test_settling_is_harmless_for_a_file_that_is_gone(there: Path) -> None:
    sink = Sink(there)
    sink.apply(Frame(LOG, 0, b"x"))
    (there / LOG).unlink()
    sink.settle()
    sink.settle()


def test_names_that_are_no_text_arrive(here: Path, there: Path) -> None:
    name = os.fsdecode(b"attempts/0/nodes/\xff n\xc3\xb6de\n'1\".log")
    append(here, name, b"x")
    carry(Source(here), Sink(there))
    assert files_of(there) == {name: b"x"}

"""Where the lines of ranks go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from airlane.ranks.output import Output
from airlane.ranks.screen import ReaderGoneError, Screen

from .made import mapped

RANKS = mapped((), (), ranks_per_node=2)


class Seen:
    """Two files in place of the streams."""

    def __init__(self, folder: Path) -> None:
        self.paths = folder / "out", folder / "err"
        self.descriptors = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for path in self.paths]
        self.screen = Screen(*self.descriptors)

    @property
    def out(self) -> list[str]:
        return self.paths[0].read_text().splitlines()

    @property
    def errors(self) -> list[str]:
        return self.paths[1].read_text().splitlines()


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Seen]:
    made = Seen(tmp_path)
    yield made
    for descriptor in made.descriptors:
        os.close(descriptor)


def test_every_line_has_its_rank_and_goes_to_the_stream_it_came_from(seen: Seen) -> None:
    output = Output(seen.screen, RANKS, None)
    output.take(3, b"a\nb", b"bad\n", is_last=False)
    output.take(0, b"x\n", b"", is_last=False)
    output.take(3, b"c\n", b"", is_last=True)
    assert seen.out == ["[rank 3] a", "[rank 0] x", "[rank 3] bc"]
    assert seen.errors == ["[rank 3] bad"]


def test_equal_lines_of_different_ranks_are_all_shown(seen: Seen) -> None:
    output = Output(seen.screen, RANKS, None)
    for rank in range(4):
        output.take(rank, b"same\n" * 3, b"", is_last=True)
    assert len(seen.out) == 12


def test_what_is_no_text_is_shown_and_logged_as_it_is(seen: Seen, tmp_path: Path) -> None:
    output = Output(seen.screen, RANKS, tmp_path / "logs")
    output.take(1, b"\xff\xfe\n", b"", is_last=True)
    output.close()
    assert seen.paths[0].read_bytes() == b"[rank 1] \xff\xfe\n"
    assert (tmp_path / "logs" / "rank-1.log").read_bytes() == b"\xff\xfe\n"


def test_each_rank_has_a_file_with_both_its_streams_unchanged(seen: Seen, tmp_path: Path) -> None:
    output = Output(seen.screen, RANKS, tmp_path / "ünd logs", shown_local_ranks=frozenset({0}))
    output.take(1, b"10%\r20%\n", b"warn\n", is_last=True)
    output.close()
    assert (tmp_path / "ünd logs" / "rank-1.log").read_bytes() == b"10%\r20%\nwarn\n"
    assert {path.name for path in (tmp_path / "ünd logs").iterdir()} == {f"rank-{rank}.log" for rank in range(4)}


def test_a_filter_hides_local_ranks_from_the_screen_alone(seen: Seen) -> None:
    output = Output(seen.screen, RANKS, None, shown_local_ranks=frozenset({1}))
    for rank in range(4):
        output.take(rank, b"x\n", b"Error: y\n", is_last=True)
    assert seen.out == ["[rank 1] x", "[rank 3] x"]
    assert output.last_words(0) == ["Error: y"]


def test_a_folder_that_cannot_be_made_is_said_and_ranks_run_all_the_same(seen: Seen, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = Output(seen.screen, RANKS, tmp_path / "file" / "logs")
    output.take(0, b"x\n", b"", is_last=True)
    output.close()
    assert seen.errors[0].startswith("! ranks are not logged to files:")
    assert seen.out == ["[rank 0] x"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_a_full_disk_ends_a_log_and_not_the_ranks(seen: Seen, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-0.log").symlink_to("/dev/full")
    output = Output(seen.screen, RANKS, tmp_path / "logs")
    for _ in range(3):
        output.take(0, b"x\n", b"", is_last=False)
    output.close()
    assert len([line for line in seen.errors if line.startswith("! the log of rank 0 is not written any more")]) == 1
    assert seen.out == ["[rank 0] x"] * 3


def test_stacks_are_kept_from_the_screen_once_they_are_asked_for(seen: Seen) -> None:
    output = Output(seen.screen, RANKS, None)
    output.take(2, b"", b"before\n", is_last=False)
    stacks = output.collect_stacks()
    output.take(2, b"shown\n", b"stack\n", is_last=True)
    assert seen.errors == ["[rank 2] before"]
    assert seen.out == ["[rank 2] shown"]
    assert stacks == {2: ["stack"]}


def test_a_reader_that_has_gone_is_noticed() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        with pytest.raises(ReaderGoneError):
            Output(Screen(writer, writer), RANKS, None).take(0, b"x\n", b"", is_last=False)
    finally:
        os.close(writer)


def test_signs_become_letters_where_the_terminal_has_none(tmp_path: Path) -> None:
    file = os.open(tmp_path / "err", os.O_WRONLY | os.O_CREAT)
    try:
        Screen(file, file, ascii_only=True).say("✓ 2 × 8 · ü")
    finally:
        os.close(file)
    assert (tmp_path / "err").read_text() == "+ 2 x 8 - \\xfc\n"

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlane.logs.tail import BLOCK_BYTES, follow, tail_offset, whole_lines


def last_lines(log: Path, lines: int) -> Iterator[bytes]:
    """What `air logs --tail` shows of a log that has ended."""
    return follow(log, offset=tail_offset(log, lines), ended=lambda: True)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / 'it\'s a "log" é\nnew line'


def expected_tail(content: bytes, lines: int) -> bytes:
    return b"".join(content.splitlines(keepends=True)[-lines:]) if lines > 0 else b""


@pytest.mark.parametrize("content", [b"", b"\n", b"a", b"a\n", b"\n\n\n", b"a\nb", b"a\nb\n", b"a\n\nb\n", b"\na"])
@pytest.mark.parametrize("lines", [0, 1, 2, 3, 10])
def test_the_last_lines_are_the_last_lines(log: Path, content: bytes, lines: int) -> None:
    log.write_bytes(content)
    assert b"".join(last_lines(log, lines)) == expected_tail(content, lines)


@pytest.mark.parametrize("around", [-1, 0, 1])
@pytest.mark.parametrize("final", [b"", b"\n"])
def test_a_newline_at_the_edge_of_a_block_counts_once(log: Path, around: int, final: bytes) -> None:
    content = b"first\n" + b"x" * (BLOCK_BYTES + around - len(final)) + final
    log.write_bytes(content)
    assert b"".join(last_lines(log, 1)) == expected_tail(content, 1)
    assert b"".join(last_lines(log, 2)) == content


def test_the_tail_of_a_huge_log_is_read_in_constant_memory(log: Path) -> None:
    with log.open("wb") as file:
        file.truncate(1 << 30)  # a hole of 1 GiB: one endless line
        file.seek(0, 2)
        file.write(b"\nlast but one\nlast\n")
    tracemalloc.start()
    try:
        assert b"".join(last_lines(log, 2)) == b"last but one\nlast\n"
        assert sum(map(len, last_lines(log, 3))) > 1 << 30
        assert tracemalloc.get_traced_memory()[1] < 8 * BLOCK_BYTES
    finally:
        tracemalloc.stop()


def test_a_log_that_is_not_there_has_no_lines(log: Path) -> None:
    assert list(last_lines(log, 10)) == []
    assert tail_offset(log, 10) == 0


def playing(*moves: Callable[[], object]) -> tuple[Callable[[float], None], Callable[[], bool]]:
    """A writer that makes one move at each wait; the run has ended when all were made."""
    left = list(moves)

    def sleep(_seconds: float) -> None:
        left.pop(0)()

    return sleep, lambda: not left


def append(log: Path, content: bytes) -> Callable[[], object]:
    def write() -> None:
        with log.open("ab") as file:
            file.write(content)

    return write


def test_following_waits_for_the_file_and_loses_no_byte(log: Path) -> None:
    sleep, ended = playing(lambda: None, append(log, b"one\ntw"), append(log, b"o\n"), append(log, b"no newline"))
    assert b"".join(follow(log, ended=ended, sleep=sleep)) == b"one\ntwo\nno newline"


def test_following_begins_at_the_offset(log: Path) -> None:
    log.write_bytes(b"old\nold 2\n")
    sleep, ended = playing(append(log, b"new\n"))
    assert b"".join(follow(log, offset=tail_offset(log, 1), ended=ended, sleep=sleep)) == b"old 2\nnew\n"


def test_what_is_written_just_before_the_end_is_read(log: Path) -> None:
    def ended() -> bool:
        append(log, b"last words\n")() if not log.exists() else None
        return True

    assert b"".join(follow(log, ended=ended, sleep=lambda _seconds: None)) == b"last words\n"


def test_a_log_that_was_cut_short_is_read_from_its_beginning(log: Path) -> None:
    log.write_bytes(b"a long first life\n")
    sleep, ended = playing(lambda: log.write_bytes(b"second\n"), append(log, b"third\n"))
    assert b"".join(follow(log, ended=ended, sleep=sleep)) == b"a long first life\nsecond\nthird\n"


def test_a_run_that_ends_without_a_log_gives_nothing(log: Path) -> None:
    assert list(follow(log, ended=lambda: True)) == []


def test_a_line_is_seen_after_a_tenth_of_the_silence_before_it_or_a_tenth_of_a_second(log: Path) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 50:
            append(log, b"x\n")()

    list(follow(log, ended=lambda: len(waits) >= 52, sleep=sleep))
    silence = 0.0
    for wait in waits[:50]:
        assert wait <= min(0.1, 0.005 + 0.1 * silence) + 1e-9
        silence += wait
    assert waits[49] == 0.1
    assert waits[50] == 0.005


def test_a_reader_that_stops_early_closes_the_log(log: Path) -> None:
    log.write_bytes(b"x\n")
    chunks = follow(log, ended=lambda: False)
    assert next(chunks) == b"x\n"
    assert isinstance(chunks, Iterator)
    del chunks  # ResourceWarning is an error


@given(st.lists(st.binary(max_size=8) | st.sampled_from([b"\n", b"a\n", b"\r\n", b""])))
def test_lines_do_not_depend_on_how_the_stream_was_cut(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    lines = list(whole_lines(chunks))
    assert b"\n".join(lines) == whole.removesuffix(b"\n")


def test_an_endless_line_comes_in_pieces() -> None:
    lines = list(whole_lines([b"x" * 700_000] * 4 + [b"\nend"]))
    assert b"".join(lines) == b"x" * 2_800_000 + b"end"
    assert max(map(len, lines)) <= 1 << 20

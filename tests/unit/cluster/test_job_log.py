"""A job's log without Ray's own lines, and the thread that reads it through connections that break."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlane.cluster.job_log import LogReader, RayWords
from airlane.cluster.jobs import Jobs, JobState, RayJob
from airlane.errors import RayAnswerError, RayUnreachableError

SETUP = b"2026-11-30 23:32:55,719\tINFO job_manager.py:581 -- Runtime env is setting up.\n"
JOB = RayJob("raysubmit_1", None, JobState.RUNNING, "echo hi\necho there", driver_node_id="n")
MARKER = b"Running entrypoint for job raysubmit_1: echo hi\necho there\n"


def without(log: bytes, cuts: list[int]) -> bytes:
    places = sorted({0, *(min(cut, len(log)) for cut in cuts), len(log)})
    pieces = [log[start:end] for start, end in pairwise(places)]
    return b"".join(RayWords(JOB).without(pieces))


@pytest.mark.parametrize(
    ("log", "left"),
    [
        (SETUP + MARKER + b"hi\nthere\n", b"hi\nthere\n"),
        (SETUP + b"hi\n" + MARKER + b"there\n", b"hi\nthere\n"),  # the entrypoint was faster than Ray's own line
        (SETUP + b"half a li" + MARKER + b"ne\n", b"half a line\n"),
        (MARKER + b"hi\n", b"hi\n"),  # on a node that is not the head
        (SETUP + MARKER, b""),
        (SETUP + MARKER + b"no newline", b"no newline"),
        (SETUP + b"no marker at all", b"no marker at all"),
        (MARKER + MARKER, MARKER),  # the second is the program's own
        (b"x\n" + SETUP, b"x\n" + SETUP),
        (b"", b""),
        (b"\n", b"\n"),
        (b"\xff\xfe\x00", b"\xff\xfe\x00"),
        (b"2026-11-30 is a day\n", b"2026-11-30 is a day\n"),
        (SETUP[:-1], SETUP[:-1]),
    ],
)
@given(cuts=st.lists(st.integers(0, 400), max_size=8))
def test_rays_own_lines_are_taken_out_wherever_the_pieces_are_cut(log: bytes, left: bytes, cuts: list[int]) -> None:
    assert without(log, cuts) == left


def test_nothing_is_held_back_that_cannot_be_rays() -> None:
    words = RayWords(JOB)
    assert words.feed(b"step 1\n") == b"step 1\n"
    assert words.feed(b"no newline yet") == b"no newline yet"


class MadeStream:
    """A stream that is there at once, and then breaks, ends, or waits until it is closed."""

    def __init__(self, pieces: list[bytes], end: Exception | None = None, *, waits: bool = False) -> None:
        self._pieces, self._end, self._waits = pieces, end, waits
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        if self._end is not None:
            raise self._end
        if self._waits:
            assert self._closed.wait(5)

    def close(self) -> None:
        self._closed.set()


class MadeJobs:
    def __init__(self, *streams: MadeStream | Exception) -> None:
        self._streams = list(streams)
        self.opened = 0

    def log_stream(self, _job: RayJob, **_: Any) -> MadeStream:
        stream = self._streams[min(self.opened, len(self._streams) - 1)]
        self.opened += 1
        if isinstance(stream, Exception):
            raise stream
        return stream


BROKEN = RayUnreachableError("dropped the connection")


def read(jobs: MadeJobs, *, want: int, known_bytes: int = 0) -> bytes:
    reader = LogReader(cast("Jobs", jobs), JOB, known_bytes)
    got = b""
    while len(got) < want:
        piece = reader.take(5)
        assert piece
        got += piece
    return got + reader.close()


def test_a_broken_connection_loses_no_byte_and_tells_none_twice() -> None:
    jobs = MadeJobs(
        MadeStream([b"one\n", b"two\n"], BROKEN),
        MadeStream([b"on"], BROKEN),
        MadeStream([b"one\ntw", b"o\nthree\n"], waits=True),
    )
    assert read(jobs, want=14) == b"one\ntwo\nthree\n"
    assert jobs.opened == 3


def test_a_log_that_is_not_there_yet_is_asked_for_again() -> None:
    jobs = MadeJobs(RayAnswerError("A file is not found", status=500), MadeStream([b"hi\n"], waits=True))
    assert read(jobs, want=3) == b"hi\n"


def test_what_is_known_is_not_told() -> None:
    assert read(MadeJobs(MadeStream([b"one\ntwo\n"], waits=True)), want=4, known_bytes=4) == b"two\n"


def test_opening_it_anew_wakes_a_connection_that_is_dead_without_anybody_having_noticed() -> None:
    jobs = MadeJobs(MadeStream([b"one\n"], waits=True), MadeStream([b"one\ntwo\n"], waits=True))
    reader = LogReader(cast("Jobs", jobs), JOB, 0)
    assert reader.take(5) == b"one\n"
    reader.reconnect()
    assert reader.take(5) == b"two\n"
    assert reader.close() == b""


def test_closing_gives_what_was_read_and_not_taken_however_much_that_is() -> None:
    pieces = [f"{n}\n".encode() for n in range(1000)]
    reader = LogReader(cast("Jobs", MadeJobs(MadeStream(pieces, waits=True))), JOB, 0)
    got = reader.take(5)
    whole = got + reader.close()
    assert b"".join(pieces).startswith(whole)
    assert len(whole) > len(got)
    assert reader.close() == b""

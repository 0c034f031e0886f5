"""A recording: every round of a cluster in a file, and the file as a source of its own.

One line of JSON a round, compressed where the name ends in .zst. Each is on disk when the next is asked for, so that
whatever ends the recording, what there is of it can be played.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import os
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import zstandard

from airlane.errors import ArgumentError, ConflictError, StoreError
from airlane.top import fields
from airlane.top.recording_codec import detail_of, encode, encode_detail, snapshot_of
from airlane.top.seam import Source
from airlane.top.values import NodeDetail, Panel, Snapshot

__all__ = ["Recorded", "Recorder", "Replay"]

_Rounds = Generator[dict[str, Any], None, None]

_HEADER_LINE = b'{"recording":"air top","v":1}'
_COMPRESSED = ".zst"
_MAGIC = b"\x28\xb5\x2f\xfd"
_MOST_LINE_BYTES = 1 << 28
_ROUND_S = 2.0  # between the end of a recording and its beginning, where it plays again


class Recorder:
    """A recording in the making. The file is its owner's alone, and what looks like a secret is masked in it."""

    def __init__(self, file: Path) -> None:
        """Raises StoreError: the file cannot be written."""
        self._path = file
        if _is_something_else(file):
            raise StoreError(f"{file} is there already, and no recording", hint="choose another name")
        try:
            self._file: IO[bytes] = os.fdopen(os.open(file, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb")
        except OSError as error:
            raise StoreError(f"cannot write {file}: {(error.strerror or str(error)).lower()}") from error
        self._packed = zstandard.ZstdCompressor().stream_writer(self._file) if file.suffix == _COMPRESSED else None
        self._line(_HEADER_LINE)

    def write(self, snapshot: Snapshot) -> None:
        """Raises StoreError: it cannot be written."""
        self._line(encode(snapshot))

    def write_detail(self, panel: Panel[NodeDetail]) -> None:
        """Raises StoreError: it cannot be written."""
        self._line(b'{"detail":%b}' % encode_detail(panel))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self._packed is not None:
                self._packed.flush(zstandard.FLUSH_FRAME)
            self._file.close()

    def _line(self, content: bytes) -> None:
        try:
            if self._packed is not None:
                self._packed.write(content + b"\n")
                self._packed.flush(zstandard.FLUSH_BLOCK)
            else:
                self._file.write(content + b"\n")
            self._file.flush()
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {(error.strerror or str(error)).lower()}") from error


class Recorded:
    """A source that is recorded while it is looked at. Where the file cannot be written any more, that is told."""

    def __init__(self, source: Source, recorder: Recorder) -> None:
        self._source, self._recorder = source, recorder
        self._broken: str | None = None
        self._writing = asyncio.Lock()

    async def snapshot(self) -> Snapshot:
        snapshot = await self._source.snapshot()
        await self._write(lambda: self._recorder.write(snapshot))
        if self._broken is None:
            return snapshot
        return replace(snapshot, trouble="; ".join(filter(None, (snapshot.trouble, self._broken))))

    async def node(self, node_id: str) -> Panel[NodeDetail]:
        panel = await self._source.node(node_id)
        await self._write(lambda: self._recorder.write_detail(panel))
        return panel

    async def follow_job_log(self, job_id: str, take: Callable[[str], None]) -> str | None:
        return await self._source.follow_job_log(job_id, take)

    async def stop_job(self, job_id: str) -> str:
        return await self._source.stop_job(job_id)

    def close(self) -> None:
        self._source.close()
        self._recorder.close()

    async def _write(self, write: Callable[[], None]) -> None:
        if self._broken is not None:
            return
        async with self._writing:
            try:
                await asyncio.to_thread(write)
            except StoreError as error:
                self._broken = f"the recording has ended: {error.message}"


class Replay:
    """A recording as a source: each round at its time, `speed` times as fast.

    At its end it stands still, or begins anew with `loop`. `damage` says from where on it cannot be read; what is
    whole before, and after where that is possible, is played.
    """

    def __init__(
        self, file: Path, *, speed: float = 1.0, loop: bool = False, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises ArgumentError: there is no round in the file."""
        self._path, self._loop, self._now = file, loop, now
        self._speed = speed
        self.damage: str | None = None
        self._details: dict[str, Panel[NodeDetail]] = {}
        self._advancing = threading.Lock()
        self._rounds = self._read()
        self._next: dict[str, Any] | None
        first, self._next = next(self._rounds, None), next(self._rounds, None)
        if first is None:
            raise ArgumentError(f"{file} holds no round of a recording", hint="air top --record FILE makes one")
        self._content = self._first = first
        self._shown: Snapshot | None = None
        self._at, self._since = _time(first), now()

    @property
    def speed(self) -> float:
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._at, self._since = self._position(), self._now()
        self._speed = speed

    def clock(self) -> float:
        """The time in the recording: it stands where that ends."""
        return self._position() if self._next is not None or self._loop else _time(self._content)

    async def snapshot(self) -> Snapshot:
        return await asyncio.to_thread(self._advance)

    async def node(self, node_id: str) -> Panel[NodeDetail]:
        """As it was when somebody looked at it last; otherwise what the rounds tell of its actors."""
        if node_id in self._details:
            return self._details[node_id]
        actors = (await self.snapshot()).actors
        there = tuple(actor for actor in actors.data.living if actor.node_id == node_id)
        return Panel(NodeDetail(node_id, actors=there), actors.at, "the recording has no processes of this node")

    async def follow_job_log(self, job_id: str, take: Callable[[str], None]) -> str | None:
        del job_id, take
        return "a recording has no logs"

    async def stop_job(self, job_id: str) -> str:
        raise ConflictError(f"this is a recording: job {job_id} cannot be stopped in it")

    def close(self) -> None:
        self._rounds.close()

    def _position(self) -> float:
        return self._at + (self._now() - self._since) * self._speed

    def _advance(self) -> Snapshot:
        with self._advancing:  # a page of a node asks beside the rounds
            return self._at_its_time()

    def _at_its_time(self) -> Snapshot:
        position = self._position()
        while self._next is not None and _time(self._next) <= position:
            self._content, self._next = self._next, next(self._rounds, None)
            self._shown = None
        if self._next is None and self._loop and position > _time(self._content) + _ROUND_S:
            self._rewind()
        if self._shown is None:
            self._shown = snapshot_of(self._content)
        if self.damage is None:
            return self._shown
        return replace(self._shown, trouble=f"{self._path.name}: {self.damage}")

    def _rewind(self) -> None:
        self._rounds.close()
        self._rounds = self._read()
        self._content = next(self._rounds, self._first)
        self._next = next(self._rounds, None)
        self._shown = None
        self._at, self._since = _time(self._content), self._now()

    def _read(self) -> _Rounds:
        """Every round, as JSON. Raises ArgumentError: the file cannot be opened."""
        try:
            raw: IO[bytes] = self._path.open("rb")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ArgumentError(f"the recording {self._path} cannot be read: {reason}") from error
        with raw:
            lines = _unpacked(raw) if raw.read(len(_MAGIC)) == _MAGIC else raw
            raw.seek(0)
            yield from self._whole(lines)

    def _whole(self, lines: IO[bytes]) -> _Rounds:
        for line_number in itertools.count(1):
            try:
                line = lines.readline(_MOST_LINE_BYTES)
            except (OSError, zstandard.ZstdError):
                self.damage = f"the recording is damaged after line {line_number - 1}"
                return
            if not line:
                return
            content = _content(line)
            if content is None:
                cut = not line.endswith(b"\n")
                self.damage = f"the recording {'ends in the middle of' if cut else 'is damaged in'} line {line_number}"
            elif "detail" in content:
                panel = detail_of(content["detail"])
                self._details[panel.data.id] = panel
            elif "recording" not in content:
                yield content


def _is_something_else(file: Path) -> bool:
    """Whether a file is there that a recording must not replace."""
    if not file.is_file():
        return False
    try:
        with file.open("rb") as there:
            beginning = there.read(len(_HEADER_LINE))
    except OSError:
        return False  # opening it says why
    return bool(beginning) and beginning != _HEADER_LINE and not beginning.startswith(_MAGIC)


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False)
    return io.BufferedReader(reader)


def _content(line: bytes) -> dict[str, Any] | None:
    """What is in a line; None where that is no part of a recording."""
    try:
        content = fields.mapping(fields.read_json(line))
    except ValueError:
        return None
    known = "detail" in content or "recording" in content
    return content if known or (fields.number(content.get("at")) is not None and "cluster" in content) else None


def _time(content: dict[str, Any]) -> float:
    return fields.number(content.get("at")) or 0.0

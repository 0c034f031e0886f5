"""What a Ray job writes: read from its driver's node, through the head, as it comes.

The head can begin a log's stream at its beginning only: there is no offset to resume from (Ray 2.60). A connection that
breaks is followed by one that skips what is known.
"""

from __future__ import annotations

import contextlib
import queue
import re
import threading
from collections.abc import Iterable, Iterator

from airlane.cluster.jobs import Jobs, RayJob
from airlane.cluster.rest import Stream
from airlane.errors import AirError

_LOOK_EVERY_S = 0.1  # how often the node looks for new lines
# A job may be silent for hours, and a stream that is opened again begins anew; TCP itself notices a peer that is gone.
_SILENCE_S = 1800.0
_PIECES = 64
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0
_PAUSE_GROWTH = 1.5
_SETTING_UP = re.compile(
    rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\tINFO job_manager\.py:\d+ -- Runtime env is setting up\.\n"
)
_LONGEST_SETTING_UP_BYTES = 120


class LogReader:
    """A thread that reads a job's log from byte `known_bytes` on, and goes on until it is closed."""

    def __init__(self, jobs: Jobs, job: RayJob, known_bytes: int) -> None:
        self._jobs, self._job = jobs, job
        self._known_bytes = known_bytes
        self._pieces: queue.Queue[bytes] = queue.Queue(_PIECES)
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"log of {job.id}", daemon=True)
        self._thread.start()

    def take(self, timeout_s: float) -> bytes:
        """The next piece; nothing if none came in time."""
        try:
            return self._pieces.get(timeout=timeout_s)
        except queue.Empty:
            return b""

    def reconnect(self) -> None:
        """Open the stream anew: the connection may be dead without anybody having noticed."""
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def close(self) -> bytes:
        """End the thread; what it had read that was not taken."""
        self._closed.set()
        self.reconnect()
        left = []
        while self._thread.is_alive() or not self._pieces.empty():
            left.append(self.take(_FIRST_PAUSE_S / 10))
        return b"".join(left)

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._closed.is_set():
            known_bytes = self._known_bytes
            with contextlib.suppress(AirError):  # no connection, or no such file yet; whoever follows asks for the job
                self._read()
            pause_s = _FIRST_PAUSE_S if self._known_bytes > known_bytes else pause_s * _PAUSE_GROWTH
            self._closed.wait(min(pause_s, _LONGEST_PAUSE_S))

    def _read(self) -> None:
        stream = self._jobs.log_stream(self._job, every_s=_LOOK_EVERY_S, silence_s=_SILENCE_S)
        with self._lock:
            self._stream = stream
        if self._closed.is_set():  # and whoever closed it saw no stream
            stream.close()
        left_bytes = self._known_bytes
        for piece in stream:
            new, left_bytes = piece[left_bytes:], max(0, left_bytes - len(piece))
            if new:
                self._put(new)

    def _put(self, piece: bytes) -> None:
        self._pieces.put(piece)  # `close` takes what is here until this thread has ended
        self._known_bytes += len(piece)


class RayWords:
    """Takes out of a job's log the two lines that Ray itself writes there, so that what is left is the entrypoint's.

    The second is not always the second: the entrypoint may have written before it is.
    """

    def __init__(self, job: RayJob) -> None:
        self._start = bytearray()
        self._at_start = True
        self._held = b""
        self._marker = f"Running entrypoint for job {job.submission_id}: {job.entrypoint}\n".encode()

    def feed(self, piece: bytes) -> bytes:
        """What of the log so far is the entrypoint's; the beginning of what may be Ray's is held back."""
        if self._at_start:
            self._start += piece
            if b"\n" not in self._start and len(self._start) < _LONGEST_SETTING_UP_BYTES:
                return b""
            self._at_start = False
            piece = (
                _SETTING_UP.sub(b"", bytes(self._start), count=1)
                if _SETTING_UP.match(self._start)
                else bytes(self._start)
            )
        return self._without_marker(piece)

    def without(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same for a log that is there."""
        for piece in pieces:
            yield self.feed(piece)
        yield self.rest()

    def rest(self) -> bytes:
        """What was held back, when the log has ended."""
        held = bytes(self._start) if self._at_start else self._held
        self._start, self._held = bytearray(), b""
        return held

    def _without_marker(self, piece: bytes) -> bytes:
        if not self._marker:
            return piece
        text = self._held + piece
        before, marker, after = text.partition(self._marker)
        if marker:
            self._held = self._marker = b""
            return before + after
        longest = min(len(text), len(self._marker) - 1)
        kept = next((size for size in range(longest, 0, -1) if text.endswith(self._marker[:size])), 0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

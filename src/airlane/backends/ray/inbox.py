"""The user's end of the way from the cluster: reads an outbox through the dashboard, and writes the files in it.

Asking for a file's last lines is all that is done. Ray can also stream a file; but it notices that nobody listens any
more only when the file grows, and a hundred streams left like that stop every answer of the dashboard's state API.
Source: Ray 2.60, ray/dashboard/modules/log/log_agent.py and ray/dashboard/subprocesses/handle.py; measured.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Protocol
from urllib.parse import urlencode

from airlane.backends.ray.ledger import Coming, Position, read_position, write_position
from airlane.backends.ray.outbox import part_name
from airlane.backends.ray.replica import GapError, Sink
from airlane.backends.ray.run_files import comes_back
from airlane.backends.ray.wire import VERSION, Kind, Line, decode_frame, decode_lines
from airlane.errors import AirError, BackendError, RayAnswerError, StoreError

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 0.8
_PAUSE_GROWTH = 1.25
_SAVE_EVERY_S = 1.0
_WHOLE = -1
_ALSO = 8  # lines asked for beyond those that are missing: more may have come
_NO_FILE = "A file is not found at"


class Reads(Protocol):
    """What is needed of a cluster's dashboard (cluster.rest.Dashboard)."""

    def get(self, path: str) -> bytes: ...


class Inbox:
    """What one run's outbox holds, brought into its folder. For one thread of one process at a time."""

    def __init__(
        self,
        dashboard: Reads,
        node_id: str,
        name: str,
        sink: Sink,
        position_file: Path,
        *,
        accepts: Callable[[str], bool] = comes_back,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dashboard = dashboard
        self._node_id = node_id
        self._name = name
        self._sink = sink
        self._position_file = position_file
        self._accepts = accepts
        self._clock = clock
        self._at = read_position(position_file)
        self._saved, self._saved_at = self._at, clock()
        self._expected = _ALSO
        self.trouble: AirError | OSError | None = None
        self.caught_up = False  # whether nothing was left when it was last asked for more

    @property
    def coming(self) -> Coming:
        return self._at.coming

    def sync(self, *, patience_s: float = inf) -> bool:
        """Bring all that is there now, but begin no new part after `patience_s`; whether the last word has come.

        Raises what the dashboard raises, and:
            BackendError: what the outbox holds cannot be read.
            StoreError: it leads out of the folder.
            OSError: the disk refuses. Nothing is lost in any case: the next one goes on.
        """
        try:
            self._gather(self._clock() + patience_s)
        finally:
            self._save()
        return self._at.coming is Coming.ENDED

    def follow(self, stop: Callable[[], bool], *, wait: Callable[[float], None] = time.sleep) -> bool:
        """Bring everything as it comes, until the last word has (True), or `stop()`, which is asked again and again.

        What goes wrong is in `trouble` until it goes well again.
        """
        pause_s = FIRST_PAUSE_S
        while True:
            before = self._at
            try:
                self._gather(inf)
                if self._at == before or self._at.coming is not Coming.OPEN or self._save_is_due():
                    self._save()
                self.trouble = None
            except (AirError, OSError) as error:
                self.trouble = error
            if self._over():
                return self._at.coming is Coming.ENDED
            if stop():
                with contextlib.suppress(OSError):
                    self._save()
                return False
            pause_s = FIRST_PAUSE_S if self._at != before else min(pause_s * _PAUSE_GROWTH, LONGEST_PAUSE_S)
            wait(pause_s)

    def cut_off(self) -> None:
        """Write down that no more will come. Raises OSError."""
        if self._at.coming is Coming.OPEN:
            self._at = replace(self._at, coming=Coming.CUT_OFF)
            self._save()

    def _gather(self, deadline: float) -> None:
        """Read part after part, to the end of what there is."""
        begun_anew = self.caught_up = False
        while self._at.coming is Coming.OPEN:
            part = self._at.part
            try:
                self._read_part()
            except GapError as error:
                if begun_anew:
                    raise StoreError(f"the run's files were changed while they were written: {error}") from error
                begun_anew, self._at = True, Position()
                continue
            self.caught_up = self._at.part == part
            if self.caught_up or self._clock() >= deadline:
                return
            if self._save_is_due():
                self._save()

    def _read_part(self) -> None:
        """Apply what is new in this part."""
        lines = self._last_lines(self._expected if self._at.line else _WHOLE)
        if lines and lines[0].number > self._at.line:
            lines = self._last_lines(lines[-1].number + 1 - self._at.line + _ALSO)
        if lines is not None and (not lines or lines[0].number > self._at.line):
            lines = self._last_lines(_WHOLE)
        new = [line for line in lines or () if line.number >= self._at.line]
        self._expected = len(new) + 1
        self._apply(new)

    def _last_lines(self, count: int) -> list[Line] | None:
        """Those of the last lines that are whole; None where the part is not there, or empty."""
        query = {"node_id": self._node_id, "filename": part_name(self._name, self._at.part), "lines": count}
        try:
            text = self._dashboard.get(f"/api/v0/logs/file?{urlencode(query)}")
        except RayAnswerError as error:
            if error.words.startswith(_NO_FILE):
                return None
            raise
        return list(decode_lines(text)) if text else None

    def _apply(self, lines: Sequence[Line]) -> None:
        for line in lines:
            torn = line.kind is Kind.NEXT and line.number == self._at.line + 1  # by a writer that died, and replaced
            if line.number != self._at.line and not torn:
                raise BackendError(f"line {self._at.line} of {part_name(self._name, self._at.part)} is damaged")
            self._apply_one(line)

    def _apply_one(self, line: Line) -> None:
        after = replace(self._at, line=line.number + 1)
        match line.kind:
            case Kind.BEGIN if line.content != VERSION:
                raise BackendError("the run was written by another version of Airlane", hint="air --version")
            case Kind.FRAME:
                frame = decode_frame(line.content)
                if self._accepts(frame.path):
                    self._sink.apply(frame)
            case Kind.NEXT:
                after = Position(self._at.part + 1)
            case Kind.END:
                after = replace(after, coming=Coming.ENDED)
        self._at = after

    def _over(self) -> bool:
        """Whether no more comes, and that is written down."""
        return self._at.coming is not Coming.OPEN and self._saved == self._at

    def _save_is_due(self) -> bool:
        return self._clock() - self._saved_at >= _SAVE_EVERY_S

    def _save(self) -> None:
        """Write down how far it has come, once that would outlast a power cut. Raises OSError."""
        if self._saved != self._at:
            self._sink.settle()
            write_position(self._position_file, self._at)
            self._saved = self._at
        self._saved_at = self._clock()

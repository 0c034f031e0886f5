"""The node's record on disk (store.records.NodeRecord), written so that a full disk cannot keep the end untold."""

from __future__ import annotations

import json
import os
import time

from airlane.launch.reserve import RESERVED_BYTES, next_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_RETRY_FOR_S = 2.0
_RETRY_EVERY_S = 0.1


class RecordFile:
    """One file, replaced twice: when the command starts and when it has ended.

    `begin` takes the room that was reserved, and reserves again what `finish` needs: a second file, renamed at the end.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._next = next_of(path)

    def begin(self, fields: dict[str, Any]) -> None:
        """Raises OSError at once, because the command is already running."""
        self._replace(fields)
        _write(self._next, b" " * RESERVED_BYTES)

    def finish(self, fields: dict[str, Any]) -> None:
        """Raises OSError when the disk stays full or away."""
        _retry(lambda: self._replace_or_overwrite(fields))

    def _replace_or_overwrite(self, fields: dict[str, Any]) -> None:
        try:
            self._replace(fields)
        except OSError:
            if not os.path.exists(self._path):
                raise
            # The command filled the disk before room for a second file was taken; the first one has its own.
            _write(self._path, _text(fields))

    def _replace(self, fields: dict[str, Any]) -> None:
        _write(self._next, _text(fields))
        os.replace(self._next, self._path)
        folder = os.open(os.path.dirname(self._path) or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _text(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode().ljust(RESERVED_BYTES)


def _write(path: str, content: bytes) -> None:
    """Overwrite in place, without truncating first: that would give the reserved room away."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        done = 0
        while done < len(content):
            done += os.write(descriptor, content[done:])
        os.ftruncate(descriptor, len(content))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _retry(write: Callable[[], None]) -> None:
    deadline = time.monotonic() + _RETRY_FOR_S
    while True:
        try:
            write()
        except OSError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_EVERY_S)
        else:
            return

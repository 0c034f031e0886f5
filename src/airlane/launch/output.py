"""The way of the command's output to its log when secret values must be masked on it."""

from __future__ import annotations

import fcntl
import os

from airlane.launch.mask import Masker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_F_SETPIPE_SZ = 1031  # Linux; fcntl.F_SETPIPE_SZ came with Python 3.10
_READ_BYTES = 256 * 1024


class MaskedOutput:
    """Reads one end of a pipe (`source`) and appends to the log. A log that cannot be written never blocks the command.

    `lost_bytes` counts what a full disk swallowed; the log says so as soon as it can be written again.
    """

    def __init__(self, source: int, log: int, secrets: Iterable[str]) -> None:
        self.source = source
        self.ended = False
        self.lost_bytes = 0
        self._unreported = 0
        self._log = log
        self._masker = Masker(secrets)
        os.set_blocking(source, False)
        try:
            fcntl.fcntl(source, _F_SETPIPE_SZ, 4 * _READ_BYTES)
        except OSError:
            return  # the default size does, more slowly

    def pump(self) -> bool:
        """Carry over what is there, at most one read; False when there was nothing."""
        try:
            data = os.read(self.source, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.ended = True
            return False
        self._write(self._masker.feed(data))
        return True

    def finish(self) -> None:
        """Carry over all that is left. What a process outside still holds open is not waited for."""
        while not self.ended and self.pump():
            pass
        self._write(self._masker.flush())

    def _write(self, data: bytes) -> None:
        if self._unreported and data:
            notice = b"\n[airlane: %d bytes of output were lost: the log could not be written]\n" % self._unreported
            if self._append(notice) < len(notice):
                self._lose(len(data))
                return
            self._unreported = 0
        self._lose(len(data) - self._append(data))

    def _append(self, data: bytes) -> int:
        """How many bytes the log took."""
        done = 0
        try:
            while done < len(data):
                done += os.write(self._log, data[done:])
        except OSError:
            return done
        return done

    def _lose(self, count: int) -> None:
        self.lost_bytes += count
        self._unreported += count

"""A way to a port that can be cut: what goes through it breaks in the middle."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class CutProxy:
    """Passes TCP connections on to a port of this machine, until they are cut."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._refuses = False
        self._bytes_left: int | None = None
        self._lock = threading.Lock()
        self.cuts = 0
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut_after(self, size: int | None) -> None:
        """Cut everything each time when so many bytes of answers have passed; with None, never."""
        self._bytes_left = self._every = size

    def refuse(self, *, refuses: bool = True) -> None:
        """Cut everything now, and let nothing through, or let it through again."""
        self._refuses = refuses
        if refuses:
            self.cut()

    def cut(self) -> None:
        with self._lock:
            self.cuts += 1
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def close(self) -> None:
        self._refuses = True
        self.cut()
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                if self._refuses:
                    ours.close()
                    continue
                theirs = socket.create_connection(("127.0.0.1", self._target))
                with self._lock:
                    self._open += [ours, theirs]
                for source, sink, counted in ((ours, theirs, False), (theirs, ours, True)):
                    threading.Thread(target=self._pass_on, args=(source, sink, counted), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 14):
                sink.sendall(piece)
                if counted and self._bytes_left is not None:
                    self._bytes_left -= len(piece)
                    if self._bytes_left <= 0:
                        self._bytes_left = self._every
                        self.cut()
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

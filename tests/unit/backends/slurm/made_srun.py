"""A real process that stands for srun: it says what the test tells it to say, and passes on what it is told.

Run as a program, it is that process, with srun's stdin, stdout and stderr. It ends with its stdin, as the nodes do.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PATIENCE_S = 20.0


class MadeSrun:
    """The test's end of it. `accept` waits for the process that was started as "srun" with `env`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="srun"))
        program = self.folder / "srun"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{__file__}" "{self.folder}/socket" "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.env: Mapping[str, str] = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / "socket"))
        self._listener.listen()
        self._listener.settimeout(PATIENCE_S)
        self._peer: socket.socket | None = None
        self._text = b""

    @property
    def peer(self) -> socket.socket:
        if self._peer is None:
            self._peer, _ = self._listener.accept()
            self._peer.settimeout(PATIENCE_S)
        return self._peer

    @property
    def arguments(self) -> list[str]:
        """What it was called with."""
        said = self._line()
        return [str(word) for word in json.loads(said)]

    def says(self, text: bytes, *, stderr: bool = False) -> None:
        """These bytes, as they stand, and nothing before they are written."""
        self._ask({"write": text.hex(), "to": 2 if stderr else 1})

    def node(self, rank: int, **told: Any) -> None:
        """A line of a node, labeled as srun does."""
        self.says(f"{rank}: {json.dumps(told)}\n".encode())

    def hello(self, rank: int, **changes: Any) -> None:
        self.node(rank, hello={**HELLO, "host": f"scan{rank + 1}", "address": f"10.0.0.{rank + 1}", **changes})

    def errs(self, line: str) -> None:
        self.says(f"{line}\n".encode(), stderr=True)

    def ends(self, code: int = 0) -> None:
        self._ask({"exit": code})

    def heard(self) -> str:
        """The next line that it was told, but for signs of life."""
        while (line := self._line()) == "beat":
            continue
        return line

    def _ask(self, what: Mapping[str, Any]) -> None:
        self.peer.sendall(json.dumps(what).encode() + b"\n")

    def _line(self) -> str:
        while b"\n" not in self._text:
            got = self.peer.recv(4096)
            assert got, "srun has ended"
            self._text += got
        line, self._text = self._text.split(b"\n", 1)
        return line.decode()

    def close(self) -> None:
        for opened in (self._peer, self._listener):
            if opened is not None:
                opened.close()
        shutil.rmtree(self.folder, ignore_errors=True)


HELLO: dict[str, Any] = {
    "host": "scan1",
    "address": "10.0.0.1",
    "port": 20400,
    "devices": [],
    "cores": 8,
    "step": "3",
    "time": 0.0,
    "shared": True,
}


def read_until(read: Callable[[float], object], true: Callable[[], bool]) -> None:
    """Read what it says, waiting for it, until this comes true; each read that brings nothing costs the patience."""
    for _ in range(10_000):
        if true():
            return
        read(PATIENCE_S)
    raise AssertionError("it was not said")


def play(arguments: Sequence[str]) -> int:
    """The process: carries out what comes over the socket, one JSON object a line."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(arguments[0])
        peer.sendall(json.dumps(arguments[1:]).encode() + b"\n")
        text = b""
        while True:
            ready, _, _ = select.select([0, peer.fileno()], [], [])
            if peer.fileno() in ready:
                got = peer.recv(1 << 16)
                if not got:
                    return 1
                *lines, text = (text + got).split(b"\n")
                for line in lines:
                    what = json.loads(line)
                    if "exit" in what:
                        return int(what["exit"])
                    os.write(what["to"], bytes.fromhex(what["write"]))
            if 0 in ready:
                told = os.read(0, 4096)
                if not told:
                    return 0
                with contextlib.suppress(OSError):  # the test is over
                    peer.sendall(told)


if __name__ == "__main__":
    sys.exit(play(sys.argv[1:]))

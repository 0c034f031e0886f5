"""Containment where the system is not Linux: one process group; what leaves the group is not followed."""

from __future__ import annotations

import os

from airlane.launch.contained import Contained, Program

_SIGTERM, _SIGKILL = 15, 9


class ProcessGroup(Contained):
    """The command's session, which is one process group for as long as nobody leaves it."""

    name = "process_group"

    def __init__(self, program: Program) -> None:
        pid = os.fork()
        if pid == 0:
            program.become()
        super().__init__(pid)

    def reap(self) -> None:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == 0:
                return
            self.status = status
        self.empty = not self._signal(0)

    def terminate(self) -> None:
        self._signal(_SIGTERM)

    def kill(self) -> None:
        if self._signal(_SIGKILL) and self.status is not None:
            self.killed = 1  # at least: a group does not tell how many it is

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False  # macOS answers EPERM for a group of zombies
        return True

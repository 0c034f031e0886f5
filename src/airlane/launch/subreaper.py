"""Containment without privileges (Linux): orphans of the command become children of the agent."""

from __future__ import annotations

import os

from airlane.launch import libc
from airlane.launch.contained import Contained, Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from airlane.launch.processes import Identity


class Subreaper(Contained):
    """Every process below the agent is the command's; when the agent has no child left, nothing of it is left."""

    name = "subreaper"

    def __init__(self, program: Program) -> None:
        libc.prctl(libc.PR_SET_CHILD_SUBREAPER, 1)
        self._agent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(program)
        super().__init__(pid)
        self._counted: set[Identity] = set()

    def _become(self, program: Program) -> None:
        try:
            libc.prctl(libc.PR_SET_PDEATHSIG, libc.SIGKILL)
            if os.getppid() == self._agent:  # else the agent died before it could be noticed
                program.become()
        finally:
            os._exit(1)

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.empty = True
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = status

    def terminate(self) -> None:
        from airlane.launch.processes import terminate_all

        terminate_all(self._find)

    def kill(self) -> None:
        from airlane.launch.processes import kill_all

        self._counted.update(process for process in kill_all(self._find) if process[0] != self.pid)
        self.killed = len(self._counted)

    def _find(self) -> list[Identity]:
        from airlane.launch.processes import descendants

        return descendants(self._agent)

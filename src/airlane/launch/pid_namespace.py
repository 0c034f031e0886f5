"""Containment for root (Linux): a PID namespace, whose end is one kill that nothing in it escapes."""

from __future__ import annotations

import os

from airlane.launch import libc
from airlane.launch.contained import NOT_STARTED_STATUS, SIGKILL_STATUS, Contained

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from airlane.launch.command import Command
    from airlane.launch.processes import Identity

_READY = b"+"


class PidNamespace(Contained):
    """The command is a child of the namespace's first process, and that one (`pid`) dies with the agent.

    Raises OSError when the kernel, or the container around us, does not permit namespaces or mounts.
    """

    name = "pid_namespace"

    def __init__(self, command: Command) -> None:
        self._report, report = os.pipe()
        alive, lifeline = os.pipe()
        home = os.open("/proc/self/ns/pid", os.O_RDONLY)
        try:
            libc.setns(home, libc.CLONE_NEWPID)  # changes nothing, but tells whether we may come back
            libc.unshare(libc.CLONE_NEWPID)  # for children only: the agent itself stays
            try:
                pid = os.fork()
                if pid == 0:
                    os.close(lifeline)
                    _be_init(command, report, alive)
            finally:
                libc.setns(home, libc.CLONE_NEWPID)  # threads can only be started at home
        finally:
            for descriptor in (home, report, alive):
                os.close(descriptor)
        self._lifeline = lifeline
        self._await_mounts(pid)
        super().__init__(pid)
        self.news = self._report

    def _await_mounts(self, pid: int) -> None:
        """Raises OSError with the words of the namespace's first process."""
        words = os.read(self._report, 1)
        if words == _READY:
            os.set_blocking(self._report, False)
            return
        words += os.read(self._report, 4096)
        os.waitpid(pid, 0)
        raise OSError(words.decode(errors="replace") or "the first process of the PID namespace ended at once")

    def reap(self) -> None:
        end = None
        if not self.empty:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                self.empty = True
                end = status
        if self.status is None:
            self.status = self._reported()
        if self.status is None and end is not None:
            self.status = SIGKILL_STATUS if os.WIFSIGNALED(end) else NOT_STARTED_STATUS

    def _reported(self) -> int | None:
        try:
            text = os.read(self._report, 64)
        except BlockingIOError:
            return None
        return int(text) if text else None

    def terminate(self) -> None:
        from airlane.launch.processes import terminate_all

        terminate_all(self._find)

    def kill(self) -> None:
        if not self.killed:
            self.killed = max(0, len(self._find()) - (self.status is None))
        if not self.empty:
            os.kill(self.pid, libc.SIGKILL)  # a zombie of ours at worst: its pid cannot be another's

    def _find(self) -> list[Identity]:
        from airlane.launch.processes import descendants

        return descendants(self.pid)


def _be_init(command: Command, report: int, alive: int) -> NoReturn:
    """The life of the namespace's first process: start bash, collect the dead, tell how bash ended."""
    try:
        libc.prctl(libc.PR_SET_PDEATHSIG, libc.SIGKILL)
        _exit_if_agent_died(alive)
        _mount_own_proc()
    except OSError as error:
        os.write(report, str(error).encode())
        os._exit(1)
    os.write(report, _READY)
    try:
        _collect(_fork(command), report)
    except OSError as error:
        command.fail(error)
    finally:
        os._exit(1)


def _exit_if_agent_died(alive: int) -> None:
    """The death signal is not sent for a parent that died before it was asked for."""
    os.set_blocking(alive, False)
    try:
        os.read(alive, 1)
    except BlockingIOError:
        return
    os._exit(1)


def _mount_own_proc() -> None:
    # Slave, not private: a file system that the host mounts later is seen here, and nothing mounted here gets out.
    libc.unshare(libc.CLONE_NEWNS)
    libc.mount("none", "/", None, libc.MS_REC | libc.MS_SLAVE)
    libc.mount("proc", "/proc", "proc", libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC)


def _fork(command: Command) -> int:
    pid = os.fork()
    if pid == 0:
        command.become()
    command.release()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # the agent's stdin is the supervisor's pipe: it must not be held open here
    return pid


def _collect(bash: int, report: int) -> NoReturn:
    """Wait for children, the adopted included, until there is none; then the namespace is over."""
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(0)
        if pid == bash:
            os.write(report, b"%d" % status)

"""What every way of holding a command together offers to the agent."""

from __future__ import annotations

SIGKILL_STATUS = 9  # wait statuses: ended by SIGKILL without a core file; ended with exit code 127
NOT_STARTED_STATUS = 127 << 8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class Program:
    """What a forked process becomes."""

    def become(self) -> NoReturn:
        """Called in the child; never returns."""
        raise NotImplementedError


class Contained:
    """A started command with everything it starts, held so that all of it can be ended.

    `pid` is the process whose death ends the command; `status` is bash's wait status, None while it lives; `empty`
    turns true when nothing of the command is left; `killed` counts what SIGKILL had to end, bash not included. `news`
    is a descriptor that becomes readable when `reap` has something to find, besides SIGCHLD. `oom_kill` is what the
    container alone can tell: that the kernel killed something in it for lack of memory.
    """

    name = ""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None
        self.empty = False
        self.killed = 0
        self.news: int | None = None
        self.oom_kill = False

    def reap(self) -> None:
        """Take note of what has ended; returns at once."""
        raise NotImplementedError

    def terminate(self) -> None:
        """Ask everything to end (SIGTERM)."""
        raise NotImplementedError

    def kill(self) -> None:
        """End everything (SIGKILL); to be repeated until `empty`, for what is forked meanwhile."""
        raise NotImplementedError

    def close(self) -> str | None:
        """Called once at the end: what is held elsewhere is ended, too. Returns why that failed, or None."""
        return None

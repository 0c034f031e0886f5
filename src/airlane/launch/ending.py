"""The stop rule: when a command gets SIGTERM and when SIGKILL. Times are monotonic seconds, given by the caller."""

from __future__ import annotations

# What the command left behind may finish what it is writing (the `tee` of `exec > >(tee log)`) before it is ended.
SETTLE_S = 0.2
CUT_OFF = "cut off"


class Ending:
    """`reason` is who asked first ("stop" or "orphaned"), or "kill" or CUT_OFF; `kill_at` is None while nothing is due.

    What is killed gets no SIGTERM: it must not save over what a later attempt has saved.
    """

    def __init__(self, *, stop_grace_s: float, orphan_grace_s: float) -> None:
        self._grace_s = {"stop": stop_grace_s, "orphaned": orphan_grace_s, "kill": 0.0, CUT_OFF: 0.0}
        self._command_over = False
        self.reason: str | None = None
        self.kill_at: float | None = None

    def ask(self, reason: str, now: float) -> bool:
        """Someone wants it to end; True when everything must get SIGTERM, which happens once.

        A second request never gives more time than the first; after the command's own end a request changes nothing.
        """
        if self._command_over:
            return False
        first = self.reason is None
        at_once = reason in ("kill", CUT_OFF)
        if first or at_once:
            self.reason = reason
        self._kill_by(now + self._grace_s[reason])
        return first and not at_once

    def command_over(self, now: float) -> None:
        """Bash has ended. Asked to stop, the rest keeps its grace: it may be saving a checkpoint."""
        if not self._command_over:
            self._command_over = True
            if self.reason is None:
                self._kill_by(now + SETTLE_S)

    def _kill_by(self, deadline: float) -> None:
        self.kill_at = deadline if self.kill_at is None else min(self.kill_at, deadline)

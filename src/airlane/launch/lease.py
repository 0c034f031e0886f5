"""How long a node goes on without a word from the supervisor: one that is cut off must not outlive its attempt."""

from __future__ import annotations

# The watch looks at least once a second. What is longer than this, it slept: its machine, or its job, was suspended.
_LONGEST_NAP_S = 2.0


class Lease:
    """Every word of the supervisor renews it; without `silence_s` it never ends. Times are monotonic seconds.

    Only silence that the node was awake for counts. `overslept`: it slept for longer than `silence_s` and has heard
    nothing since, so that another attempt may have begun.
    """

    def __init__(self, silence_s: float | None, now: float) -> None:
        self._silence_s = silence_s
        self._silent_s = 0.0
        self._looked_at = now
        self.overslept = False

    def heard(self) -> None:
        self._silent_s = 0.0
        self.overslept = False

    def look(self, now: float) -> None:
        """To be called at each wake-up, before what was said meanwhile is read."""
        passed_s = now - self._looked_at
        self._looked_at = now
        self._silent_s += min(passed_s, _LONGEST_NAP_S)
        if self._silence_s is not None and passed_s > max(self._silence_s, _LONGEST_NAP_S):
            self.overslept = True

    @property
    def over(self) -> bool:
        return self._silence_s is not None and self._silent_s > self._silence_s

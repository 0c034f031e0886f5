"""PID 1 of a lab: while it lives the lab lives, and nothing of the lab outlives it.

It runs in a PID namespace of its own, in which everything else of the lab runs: the kernel ends that with it. It goes,
and clears up, when its standard input ends (whoever started the lab is gone) or on SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

# Run as a script, so that the folder above is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.remains import lock_of, remove, state_lock

_CLEAR_UP_S = 20


def main(number: int) -> None:
    with lock_of(number):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        signal.signal(signal.SIGCHLD, lambda *_: _reap())
        try:
            # The host's /proc is still mounted: this is the pid by which the lab's owner knows this process.
            print(Path("/proc/self").readlink(), flush=True)
            while os.read(0, 1):
                pass
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            _end_everything()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            with state_lock():
                remove(number)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _end_everything() -> None:
    """Kills every process of this namespace; whoever started them, outside it, has to reap some."""
    deadline = time.monotonic() + _CLEAR_UP_S
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(-1, signal.SIGKILL)
            time.sleep(0.01)


if __name__ == "__main__":
    main(int(sys.argv[1]))

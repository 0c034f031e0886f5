"""A process that outlives its starter: forked, with nothing of the terminal left."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

_MOST_DESCRIPTORS = 1 << 16


def detach(body: Callable[[], None], *, log: Path, keep: tuple[int, ...]) -> None:
    """Run `body` in a grandchild that nobody waits for; its output goes to `log`.

    Every descriptor but those in `keep` is closed in it, so that no pipe of the caller stays open. The fork spares the
    start of another interpreter; the caller must have no other thread.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        _become_daemon(log, keep)
        code = _run(body)
    except BaseException:  # noqa: BLE001 (nothing of the caller's stack may run in the child)
        _print_traceback()
        code = 1
    os._exit(code)


def _become_daemon(log: Path, keep: tuple[int, ...]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    start = 3
    for descriptor in sorted({*keep, _MOST_DESCRIPTORS}):
        os.closerange(start, descriptor)
        start = descriptor + 1
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 (the old objects may be a test's or a pager's)
    sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir("/")


def _run(body: Callable[[], None]) -> int:
    try:
        body()
    except Exception:  # noqa: BLE001 (the log is where the cause of a supervisor's own fault is looked for)
        _print_traceback()
        return 1
    finally:
        sys.stdout.flush()
    return 0


def _print_traceback() -> None:
    import traceback

    traceback.print_exc()

"""A process that outlives its starter: forked, with nothing of the terminal left."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from airlane.errors import BackendError

_MOST_DESCRIPTORS = 1 << 16


def detach(body: Callable[[], None], *, log: Path, keep: tuple[int, ...]) -> None:
    """Run `body` in a grandchild that nobody waits for; its output goes to `log`.

    Every descriptor but those in `keep` is closed in it, so that no pipe of the caller stays open. The fork spares the
    start of another interpreter; the caller must have no other thread.

    Raises:
        BackendError: no process could be started.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a closed pipe, a closed file, none at all
            stream.flush()
    try:
        child = os.fork()
    except OSError as error:
        raise _no_process(error.errno) from error
    if child:
        _check_started(child)
        return
    code = 1
    try:
        code = _detached(body, log, keep)
    except BaseException:  # noqa: BLE001 (nothing of the caller's stack may run in the child)
        _print_traceback()
    finally:
        os._exit(code)


def _check_started(child: int) -> None:
    with contextlib.suppress(ChildProcessError):  # the caller ignores SIGCHLD: then nobody is told
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code:
            raise _no_process(abs(code))


def _no_process(number: int | None) -> BackendError:
    return BackendError(f"the supervisor could not be started: {os.strerror(number or 0)}", hint="ulimit -u")


def _detached(body: Callable[[], None], log: Path, keep: tuple[int, ...]) -> int:
    """In the first child: fork once more, and run the body in the second."""
    os.setsid()
    try:
        if os.fork():
            return 0
    except OSError as error:
        return error.errno or 1
    _become_daemon(log, keep)
    return _run(body)


def _become_daemon(log: Path, keep: tuple[int, ...]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDONLY)
    out = _open_log(log)
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


def _open_log(log: Path) -> int:
    try:
        return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)  # a full disk: the run matters more than our own words


def _run(body: Callable[[], None]) -> int:
    try:
        body()
    except Exception:  # noqa: BLE001 (the log is where the cause of a supervisor's own fault is looked for)
        _print_traceback()
        return 1
    return 0


def _print_traceback() -> None:
    import traceback

    traceback.print_exc()

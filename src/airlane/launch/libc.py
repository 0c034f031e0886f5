"""The C library calls that the standard library lacks (os.unshare and os.setns came with Python 3.12).

Only ctypes is imported: this stands between the agent's start and the command's, where every millisecond shows.
"""

from __future__ import annotations

import ctypes
import os
import sys

# Numbers, because importing `signal` costs as much as starting the command.
SIGKILL = 9
SIGTERM = 15
STOP_SIGNALS = (1, 2, 15)  # SIGHUP, SIGINT, SIGTERM
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS = 0x0002_0000
CLONE_NEWPID = 0x2000_0000
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REC = 0x4000
MS_SLAVE = 0x8_0000

_SIG_SETMASK = 3 if sys.platform == "darwin" else 2
_SIG_BLOCK = 1 if sys.platform == "darwin" else 0
_SIGSET_BYTES = 128  # as large as any system's sigset_t; all zeros is the empty set
_LAST_SIGNAL = 64

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def prctl(option: int, argument: int) -> None:
    """Set one attribute of this process (Linux). Raises OSError."""
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(option, ctypes.c_ulong(argument), zero, zero, zero), f"prctl({option})")


def unshare(flags: int) -> None:
    """Leave namespaces (Linux). Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """Enter the namespace behind a descriptor (Linux). Raises OSError."""
    _check(_libc.setns(descriptor, kind), "setns")


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    """Mount a file system, or change how a mount spreads (Linux). Raises OSError."""
    kind_bytes = kind.encode() if kind else None
    arguments = (source.encode(), target.encode(), kind_bytes, ctypes.c_ulong(flags), None)
    _check(_libc.mount(*arguments), f"mount {target}")


def block_stop_signals() -> None:
    """Keep the signals that ask us to stop until their handlers are there."""
    held = ctypes.create_string_buffer(_SIGSET_BYTES)
    for number in STOP_SIGNALS:
        _libc.sigaddset(held, number)
    _libc.sigprocmask(_SIG_BLOCK, held, None)


def default_signals() -> None:
    """Give every signal its default action and block none, as in a fresh login.

    Python ignores SIGPIPE, nohup ignores SIGHUP; bash could not even trap what it finds ignored.
    """
    for number in range(1, _LAST_SIGNAL + 1):
        _libc.signal(number, None)
    _libc.sigprocmask(_SIG_SETMASK, ctypes.create_string_buffer(_SIGSET_BYTES), None)

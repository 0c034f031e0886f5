"""The `air` command. `--version` and errors of the first word cost no import that they do not need."""

from __future__ import annotations

import contextlib
import os
import sys

from airlane import __version__

_STANDARD = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def main(argv: list[str] | None = None) -> int:
    """Run one command line; the exit code (see errors.py)."""
    words = sys.argv[1:] if argv is None else argv
    _open_missing_streams()
    if words == ["--version"]:
        with contextlib.suppress(OSError):  # told below
            print(f"airlane {__version__}", flush=True)
            return 0
    try:
        from airlane.cli.dispatch import dispatch
    except KeyboardInterrupt:  # a tenth of a second in which people do press Ctrl-C
        print("\nInterrupted.", file=sys.stderr)
        return 130
    return dispatch(words)


def _open_missing_streams() -> None:
    """Put /dev/null where the caller closed a standard stream (`air run >&-`), before a file of ours gets its number.

    The supervisor puts its own files at these numbers: a lock there would be lost.
    """
    for descriptor, (name, mode) in enumerate(_STANDARD):
        if getattr(sys, name) is None:  # Python's way to say that it is closed
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115 (for the whole process)

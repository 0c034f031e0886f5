"""The `air` command. `--version` and errors of the first word cost no import that they do not need."""

from __future__ import annotations

import sys

from airlane import __version__


def main(argv: list[str] | None = None) -> int:
    """Run one command line; the exit code (see errors.py)."""
    words = sys.argv[1:] if argv is None else argv
    if words == ["--version"]:
        print(f"airlane {__version__}")
        return 0
    from airlane.cli.dispatch import dispatch

    return dispatch(words)

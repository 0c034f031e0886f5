"""What an agent has to say when it cannot write a record."""

from __future__ import annotations

import os

EXIT_NO_ORDER = 64
EXIT_NO_RECORD = 74


def complain(words: str) -> None:
    """Tell it on stderr, the supervisor's log; where that is on the same full disk, say nothing."""
    try:
        os.write(2, f"airlane agent: {words}\n".encode(errors="replace"))
    except OSError:
        return

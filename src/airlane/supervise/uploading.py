"""The process that uploads what runs kept in their folders, beside whatever the user does.

Started as `python -m airlane.supervise.uploading HOME`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from airlane.store.paths import Home
from airlane.store.records import Attempt
from airlane.store.runs import RunView

STARTED_WITHIN_S = 30.0


def upload_beside(home: Home) -> None:
    """Start to upload what waits, in a process of its own; one that finds another at it ends at once.

    Nothing happens where it cannot be started: the next command tries again.
    """
    with suppress(OSError, subprocess.TimeoutExpired):
        _start(home)


def _start(home: Home) -> None:
    log = os.open(home.kept / ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        # Without -P, modules of the folder where the user stands would be taken for Python's own.
        command = [sys.executable, "-P", "-m", __name__, str(home.root)]
        # It only forks the process that works, which is nobody's child then.
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            timeout=STARTED_WITHIN_S,
            check=False,
        )
    finally:
        os.close(log)


def main() -> None:
    if os.fork():
        os._exit(0)
    from airlane.tracking.upload import upload_kept

    upload_kept(Home(Path(sys.argv[1])), _files)


def _files(view: RunView, attempt: Attempt) -> tuple[tuple[Path, str], ...]:
    from airlane.supervise.recording import attempt_logs

    return attempt_logs(view.record, view.paths, attempt.number)


if __name__ == "__main__":
    main()

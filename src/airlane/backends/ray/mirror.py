"""Brings what a run on a Ray cluster tells into the user's run folder, also when nobody looks.

`python -I -m airlane.backends.ray.mirror RUN_FOLDER` is started with the run, and by whoever looks at it and sees none.
There is one for each run. It ends when no more can come, or when the cluster has been silent for long.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from airlane.backends.ray.ledger import (
    Coming,
    JobRecord,
    RayFiles,
    read_job,
    read_position,
    read_token,
    take,
    time_of,
)
from airlane.errors import AirError
from airlane.store.locks import taken_by_another
from airlane.store.paths import Home, RunPaths
from airlane.store.uploaded import note_kept

if TYPE_CHECKING:  # whoever only looks whether there is a mirror must not pay for what one needs
    from airlane.backends.ray.follower import Follower

# What was brought so shortly before somebody looks is as good as new.
FRESH_S = 1.0
_LOOKER_TIMEOUT_S = 3.0
_LOOKER_PATIENCE_S = 3.0
_STALLED_S = 30.0
_START_PATIENCE_S = 1.0  # whoever asks whether there is a mirror holds the lock for a moment
_PAUSE_S = 0.05
# The shell leaves at once: nobody has to wait for the mirror, or is its parent.
_APART = '"$@" </dev/null >>"$0" 2>&1 &'


def ensure_mirror(run: RunPaths) -> bool:
    """Start the run's mirror, unless there is one, or no more can come; whether it was started.

    Where that cannot be, everybody who looks brings the news himself.
    """
    files = RayFiles(run)
    if read_job(run) is None or read_position(files.position).coming is not Coming.OPEN:
        return False
    _want(files)
    with contextlib.suppress(OSError):  # a folder that this user may only read; no process more
        if not _is_held(files.lock):
            _start(run)
            return True
    return False


def _start(run: RunPaths) -> None:
    """Raises OSError."""
    log = RayFiles(run).log
    os.close(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    program = [sys.executable, "-I", "-m", "airlane.backends.ray.mirror", str(run.root)]
    subprocess.run(["/bin/sh", "-c", _APART, str(log), *program], check=False, cwd="/", start_new_session=True)


def catch_up(run: RunPaths, *, to_the_end: bool = False) -> bool:
    """Bring what there is now, or have the mirror do it; whether the run's files may be others than before.

    `to_the_end` is for a run whose job is over: return when all of it is here that ever will be. In either case a
    cluster that does not answer is not waited for, beyond a few seconds.
    """
    files = RayFiles(run)
    record = read_job(run)
    if record is None or read_position(files.position).coming is not Coming.OPEN:
        return False
    # That it does not answer is found out by who asks for the run's state; a folder may be one to read only.
    with contextlib.suppress(AirError, OSError):
        if to_the_end:
            _bring_the_end(run, record)
        else:
            _bring_the_news(run, record)
    return True


def _bring_the_news(run: RunPaths, record: JobRecord) -> None:
    files = RayFiles(run)
    asked_at = time.time()
    _want(files)
    lock = take(files.lock)
    if lock is not None:
        try:
            _follower(run, record, timeout_s=_LOOKER_TIMEOUT_S).bring(patience_s=_LOOKER_PATIENCE_S)
            _note_kept(run)
        finally:
            os.close(lock)
        return
    while time_of(files.brought) < asked_at - FRESH_S and time.time() < asked_at + _LOOKER_PATIENCE_S:
        time.sleep(_PAUSE_S)


def _bring_the_end(run: RunPaths, record: JobRecord) -> None:
    files = RayFiles(run)
    follower = _follower(run, record)
    came_at, came = time.time(), None
    while read_position(files.position).coming is Coming.OPEN and time.time() < came_at + _STALLED_S:
        _want(files)
        lock = take(files.lock)
        if lock is not None:
            try:
                with contextlib.suppress(AirError, OSError):
                    follower.bring()
                    _note_kept(run)
            finally:
                os.close(lock)
        news = time_of(files.position), time_of(files.brought)
        if news != came:
            came_at, came = time.time(), news
        time.sleep(_PAUSE_S)


def _follower(run: RunPaths, record: JobRecord, *, timeout_s: float = 10.0) -> Follower:
    """Raises ConfigError."""
    from airlane.backends.ray.follower import Follower
    from airlane.cluster.jobs import Jobs
    from airlane.cluster.rest import Dashboard

    dashboard = Dashboard(record.url, read_token(run, record), timeout_s=timeout_s)
    return Follower(run, record, dashboard, Jobs(dashboard))


def _note_kept(run: RunPaths) -> None:
    """What the run recorded on its own can be uploaded once nothing more of it comes. Raises OSError."""
    if read_position(RayFiles(run).position).coming is not Coming.OPEN and run.tracking.is_dir():
        note_kept(Home(run.root.parents[2]), run)


def _want(files: RayFiles) -> None:
    with contextlib.suppress(OSError):
        files.wanted.touch(mode=0o600)


def _is_held(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return taken_by_another(descriptor)
    finally:
        os.close(descriptor)


def main(folder: str) -> int:
    run = RunPaths(Path(folder))
    record = read_job(run)
    lock = take(RayFiles(run).lock, patience_s=_START_PATIENCE_S)
    if record is None or lock is None:
        return 0
    try:
        _follower(run, record).run()
        _note_kept(run)
    except AirError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

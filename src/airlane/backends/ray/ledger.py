"""Which Ray job a run has become, and how far what it tells has come: the folder ray/ of the user's run folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from enum import StrEnum
from pathlib import Path

from airlane.errors import ConfigError, StoreError
from airlane.frozen import frozen
from airlane.store import codec
from airlane.store.disk import SystemDisk, make_private_folder, read_bytes
from airlane.store.paths import RunPaths

# A cluster knows a job within this of the request; what it does not know then was never a job, or is one no more.
LONGEST_SUBMISSION_S = 60.0
_LOOK_EVERY_S = 0.05


@frozen
class RayFiles:
    """The files of a run that is on a Ray cluster, where the user is."""

    run: RunPaths

    @property
    def root(self) -> Path:
        return self.run.ray_job

    @property
    def job(self) -> Path:
        return self.root / "job.json"

    @property
    def token(self) -> Path:
        """The cluster's token (0600), where it is in no file of the user's."""
        return self.root / "token"

    @property
    def package(self) -> Path:
        """What is uploaded; there only while it is."""
        return self.root / "package.zip"

    @property
    def refused(self) -> Path:
        """Since when the cluster refuses to be asked, by its time."""
        return self.root / "refused"

    @property
    def position(self) -> Path:
        return self.root / "position.json"

    @property
    def lock(self) -> Path:
        """Flock-ed by whoever brings the run's files."""
        return self.root / "mirror.lock"

    @property
    def log(self) -> Path:
        return self.root / "mirror.log"

    @property
    def wanted(self) -> Path:
        """Touched by whoever wants to see the run as it is now."""
        return self.root / "wanted"

    @property
    def brought(self) -> Path:
        """When, by its time of change, somebody last began to bring all there was, and then did."""
        return self.root / "brought"


@frozen
class JobRecord:
    """The run's Ray job, written just before it is asked for.

    `name` is that of its outbox; without a `token_file`, the token is in the run's own. `head` is the address of the
    cluster's head as the cluster itself has it, which `url` may reach through a tunnel.
    """

    url: str
    submission_id: str
    name: str
    submitted_at: float
    token_file: str | None = None
    head: str | None = None


class Coming(StrEnum):
    """Whether more may come from the cluster: OPEN; ENDED, its last word is here; CUT_OFF, what is missing is lost."""

    OPEN = "open"
    ENDED = "ended"
    CUT_OFF = "cut off"


@frozen
class Position:
    """What was read of an outbox: all parts before `part`, and of that the lines before `line`."""

    part: int = 0
    line: int = 0
    coming: Coming = Coming.OPEN


def write_job(run: RunPaths, record: JobRecord, *, token: str | None) -> None:
    """Write down the job; its token too where the record names no file of it. Raises OSError."""
    files = RayFiles(run)
    make_private_folder(files.root)
    if token is not None and record.token_file is None:
        SystemDisk().replace(files.token, token.encode())
    SystemDisk().replace(files.job, codec.encode(record), last=True)


def read_job(run: RunPaths) -> JobRecord | None:
    """None where the run has not been submitted. Raises StoreError when the file is damaged."""
    return codec.read(JobRecord, RayFiles(run).job)


def read_token(run: RunPaths, record: JobRecord) -> str | None:
    """The cluster's token; None where it wants none.

    Raises:
        ConfigError: the file with it cannot be read.
    """
    path = Path(record.token_file) if record.token_file else RayFiles(run).token
    try:
        content = read_bytes(path)
        if content is None and record.token_file:
            raise FileNotFoundError(path)
        return content.decode("ascii").strip() or None if content is not None else None
    except (OSError, ValueError) as error:
        raise ConfigError(f"the token of {record.url} cannot be read from {path}", hint=f"ls -l '{path}'") from error


def read_position(path: Path) -> Position:
    """The beginning, where there is no such file, or one that is damaged: what comes again is harmless."""
    with contextlib.suppress(StoreError):
        return codec.read(Position, path) or Position()
    return Position()


def write_position(path: Path, position: Position) -> None:
    """Raises OSError."""
    SystemDisk().replace(path, codec.encode(position))


def time_of(path: Path) -> float:
    """When a file was last written; long ago where it never was."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def take(lock: Path, *, patience_s: float = 0.0) -> int | None:
    """A descriptor that holds the lock; None where another process holds it longer than that. Raises OSError."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
            time.sleep(_LOOK_EVERY_S)
        except OSError:
            os.close(descriptor)
            raise
        else:
            return descriptor

"""Run folders: made at submission, found by id, prefix or @last, read as one settled view."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

from airlane.errors import NotFoundError, StoreError
from airlane.frozen import frozen
from airlane.store import codec
from airlane.store.disk import Disk, SystemDisk, make_private_folder
from airlane.store.ids import ALPHABET, is_id, new_id, next_id
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Attempt, Cause, NodeRecord, RunRecord, Status, Verdict
from airlane.store.states import Phase, State
from airlane.store.supervisor_lock import hold
from airlane.store.uploaded import with_uploaded

LAST = "@last"


@frozen
class RunContent:
    """The files of a new run beside its record: text as the user wrote it."""

    workload: str
    command: str
    parameters: str | None = None
    diff: bytes | None = None
    secrets: bytes | None = None


@frozen
class NewRun:
    """A run that was just made. `lock` is the descriptor of its held supervisor lock, for the supervisor to inherit."""

    paths: RunPaths
    record: RunRecord
    lock: int


@frozen
class RunView:
    """A run as its files tell it; a verdict, where there is one, has the last word."""

    paths: RunPaths
    record: RunRecord
    status: Status | None
    verdict: Verdict | None

    @property
    def state(self) -> State:
        if self.status is not None and self.status.state.terminal:
            return self.status.state
        if self.verdict is not None:
            return self.verdict.state
        return self.status.state if self.status is not None else State.PENDING

    @property
    def phase(self) -> Phase | None:
        return None if self.state.terminal or self.status is None else self.status.phase

    @property
    def cause(self) -> Cause | None:
        if self.status is not None and self.status.state.terminal:
            return self.status.cause
        return self.verdict.cause if self.verdict is not None else None

    @property
    def ended_at(self) -> float | None:
        if self.status is not None and self.status.state.terminal:
            return self.status.ended_at
        return self.verdict.ended_at if self.verdict is not None else None

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts; one that its supervisor did not live to close ends with the verdict."""
        attempts = self.status.attempts if self.status is not None else ()
        if attempts and attempts[-1].ended_at is None and self.state.terminal:
            open_attempt = attempts[-1]
            closed = replace(open_attempt, ended_at=self.ended_at, state=self.state, cause=self.cause)
            return (*attempts[:-1], closed)
        return attempts

    @property
    def started_at(self) -> float | None:
        return self.attempts[0].started_at if self.attempts else None

    def waits(self, detail: str, place: str | None) -> RunView:
        """The view of a run that has no supervisor now: `detail` says what it waits for."""
        blank = Status(State.PENDING, None, None, self.record.submitted_at, 0, "")
        status = replace(self.status or blank, phase=Phase.QUEUED, detail=detail, place=place)
        return replace(self, status=status)

    def duration_s(self, now: float) -> float | None:
        """From the first attempt's start to the end, or to `now` while the run lasts."""
        if self.started_at is None:
            return None
        return max(0.0, (self.ended_at if self.ended_at is not None else now) - self.started_at)


class RunStore:
    """All runs under one home."""

    def __init__(self, home: Home, *, disk: Disk | None = None) -> None:
        self.home = home
        self.disk = disk or SystemDisk()

    def create(self, record: RunRecord, content: RunContent) -> NewRun:
        """A new run folder; `record.id` is ignored and a fresh one is used. With run.json it becomes a run.

        Raises:
            StoreError: the folder could not be written.
        """
        with self._writing():
            paths = self._new_folder(record.submitted_at)
            record = replace(record, id=paths.id)
            try:
                lock = hold(paths.lock)
                try:
                    self._fill(paths, record, content)
                except BaseException:
                    os.close(lock)
                    raise
            except BaseException:
                _remove(paths.root)  # half a run is no run, and may hold secrets
                raise
        return NewRun(paths, record, lock)

    def discard(self, new: NewRun) -> None:
        """Remove a run that could not be started, and let go of its lock."""
        _remove(new.paths.root)
        os.close(new.lock)

    def make_folder(self, folder: Path) -> None:
        """Create a private folder under the home.

        Raises:
            StoreError: it cannot be made.
        """
        with self._writing():
            make_private_folder(folder)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"could not write under {self.home.root}: {error.strerror}",
                hint="free some space, or set AIR_HOME to another folder",
            ) from error

    def _new_folder(self, submitted_at: float) -> RunPaths:
        month = self.home.runs / time.strftime("%Y-%m", time.gmtime(submitted_at))
        make_private_folder(month)
        run_id = new_id(submitted_at)
        while True:
            try:
                (month / run_id).mkdir(mode=0o700)
            except FileExistsError:
                run_id = next_id(run_id)
                continue
            return RunPaths(month / run_id)

    def _fill(self, paths: RunPaths, record: RunRecord, content: RunContent) -> None:
        paths.attempts.mkdir(mode=0o700)
        paths.checkpoints.mkdir(mode=0o700)
        texts = (
            (paths.workload, content.workload),
            (paths.command, content.command),
            (paths.parameters, content.parameters),
        )
        for path, text in texts:
            if text is not None:
                _write_private(path, text.encode("utf-8", "surrogateescape"))
        if content.diff is not None:
            _write_private(paths.diff, content.diff)
        self.disk.replace(paths.record, codec.encode(record), last=True)
        # Last: from here on whoever finds the run dead removes them.
        if content.secrets is not None:
            _write_private(paths.secrets, content.secrets)

    def ids(self) -> Iterator[RunPaths]:
        """Every run folder, newest first, finished or not."""
        for month in sorted(_names(self.home.runs), reverse=True):
            folder = self.home.runs / month
            for name in sorted(_names(folder), reverse=True):
                if is_id(name):
                    yield RunPaths(folder / name)

    def find(self, name: str) -> RunPaths:
        """The run of an id, an unambiguous prefix of one, or @last.

        Raises:
            NotFoundError: there is none, or there are several (they are listed).
        """
        if name != LAST and (not name or not set(name) <= set(ALPHABET)):
            raise NotFoundError(f"{name!r} is not a run id", hint="air list")
        named = (paths for paths in self.ids() if name == LAST or paths.id.startswith(name))
        matches = (paths for paths in named if paths.record.exists())
        found = list(islice(matches, 1 if name == LAST else 6))
        if not found:
            if name == LAST:
                raise NotFoundError("there are no runs yet", hint="air run -f train.yaml")
            raise NotFoundError(f"there is no run {name}", hint="air list --all-status")
        if len(found) > 1:
            shown = ", ".join(paths.id for paths in found[:5]) + (", ..." if len(found) > 5 else "")  # noqa: PLR2004
            raise NotFoundError(f"{name} could be any of {shown}", hint="type more of the id")
        return found[0]

    def view(self, paths: RunPaths) -> RunView:
        """The run as its files tell it now.

        Raises:
            NotFoundError: the folder holds no run.
            StoreError: run.json is damaged.
        """
        # The status is read before the verdict: a verdict is only ever written once the status has stopped changing.
        record = codec.read(RunRecord, paths.record)
        if record is None:
            raise NotFoundError(f"{paths.root} holds no run", hint="air list")
        status = with_uploaded(codec.read(Status, paths.status), paths)
        return RunView(paths, record, status, codec.read(Verdict, paths.verdict))

    def node_record(self, paths: RunPaths, *, attempt: int, node: int) -> NodeRecord | None:
        """What a node's agent wrote last, or None."""
        return read_node_record(paths, attempt=attempt, node=node)

    @contextmanager
    def submission(self) -> Iterator[None]:
        """One submission at a time: the order of `submitted_at` is then the order in the queue.

        Raises:
            StoreError: the home cannot be written.
        """
        with self._writing():
            make_private_folder(self.home.root)
            descriptor = _lock(self.home.submission_lock)
        try:
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def token(self, user: str, token: str) -> Iterator[IdempotencyToken]:
        """Hold an idempotency token while submitting; others who use it wait, then find the run it names.

        Raises:
            StoreError: the home cannot be written.
        """
        import hashlib

        name = hashlib.sha256(f"{user}\0{token}".encode("utf-8", "surrogateescape")).hexdigest()
        with self._writing():
            make_private_folder(self.home.tokens)
            descriptor = _lock(self.home.tokens / name)
        try:
            yield IdempotencyToken(self._named(descriptor), lambda new: self._name(descriptor, new))
        finally:
            os.close(descriptor)

    def _named(self, descriptor: int) -> str | None:
        """The run that a token names; None if it names none, or one that is gone."""
        run_id = os.pread(descriptor, 64, 0).decode(errors="replace")
        return run_id if is_id(run_id) and any(paths.id == run_id for paths in self.ids()) else None

    def _name(self, descriptor: int, run_id: str) -> None:
        with self._writing():
            os.pwrite(
                descriptor, run_id.encode(), 0
            )  # in place: ids have one length, and a cut leaves the old or the new
            os.fsync(descriptor)


@frozen
class IdempotencyToken:
    """A held token: the run it names already, if any, and a way to name one."""

    run_id: str | None
    assign: Callable[[str], None]


def read_node_record(paths: RunPaths, *, attempt: int, node: int) -> NodeRecord | None:
    """What a node's agent wrote last; None if there is nothing, or nothing that can be read.

    The command runs as the same user and may have spoiled the file: such a node is judged as one without a word.
    """
    try:
        return codec.read(NodeRecord, paths.node_record(attempt=attempt, node=node))
    except StoreError:
        return None


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 (three times faster than iterdir, and there may be 10,000 names)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise StoreError(f"{folder} cannot be read: {error.strerror}", hint=f"ls -ld '{folder}'") from error

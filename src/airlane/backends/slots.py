"""Accelerator slots of one machine, and the queue for them.

A slot is a file that its holder keeps flock-ed; so is a place in the queue (a ticket). The kernel frees both when the
last process that holds them is gone, whatever ended it. Everything that decides is done under the pool's lock.

    <pool>/lock  <pool>/slots/<name> ...  <pool>/queue/<priority>-<time>-<run id>.<stage>
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from airlane.store.disk import make_private_folder

# A dead holder changes no file name, so the queue is looked at afresh this often.
FULL_LOOK_EVERY_S = 0.5
_LOWEST_PRIORITY = 999


class Stage(StrEnum):
    """What a run in the queue is doing. One that builds its environment lets others pass; its place is kept."""

    PREPARING = "preparing"
    WAITING = "waiting"
    HOLDING = "holding"


class Pool:
    """The slots of one kind of accelerator here, by name; `shared` between all users, or the caller's own."""

    def __init__(self, folder: Path, names: tuple[str, ...], *, shared: bool = False) -> None:
        self.folder = folder
        self.names = names
        self._folder_mode, self._file_mode = (0o777, 0o666) if shared else (0o700, 0o600)

    @property
    def size(self) -> int:
        return len(self.names)

    @property
    def queue(self) -> Path:
        return self.folder / "queue"

    def join(self, run_id: str, *, priority: int, stage: Stage) -> Ticket:
        """A place at the end of the queue; earlier for a higher priority."""
        self._make_folders()
        with self.locked():
            self._forget_the_dead()
            name = f"{_LOWEST_PRIORITY - priority:03d}-{time.time_ns():020d}-{run_id}"
            descriptor = self._open(self.queue / f"{name}.{stage}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        return Ticket(self, name, stage, descriptor)

    def _make_folders(self) -> None:
        make_private_folder(self.folder.parent)
        for folder in (self.folder, self.queue, self.folder / "slots"):
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
                folder.chmod(self._folder_mode)

    def _open(self, path: Path) -> int:
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self._file_mode)
            with contextlib.suppress(PermissionError):  # another user made it in between, with the right mode
                os.fchmod(descriptor, self._file_mode)
            return descriptor

    def _forget_the_dead(self) -> None:
        for name in os.listdir(self.queue):  # noqa: PTH208
            if not _held(self.queue / name):
                (self.queue / name).unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        descriptor = self._open(self.folder / "lock")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def waiting(self) -> list[str]:
        """The names of waiting tickets in order; the first one is alive."""
        suffix = f".{Stage.WAITING}"
        names = sorted(name for name in os.listdir(self.queue) if name.endswith(suffix))  # noqa: PTH208
        while names and not _held(self.queue / names[0]):
            (self.queue / names.pop(0)).unlink(missing_ok=True)
        return [name.removesuffix(suffix) for name in names]

    def grab(self, count: int) -> dict[str, int]:
        """The locks of `count` free slots by name, or of none; call it under the pool's lock."""
        taken: dict[str, int] = {}
        for name in self.names:
            if len(taken) == count:
                return taken
            descriptor = self._open(self.folder / "slots" / name)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
            else:
                taken[name] = descriptor
        if len(taken) == count:
            return taken
        for descriptor in taken.values():
            os.close(descriptor)
        return {}

    def busy(self) -> int:
        """How many slots are held now."""
        if not self.queue.is_dir():
            return 0
        with self.locked():
            return sum(1 for name in self.names if _held(self.folder / "slots" / name))


class Ticket:
    """A run's place in the queue, and the slots it holds when its turn has come."""

    def __init__(self, pool: Pool, name: str, stage: Stage, descriptor: int) -> None:
        self._pool = pool
        self._name = name
        self._stage = stage
        self._descriptor = descriptor
        self._slots: dict[str, int] = {}
        self._seen: tuple[int, float] | None = None
        self._position = 0

    @property
    def _path(self) -> Path:
        return self._pool.queue / f"{self._name}.{self._stage}"

    @property
    def descriptor(self) -> int:
        """The lock of the place in the queue, for the supervisor to inherit."""
        return self._descriptor

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The locks of the slots held, for the processes that are to keep them."""
        return tuple(self._slots.values())

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of the slots held."""
        return tuple(self._slots)

    @property
    def pool(self) -> Pool:
        return self._pool

    def move(self, stage: Stage) -> None:
        if stage is not self._stage:
            before = self._path
            self._stage = stage
            before.rename(self._path)

    def take(self, count: int, *, on_stale: Callable[[str], None]) -> int | None:
        """Take `count` slots if it is this ticket's turn: None, or the place in the queue from 1.

        `on_stale` is called with the id of a run that held one of the slots and did not give it back by itself.
        """
        if self._slots:
            return None
        now, seen = time.monotonic(), self._pool.queue.stat().st_mtime_ns
        if self._seen is not None and self._seen[0] == seen and now - self._seen[1] < FULL_LOOK_EVERY_S:
            return self._position
        with self._pool.locked():
            self.move(Stage.WAITING)
            self._position = self._pool.waiting().index(self._name) + 1
            if self._position == 1:
                self._slots = self._pool.grab(count)
            if self._slots:
                self.move(Stage.HOLDING)
        self._seen = (seen, now)
        if not self._slots:
            return self._position
        for descriptor in self._slots.values():
            self._claim(descriptor, on_stale)
        return None

    def _claim(self, descriptor: int, on_stale: Callable[[str], None]) -> None:
        run_id = self._name.rsplit("-", 1)[1]
        before = os.pread(descriptor, 64, 0).decode()
        if before and before != run_id:
            on_stale(before)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, run_id.encode(), 0)

    def give_back(self) -> None:
        """Free the slots; the place in the queue is kept for another attempt."""
        for descriptor in self._slots.values():
            os.ftruncate(descriptor, 0)
            os.close(descriptor)
        self._slots = {}
        self._seen = None
        self.move(Stage.PREPARING)

    def leave(self) -> None:
        """Give back everything and leave the queue."""
        self.give_back()
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def forget(self) -> None:
        """Close this process's copy of the ticket; the process that inherited it keeps the place."""
        os.close(self._descriptor)


def _held(path: Path) -> bool:
    """Whether some process holds the file's lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)

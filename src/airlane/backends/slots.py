"""Accelerator slots of one machine, and the queue for them.

A slot is a file that its holder keeps flock-ed; so is a place in the queue (a ticket). The kernel frees both when the
last process that holds them is gone, whatever ended it. Everything that decides is done under the pool's lock.

    <pool>/lock  <pool>/slots/<name> ...  <pool>/queue/<rank>-<time>-<run id>.<stage>

A pool shared by all users of a machine is open to all of them, like /tmp: its folders are sticky, nobody's links are
followed, and what others wrote is not believed. A hostile user can still hold every slot, as with any queue.
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

from airlane.backends.lock_files import is_held, leads_to, lock_current, make_lock_folder, open_lock_file
from airlane.errors import BackendError
from airlane.store.disk import make_private_folder
from airlane.store.ids import is_id

# A dead holder changes no file name, so the queue is looked at afresh this often.
FULL_LOOK_EVERY_S = 0.5
# Whatever cleans /tmp removes files that nothing has touched for days: what is held is touched this often.
TOUCH_EVERY_S = 3600.0
_NORMAL_RANK = 1 << 33  # any priority, from -2**31 to 2**31, gives a rank of eleven digits
_LONGEST_CONTENT = 64


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
        self._folder_mode, self._file_mode = (0o1777, 0o666) if shared else (0o700, 0o600)

    @property
    def size(self) -> int:
        return len(self.names)

    @property
    def queue(self) -> Path:
        return self.folder / "queue"

    def join(self, run_id: str, *, priority: int, stage: Stage) -> Ticket:
        """A place at the end of the queue; earlier for a higher priority.

        Raises:
            BackendError: the pool's folder cannot be used.
        """
        with self.usable():
            self.make_folders()
            with self.locked():
                self._forget_the_dead()
                name = f"{_NORMAL_RANK - priority:011d}-{time.time_ns():020d}-{run_id}"
                return Ticket(self, name, stage, self.enter(name, stage))

    @contextmanager
    def usable(self) -> Iterator[None]:
        """Turn what the file system refuses into an error about the queue."""
        try:
            yield
        except OSError as error:
            raise BackendError(
                f"the queue for accelerators in {self.folder} cannot be used: {error.strerror}",
                hint=f"ls -ld {self.folder}",
            ) from error

    def make_folders(self) -> None:
        make_private_folder(self.folder.parent)
        for folder in (self.folder, self.queue, self.folder / "slots"):
            make_lock_folder(folder, self._folder_mode)

    def enter(self, name: str, stage: Stage) -> int:
        """The lock of a new ticket file; call it under the pool's lock."""
        descriptor = open_lock_file(self.queue / f"{name}.{stage}", self._file_mode)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    def _forget_the_dead(self) -> None:
        for name in os.listdir(self.queue):  # noqa: PTH208
            if not is_held(self.queue / name):
                self._forget(name)

    def _forget(self, name: str) -> None:
        with contextlib.suppress(PermissionError):  # another user's: the sticky folder keeps it for them
            (self.queue / name).unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        descriptor = lock_current(self.folder / "lock", self._file_mode)
        try:
            yield
        finally:
            os.close(descriptor)

    def waiting(self) -> list[str]:
        """The names of waiting tickets in order; the first one is alive. Call it under the pool's lock."""
        suffix = f".{Stage.WAITING}"
        found = sorted(name for name in os.listdir(self.queue) if name.endswith(suffix))  # noqa: PTH208
        while found and not is_held(self.queue / found[0]):
            self._forget(found.pop(0))
        return [name.removesuffix(suffix) for name in found]

    def lives(self, run_id: str) -> bool:
        """Whether a supervisor of this run is in the queue or holds slots."""
        listed = os.listdir(self.queue)  # noqa: PTH208
        return any(f"-{run_id}." in name and is_held(self.queue / name) for name in listed)

    def grab(self, count: int) -> dict[str, int]:
        """The locks of `count` free slots by name, or of none; call it under the pool's lock."""
        taken: dict[str, int] = {}
        try:
            for name in self.names:
                if len(taken) == count:
                    break
                descriptor = self._try_slot(name)
                if descriptor is not None:
                    taken[name] = descriptor
        except BaseException:
            _close_all(taken)
            raise
        if len(taken) < count:
            _close_all(taken)
            return {}
        return taken

    def _try_slot(self, name: str) -> int | None:
        descriptor = open_lock_file(self.folder / "slots" / name, self._file_mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def busy(self) -> int:
        """How many slots are held now."""
        if not self.queue.is_dir():
            return 0
        with self.usable(), self.locked():
            return sum(1 for name in self.names if is_held(self.folder / "slots" / name))


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
        self._touched = time.monotonic()

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

    def take(self, count: int, *, on_stale: Callable[[str], None]) -> int | None:
        """Take `count` slots if it is this ticket's turn: None, or the place in the queue from 1.

        `on_stale` is called with the id of a run that held one of the slots and did not give it back by itself.

        Raises:
            BackendError: the pool's folder cannot be used.
        """
        if self._slots:
            return None
        with self._pool.usable():
            now, changed = time.monotonic(), self._queue_changed()
            if self._seen is not None and self._seen[0] == changed and now - self._seen[1] < FULL_LOOK_EVERY_S:
                return self._position
            with self._pool.locked():
                self._move(Stage.WAITING)
                self._position = self._pool.waiting().index(self._name) + 1
                if self._position == 1:
                    self._slots = self._pool.grab(count)
                if self._slots:
                    self._move(Stage.HOLDING)
            self._seen = (changed, now)
            if not self._slots:
                self.touch()
                return self._position
            for descriptor in self._slots.values():
                self._claim(descriptor, on_stale)
            return None

    def _queue_changed(self) -> int:
        try:
            return self._pool.queue.stat().st_mtime_ns
        except FileNotFoundError:
            self._pool.make_folders()
            return 0

    def _move(self, stage: Stage) -> None:
        """Change the stage; a ticket whose file somebody removed is written anew. Call it under the pool's lock."""
        before, self._stage = self._path, stage
        if leads_to(before, self._descriptor):
            before.rename(self._path)
            return
        descriptor = self._pool.enter(self._name, stage)
        os.close(self._descriptor)
        self._descriptor = descriptor

    def _claim(self, descriptor: int, on_stale: Callable[[str], None]) -> None:
        run_id = self._name.rsplit("-", 1)[1]
        before = os.pread(descriptor, _LONGEST_CONTENT, 0).decode(errors="replace")
        # In a shared pool anybody can write a name there: a run that is alive is never taken for a dead one.
        if is_id(before) and before != run_id and not self._pool.lives(before):
            on_stale(before)
        with contextlib.suppress(OSError):  # a full disk: the next look at a dead run ends what it left, too
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, run_id.encode(), 0)

    def touch(self) -> None:
        """Show that what is held is in use; call it now and then."""
        now = time.monotonic()
        if now - self._touched < TOUCH_EVERY_S:
            return
        self._touched = now
        for descriptor in (self._descriptor, *self._slots.values()):
            with contextlib.suppress(OSError):
                os.utime(descriptor)

    def give_back(self) -> None:
        """Free the slots; the place in the queue is kept for another attempt."""
        for descriptor in self._slots.values():
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)
        self._slots = {}
        self._seen = None
        if self._stage is not Stage.PREPARING:
            # The new name wakes those who wait; if it cannot be written, they look again by themselves.
            with contextlib.suppress(OSError, BackendError):
                self._move(Stage.PREPARING)

    def leave(self) -> None:
        """Give back everything and leave the queue."""
        self.give_back()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def forget(self) -> None:
        """Close this process's copy of the ticket; the process that inherited it keeps the place."""
        os.close(self._descriptor)


def _close_all(taken: dict[str, int]) -> None:
    for descriptor in taken.values():
        os.close(descriptor)

"""The environments that are there: what each is, who uses it, and removing those that nobody does.

    environments/<key>/                 an environment; appears whole, by a rename
    environments/<key>/environment.json what it is; its modification time is when it was last used
    environments/.building-<key>-*/     a build under way, or what a killed one left
    environments/.locks/<key>.build     held alone by whoever builds
    environments/.locks/<key>.use       held, shared, for as long as a run needs the environment

Lock files are never removed: another process may be waiting on the very file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from airlane.errors import ConflictError, EnvironmentBuildError, NotFoundError
from airlane.frozen import frozen
from airlane.store.paths import Home

_RECORD = "environment.json"
_BUILDING = ".building-"
_DAY_S = 86400.0
# Between finding an environment cached and holding it, a run may need some seconds: it is not pruned meanwhile.
_FRESH_S = 600.0
_LOCK_POLL_S = 0.1
# File systems without locks say so in one of these ways.
_NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK})


@frozen
class EnvironmentInfo:
    """An environment that was built. Times are seconds since the epoch; `dependencies` carry no credentials.

    `size_bytes` is what it took when it was built; most of it is shared with uv's cache where that lies on the same
    file system. `moved` are the direct packages of the base that the dependencies moved from their pins.
    """

    key: str
    base: str
    dependencies: tuple[str, ...]
    python_version: str
    platform: str
    packages: int
    size_bytes: int
    created_at: float
    last_used_at: float
    build_s: float
    moved: tuple[str, ...]
    folder: Path


def list_environments(home: Home) -> tuple[EnvironmentInfo, ...]:
    """Every environment that is there, the last used first."""
    found = [_read(folder) for folder in _children(home) if not folder.name.startswith(".")]
    return tuple(sorted((info for info in found if info), key=lambda info: info.last_used_at, reverse=True))


def show(home: Home, key_prefix: str) -> EnvironmentInfo:
    """The environment whose key begins so.

    Raises NotFoundError for none, ConflictError for more than one.
    """
    found = [info for info in list_environments(home) if key_prefix and info.key.startswith(key_prefix)]
    if not found:
        raise NotFoundError(f"There is no environment {key_prefix!r} in {home.environments}.", hint="air env list")
    if len(found) > 1:
        keys = ", ".join(info.key for info in found)
        raise ConflictError(f"{key_prefix!r} begins more than one key: {keys}.", hint="Type more of the key.")
    return found[0]


@contextlib.contextmanager
def hold(home: Home, key: str | None) -> Iterator[None]:
    """Keep an environment from being pruned, here or on another machine, until the block ends or this process dies."""
    if key is None:
        yield
        return
    import fcntl

    with _locked(_lock_file(home, key, "use"), fcntl.LOCK_SH, waiting=lambda: None):
        yield


def prune(
    home: Home, *, older_than_days: float | None = None, keep: Collection[str] = (), dry_run: bool = False
) -> tuple[EnvironmentInfo, ...]:
    """Remove environments that nobody uses, and what killed builds left; returns what went (or would go).

    Stays: an environment that is held, that was used in the last `older_than_days` (ten minutes if not given), or
    whose key is in `keep`.
    """
    limit_s = _FRESH_S if older_than_days is None else older_than_days * _DAY_S
    now = time.time()
    removed = []
    for info in list_environments(home):
        if info.key in keep or now - info.last_used_at < limit_s:
            continue
        with _free(home, info.key) as free:
            if not free:
                continue
            if not dry_run:
                discard(info.folder)
            removed.append(info)
    if not dry_run:
        _remove_leftovers(home)
    return tuple(removed)


@contextlib.contextmanager
def build_lock(home: Home, key: str, waiting: Callable[[], None]) -> Iterator[tuple[int, bool]]:
    """Hold the right to build `key`; `waiting` is called again and again while another process has it.

    Gives the descriptor to hand to uv, so that the lock lives as long as an orphaned uv still writes, and whether the
    file system really locks.
    """
    import fcntl

    with _locked(_lock_file(home, key, "build"), fcntl.LOCK_EX, waiting=waiting) as lock:
        yield lock


def new_building_folder(home: Home, key: str) -> Path:
    """An empty, private folder beside the environment that is to be."""
    folder = home.environments / f"{_BUILDING}{key}-{os.getpid()}-{os.urandom(4).hex()}"
    folder.mkdir(mode=0o700)
    return folder


def remove_unfinished(home: Home, key: str) -> None:
    """Remove what killed builds of `key` left; only for the holder of its build lock."""
    for folder in home.environments.glob(f"{_BUILDING}{key}-*"):
        discard(folder)


def discard(folder: Path) -> None:
    """Remove a folder; what cannot be removed now stays under a name that is never taken for an environment."""
    aside = folder
    if not folder.name.startswith("."):
        aside = folder.with_name(f"{_BUILDING}{folder.name}-{os.getpid()}-{os.urandom(4).hex()}")
        try:
            folder.rename(aside)
        except FileNotFoundError:
            return
    import shutil

    shutil.rmtree(aside, ignore_errors=True)


def write_record(folder: Path, info: EnvironmentInfo) -> None:
    """Write environment.json, on the disk before the folder gets its name."""
    import json

    fields = {name: value for name, value in asdict(info).items() if name not in {"folder", "last_used_at"}}
    with (folder / _RECORD).open("w", encoding="utf-8") as file:
        json.dump(fields, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def touch(folder: Path) -> None:
    """Mark an environment as used now."""
    with contextlib.suppress(OSError):  # an environment on a read-only file system is used all the same
        os.utime(folder / _RECORD)


def no_space_error(detail: str) -> EnvironmentBuildError:
    """The error for a full disk, wherever it showed."""
    return EnvironmentBuildError(
        f"There is no space left to build the environment.\n{detail}",
        hint="air env prune removes environments that are no longer used; uv cache prune empties uv's cache.",
    )


def stopped_error() -> EnvironmentBuildError:
    """The error of a build that was cancelled."""
    return EnvironmentBuildError("The build of the environment was stopped.")


def tree_size_bytes(folder: Path) -> int:
    """What the files below a folder take, symbolic links not followed."""
    total, pending = 0, [os.fspath(folder)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    return total


def _children(home: Home) -> list[Path]:
    try:
        return sorted(home.environments.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read(folder: Path) -> EnvironmentInfo | None:
    """What a folder holds; None for one that is no environment of ours."""
    import json

    record = folder / _RECORD
    try:
        fields: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        fields |= {name: tuple(fields[name]) for name in ("dependencies", "moved")}
        return EnvironmentInfo(**fields, folder=folder, last_used_at=record.stat().st_mtime)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _lock_file(home: Home, key: str, purpose: str) -> Path:
    folder = home.environments / ".locks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{key}.{purpose}"


@contextlib.contextmanager
def _locked(path: Path, mode: int, *, waiting: Callable[[], None]) -> Iterator[tuple[int, bool]]:
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        locks = True
        while True:
            try:
                fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                time.sleep(_LOCK_POLL_S)
                continue
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                locks = False
            break
        yield descriptor, locks
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _free(home: Home, key: str) -> Iterator[bool]:
    """Whether nobody builds or uses an environment; while the block lasts, nobody starts to."""
    import fcntl

    with contextlib.ExitStack() as stack:
        for purpose in ("use", "build"):
            descriptor = os.open(_lock_file(home, key, purpose), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
        yield True


def _remove_leftovers(home: Home) -> None:
    for folder in _children(home):
        if not folder.name.startswith(_BUILDING):
            continue
        with _free(home, folder.name.removeprefix(_BUILDING).split("-")[0]) as free:
            if free:
                discard(folder)

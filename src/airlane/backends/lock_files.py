"""Files that exist to be flock-ed, perhaps side by side with other users who are not to be trusted.

A link planted in a shared folder would make us write into, or open up, a file of the user's own: no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

from airlane.errors import BackendError
from airlane.store.locks import taken_by_another


def make_lock_folder(folder: Path, mode: int) -> None:
    """Create a folder with exactly this mode; one that exists is left as it is.

    Raises:
        BackendError: a link or a file stands in its place.
        OSError: it cannot be made.
    """
    try:
        folder.mkdir(mode=mode & 0o700)
    except FileExistsError:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise _in_the_way(folder, "a folder") from None
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, mode)  # whatever the umask was, and whoever renamed the folder meanwhile
    finally:
        os.close(descriptor)


def open_lock_file(path: Path, mode: int) -> int:
    """A descriptor of the file, which is created with exactly this mode where there is none.

    Raises:
        BackendError: something other than a plain file of one name stands in its place.
        OSError: it cannot be opened.
    """
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            # Exclusively: some kernels refuse to open another user's file in a sticky folder with O_CREAT alone.
            with contextlib.suppress(FileExistsError):
                return _create(path, mode)
            continue
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR):
                raise _in_the_way(path, "a file") from error
            raise
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            return descriptor
        os.close(descriptor)
        if found.st_nlink:  # with none it was removed just now: look again
            raise _in_the_way(path, "a file")


def lock_current(path: Path, mode: int) -> int:
    """A descriptor that holds the lock of the file which the path names now, not of one that was removed meanwhile."""
    while True:
        descriptor = open_lock_file(path, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if leads_to(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def leads_to(path: Path, descriptor: int) -> bool:
    """Whether the path still leads to the open file."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def is_held(path: Path) -> bool:
    """Whether some process holds the file's lock; False where there is no file that this user may open.

    The look takes a shared lock for a moment, which must not meet one who tries for the lock without waiting.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EACCES, errno.ELOOP, errno.ENXIO):
            return False
        raise
    try:
        return taken_by_another(descriptor)
    finally:
        os.close(descriptor)


def _create(path: Path, mode: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        os.fchmod(descriptor, mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _in_the_way(path: Path, wanted: str) -> BackendError:
    return BackendError(
        f"{path} is not {wanted} of Airlane's: a link or something else is in its place", hint=f"ls -ld {path}"
    )

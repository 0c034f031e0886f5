"""The files of a working tree that belong to a snapshot, found by one walk that never enters what stays out."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from airlane.snapshot.include import lineage, missing, parents
from airlane.snapshot.left_out import GIT, KEY_HEAD_BYTES, VENV_MARK, left_out_by_name, may_hold_secrets
from airlane.snapshot.model import Kind

_IGNORE_FILE = b".gitignore"
_SPECIAL = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}


class Found(NamedTuple):
    """One path as the walk saw it; a tuple because there are as many as the user has files."""

    path: bytes
    kind: Kind
    mode: int
    size_bytes: int
    mtime_ns: int
    inode: int
    ctime_ns: int
    target: bytes = b""


class Rules(NamedTuple):
    """What applies below a place that include_paths names: what is named although left out comes with all it holds."""

    ignore_files: bool = True
    defaults: bool = True


@dataclass(slots=True)
class Walk:
    """One walk of `root`, and what it found.

    `ignored` is what Git ignores, a folder once for all that it holds; `ask_nested` gives the same for a folder that
    has a `.git` of its own. `refused` maps a path to why it cannot be part of a snapshot, `special` the
    same for pipes, sockets and devices that ignore files may yet excuse; `withheld` may hold secrets.
    """

    root: bytes
    ignored: set[bytes]
    ask_nested: Callable[[bytes], frozenset[bytes]]
    found: dict[bytes, Found] = field(default_factory=dict)
    refused: dict[bytes, str] = field(default_factory=dict)
    special: dict[bytes, str] = field(default_factory=dict)
    withheld: list[bytes] = field(default_factory=list)
    saw_ignore_files: bool = False

    def everything(self) -> None:
        """Walk the whole root."""
        self._start(b"")

    def only(self, include: Sequence[bytes]) -> None:
        """Walk the paths named, and note the folders above them.

        Raises:
            SnapshotError: one does not exist.
        """
        absent = [path for path in include if not os.path.lexists(self._absolute(path))]
        if absent:
            raise missing(absent, os.fsdecode(self.root))
        for path in include:
            if self._reach(path):
                self._start(path)

    def _reach(self, path: bytes) -> bool:
        """Note the folders above a path; False if one of them is a link."""
        for parent in parents(path):
            seen = self._look(parent)
            if seen.kind is Kind.LINK:
                self.refused[path] = "lies behind a symbolic link: name the folder that the link points to"
                return False
            self.found[parent] = seen
            if os.path.lexists(self._absolute(parent) + b"/" + GIT):
                self._learn_nested(parent)
        return True

    def _start(self, path: bytes) -> None:
        line = lineage(path)
        rules = Rules(
            ignore_files=not any(step in self.ignored for step in line),
            defaults=not any(self._left_out(step) for step in line),
        )
        info = os.lstat(self._absolute(path))
        if stat.S_ISDIR(info.st_mode):
            self._below([_found(path, Kind.FOLDER, info)], rules)
        else:
            self._add_leaf(path, info, self.refused)

    def _left_out(self, path: bytes) -> bool:
        name = path.rpartition(b"/")[2]
        return left_out_by_name(name) or os.path.lexists(self._absolute(path) + b"/" + VENV_MARK)

    def _below(self, folders: list[Found], rules: Rules) -> None:
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(self._absolute(folder.path)) as scan:
                    children = list(scan)
            except (FileNotFoundError, NotADirectoryError):
                continue  # removed since its parent was read
            except OSError as error:
                self.refused[folder.path] = unreadable(error)
                continue
            names = {child.name for child in children}
            if folder.path and rules.defaults and VENV_MARK in names:
                continue
            self._enter(folder, names)
            prefix = folder.path + b"/" if folder.path else b""
            for child in children:
                self._visit(prefix + child.name, child, rules, folders)

    def _enter(self, folder: Found, names: set[bytes]) -> None:
        if folder.path:
            self.found[folder.path] = folder
            if GIT in names:
                self._learn_nested(folder.path)
        self.saw_ignore_files = self.saw_ignore_files or _IGNORE_FILE in names

    def _visit(self, path: bytes, child: os.DirEntry[bytes], rules: Rules, folders: list[Found]) -> None:
        name = child.name
        if name == GIT or (rules.ignore_files and path in self.ignored):
            return
        if rules.defaults and left_out_by_name(name):
            return
        try:
            info = child.stat(follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                folders.append(_found(path, Kind.FOLDER, info))
            elif rules.defaults and may_hold_secrets(name, lambda: self._head(path)):
                self.withheld.append(path)
            else:
                self._add_leaf(path, info, self.special if rules.ignore_files else self.refused)
        except FileNotFoundError:
            return  # removed since its folder was read
        except OSError as error:
            self.refused[path] = unreadable(error)

    def _add_leaf(self, path: bytes, info: os.stat_result, special: dict[bytes, str]) -> None:
        if stat.S_ISREG(info.st_mode):
            self.found[path] = _found(path, Kind.FILE, info)
        elif stat.S_ISLNK(info.st_mode):
            target = os.readlink(self._absolute(path))  # noqa: PTH115 - Path.readlink would tidy the target up
            self.found[path] = _found(path, Kind.LINK, info)._replace(mode=0o777, size_bytes=0, target=target)
        else:
            special[path] = f"is {_SPECIAL.get(stat.S_IFMT(info.st_mode), 'a special file')}"

    def _learn_nested(self, folder: bytes) -> None:
        prefix = folder + b"/"
        self.ignored.update(prefix + path for path in self.ask_nested(folder))

    def _look(self, path: bytes) -> Found:
        info = os.lstat(self._absolute(path))
        return _found(path, Kind.LINK if stat.S_ISLNK(info.st_mode) else Kind.FOLDER, info)

    def _head(self, path: bytes) -> bytes:
        """The beginning of a regular file; nothing of anything else, or of what cannot be read."""
        try:
            descriptor = os.open(self._absolute(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return b""
        try:
            return os.read(descriptor, KEY_HEAD_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
        finally:
            os.close(descriptor)

    def _absolute(self, path: bytes) -> bytes:
        return self.root + b"/" + path if path else self.root


def unreadable(error: OSError) -> str:
    """Why a path is refused that could not be looked at."""
    return f"cannot be read: {error.strerror}"


def _found(path: bytes, kind: Kind, info: os.stat_result) -> Found:
    return Found(path, kind, info.st_mode & 0o777, info.st_size, info.st_mtime_ns, info.st_ino, info.st_ctime_ns)

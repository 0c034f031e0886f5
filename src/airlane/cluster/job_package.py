"""The files that a Ray job brings along: found in a folder, packed as Ray unpacks them, named by their content.

Ray's own name for a folder is made before the folder is packed, of files that need not be those that are packed. With
some exclusions it is the same whatever they hold, and a cluster that has a package of that name runs old code. Here the
name is the digest of the package itself.

Source: Ray 2.60, ray/_private/runtime_env/packaging.py. It sets the permissions of files, makes no links (what a link
leads to is packed in its place), and leaves out names with a backslash.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from airlane.cluster.ignore_rules import ALWAYS, IGNORE_FILES, Rules, left_out, parse, read_rules, rules_above
from airlane.cluster.jobs import MOST_PACKAGE_BYTES
from airlane.errors import SnapshotError
from airlane.frozen import frozen

Progress = Callable[[int, int], None]
_BLOCK_BYTES = 1 << 20
_LEVEL = 1  # code is small, and what is large is mostly compressed: little is gained by more
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same content makes the same package, whenever its files were written
_EMPTY_FOLDER_MODE = 0o755
_LARGEST_SHOWN = 5
_MOSTLY = 0.8


@frozen
class PackedFile:
    """A file in a package: its name there, and where it is read."""

    name: str
    source: str
    mode: int
    size_bytes: int


@frozen
class Content:
    """What of a folder is packed. `skipped` says what was meant to be, and why it cannot."""

    root: Path
    files: tuple[PackedFile, ...]
    empty_folders: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


@frozen
class JobPackage:
    """A package in a file, and the name that the cluster is to know it by."""

    uri: str
    path: Path
    files: int
    size_bytes: int
    skipped: tuple[str, ...] = ()

    @property
    def packed_bytes(self) -> int:
        return self.path.stat().st_size


def find_content(
    folder: Path, *, excludes: Sequence[str] = (), always: Sequence[str] = ALWAYS, git: bool = True
) -> Content:
    """What of a folder is packed: everything but what ignore files, `excludes` and `always` leave out.

    With `git` False, .gitignore files do not count.

    Raises:
        SnapshotError: something cannot be read, or cannot be packed.
    """
    root = Path(os.path.abspath(folder))  # noqa: PTH100 - links in the path stay, as the user wrote it
    names = IGNORE_FILES if git else IGNORE_FILES[1:]
    walk = _Walk(str(root), names, (Rules(parse([*always, *excludes])),))
    try:
        walk.folder("", tuple(rules_above(root, name) for name in names), frozenset())
    except OSError as error:
        raise SnapshotError(f"{_place(error, root)} cannot be read: {error.strerror or error}") from error
    return Content(root, tuple(walk.files), tuple(walk.empty_folders), tuple(walk.skipped))


def pack(content: Content, into: Path, *, top: str = "", progress: Progress | None = None) -> JobPackage:
    """Write a package into a file. `top` is a folder to put everything in; `progress` is told bytes of the content.

    Raises:
        SnapshotError: it becomes larger than a cluster's dashboard takes, or a file is gone.
    """
    prefix = f"{top}/" if top else ""
    try:
        with into.open("wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
            for name in content.empty_folders:
                archive.writestr(_entry(f"{prefix}{name}/", stat.S_IFDIR | _EMPTY_FOLDER_MODE), b"")
            done_bytes = 0
            for packed in content.files:
                for size_bytes in _copy(packed, prefix, archive):
                    done_bytes += size_bytes
                    if progress is not None:
                        progress(done_bytes, content.size_bytes)
                    if file.tell() >= MOST_PACKAGE_BYTES:
                        raise too_large(content)
    except OSError as error:
        raise SnapshotError(f"{_place(error, into)} cannot be packed: {error.strerror or error}") from error
    if into.stat().st_size >= MOST_PACKAGE_BYTES:
        raise too_large(content)
    return JobPackage(uri_of(into, ".zip"), into, len(content.files), content.size_bytes, content.skipped)


def uri_of(file: Path, suffix: str) -> str:
    """The name that a cluster is to know a package by. Raises OSError."""
    with file.open("rb") as opened:
        return f"gcs://_ray_pkg_{hashlib.file_digest(opened, 'sha256').hexdigest()}{suffix}"


def too_large(content: Content) -> SnapshotError:
    """Why a folder cannot be sent, and what in it is large."""
    lines = [f"  {_megabytes(size_bytes):>12}  {name}" for name, size_bytes in largest(content.files)]
    return SnapshotError(
        f"{content.root} is too large for the cluster's dashboard: it takes {_megabytes(MOST_PACKAGE_BYTES)} at most, "
        f"and this is {_megabytes(content.size_bytes)} before, and more than that after compression. The largest:\n"
        + "\n".join(lines),
        hint="name what the job does not need in .rayignore, or put a package where the nodes can read it: "
        "--working-dir s3://BUCKET/CODE.zip",
    )


def largest(files: Iterable[PackedFile]) -> list[tuple[str, int]]:
    """The heaviest entries of a folder, each narrowed down to the folder or file that has most of its weight."""
    weights: dict[str, int] = {}
    inside: dict[str, set[str]] = {}
    for file in files:
        steps = file.name.split("/")
        for depth in range(len(steps)):
            path = "/".join(steps[: depth + 1])
            weights[path] = weights.get(path, 0) + file.size_bytes
            inside.setdefault("/".join(steps[:depth]), set()).add(path)

    def heaviest(folder: str) -> list[str]:
        return sorted(inside.get(folder, ()), key=lambda path: (-weights[path], path))

    def narrowed(path: str) -> str:
        first = next(iter(heaviest(path)), None)
        return narrowed(first) if first and weights[first] >= _MOSTLY * weights[path] else path

    found = [narrowed(path) for path in heaviest("")[:_LARGEST_SHOWN]]
    return [(f"{path}/" if path in inside else path, weights[path]) for path in found]


@dataclass
class _Walk:
    """One walk of a folder. `names` are those of ignore files; a chain of rules goes with each."""

    root: str
    names: Sequence[str]
    excludes: tuple[Rules, ...]
    files: list[PackedFile] = field(default_factory=list)
    empty_folders: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def folder(self, name: str, chains: tuple[tuple[Rules, ...], ...], above: frozenset[tuple[int, int]]) -> None:
        """`name` is "", or ends in "/"; `above` are the folders that lead here. Raises OSError."""
        place = f"{self.root}/{name}"
        info = Path(place).stat()
        here = (info.st_dev, info.st_ino)
        if here in above:
            self.skipped.append(f"{name} leads back to a folder above it")
            return
        chains = tuple(
            chain + read_rules(Path(place + file), prefix=name) for chain, file in zip(chains, self.names, strict=True)
        )
        with os.scandir(place) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        if not entries and name:
            self.empty_folders.append(name.removesuffix("/"))
        for entry in entries:
            self._entry(name + entry.name, entry, chains, above | {here})

    def _entry(
        self,
        path: str,
        entry: os.DirEntry[str],
        chains: tuple[tuple[Rules, ...], ...],
        above: frozenset[tuple[int, int]],
    ) -> None:
        try:
            mode, size_bytes = entry.stat().st_mode, entry.stat().st_size
        except OSError:
            mode, size_bytes = 0, 0
        is_folder = stat.S_ISDIR(mode)
        if any(left_out(chain, path, folder=is_folder) for chain in (self.excludes, *chains)):
            return
        if not mode:
            self.skipped.append(f"{path} is a link that leads nowhere")
        elif "\\" in entry.name or not _is_text(entry.name):
            self.skipped.append(f"{path!r} has a name that Ray leaves out")
        elif is_folder:
            self.folder(f"{path}/", chains, above)
        elif stat.S_ISREG(mode):
            self.files.append(PackedFile(path, entry.path, mode & 0o777, size_bytes))
        else:
            self.skipped.append(f"{path} is no file")


def _copy(packed: PackedFile, prefix: str, archive: zipfile.ZipFile) -> Iterable[int]:
    """Pack one file; the sizes of its pieces. Raises OSError."""
    entry = _entry(prefix + packed.name, stat.S_IFREG | packed.mode)
    with open(packed.source, "rb") as source, archive.open(entry, "w", force_zip64=True) as target:  # noqa: PTH123
        while block := source.read(_BLOCK_BYTES):
            target.write(block)
            yield len(block)


def _entry(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry._compresslevel = _LEVEL  # type: ignore[attr-defined] # noqa: SLF001
    entry.create_system = 3  # Unix, so that permissions count, whatever system packs
    entry.external_attr = mode << 16
    return entry


def _place(error: OSError, otherwise: Path) -> str:
    return str(error.filename or otherwise).rstrip("/")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"

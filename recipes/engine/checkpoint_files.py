"""A folder of checkpoints, in which every checkpoint is whole: whatever is not yet, or no longer, has another name.

step-00000120/checkpoint.json       the step, what else the training keeps, and the size and CRC-32 of each file
step-00000120/state.safetensors     parameters and optimizer, or
step-00000120/shards/               the same in pieces, of a model that is spread over the workers
"""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MANIFEST = "checkpoint.json"
STATE = "state.safetensors"
SHARDS = "shards"
PREFIX = "step-"
WRITING = ".writing-"
DELETING = ".deleting-"
DAMAGED = "damaged-"
STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO}
READ_BYTES = 1 << 24


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint says of itself; `files` gives the bytes of each file, `checksums` its CRC-32."""

    step: int
    extra: dict[str, Any]
    eval_loss: float | None
    files: dict[str, int]
    checksums: dict[str, int]

    @property
    def bytes(self) -> int:
        return sum(self.files.values())


class DamagedError(Exception):
    """A checkpoint is not what was written; says which file and how."""


class Folder:
    """The checkpoints of one training; one process at a time writes here, any number read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, the oldest first."""
        names = [entry.name for entry in self.path.iterdir()] if self.path.is_dir() else []
        steps = (name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))
        return sorted(int(step) for step in steps if step.isdecimal())

    def of(self, step: int) -> Path:
        return self.path / f"{PREFIX}{step:08d}"

    def unfinished(self, step: int) -> Path:
        """Where a checkpoint is written, under a name that nobody reads."""
        return self.path / f"{WRITING}{self.of(step).name}"

    def begin(self, step: int) -> Path:
        """An empty folder to write a checkpoint into."""
        folder = self.unfinished(step)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def complete(
        self,
        step: int,
        *,
        extra: Mapping[str, Any],
        eval_loss: float | None,
        checksums: Mapping[str, int],
    ) -> Manifest:
        """Make what was written since `begin` a checkpoint, all at once, and safe from a power cut."""
        folder = self.unfinished(step)
        files = {str(file.relative_to(folder)): file.stat().st_size for file in folder.rglob("*") if file.is_file()}
        manifest = Manifest(step, dict(extra), eval_loss, files, dict(checksums))
        with (folder / MANIFEST).open("w", encoding="utf-8") as file:
            json.dump(asdict(manifest), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        for inner in [*(one for one in folder.rglob("*") if one.is_dir()), folder]:
            sync_folder(inner)
        self.discard(step)  # an older one of the same step
        folder.rename(self.of(step))
        sync_folder(self.path)
        return manifest

    def abandon(self, step: int) -> None:
        """Forget what was written since `begin`."""
        shutil.rmtree(self.unfinished(step), ignore_errors=True)

    def manifest(self, step: int) -> Manifest:
        """What the checkpoint says of itself, its files having the sizes that they were written with.

        Raises:
            DamagedError: a file is missing, or has another size.
        """
        folder = self.of(step)
        try:
            manifest = Manifest(**json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
            for name, size in manifest.files.items():
                if (found := (folder / name).stat().st_size) != size:
                    raise DamagedError(f"{folder / name} has {found:,} bytes; {size:,} were written")
        except (OSError, ValueError, TypeError) as error:
            raise DamagedError(f"{folder}: {error}") from error
        return manifest

    def check_contents(self, manifest: Manifest, reader: int = 0, readers: int = 1) -> None:
        """Read every file that has a checksum, or, of several readers, this one's share of them.

        Raises:
            DamagedError: one holds something else than was written.
        """
        for name in sorted(manifest.checksums)[reader::readers]:
            file = self.of(manifest.step) / name
            try:
                found = checksum_of(file)
            except OSError as error:
                raise DamagedError(f"{file}: {error}") from error
            if found != manifest.checksums[name]:
                raise DamagedError(f"{file} does not hold what was written to it")

    def set_aside(self, step: int) -> None:
        """Give a damaged checkpoint a name that no training looks for."""
        target = self.path / f"{DAMAGED}{self.of(step).name}"
        shutil.rmtree(target, ignore_errors=True)
        self.of(step).rename(target)

    def best(self) -> int | None:
        """The step of the lowest evaluation loss among those that were evaluated."""
        losses = {step: loss for step in self.steps() if (loss := self._eval_loss(step)) is not None}
        return min(losses, key=lambda step: losses[step]) if losses else None

    def _eval_loss(self, step: int) -> float | None:
        try:
            loss = self.manifest(step).eval_loss
        except DamagedError:
            return None
        return math.inf if loss is not None and math.isnan(loss) else loss  # no number is the worst

    def retain(self, newest: int, *, best: bool) -> None:
        """Delete all but the newest and, where asked, the best."""
        steps = self.steps()
        kept = {*steps[-newest:], *([self.best()] if best else [])}
        for step in steps:
            if step not in kept:
                self.discard(step)

    def clear_remains(self) -> None:
        """Delete what writes and deletions that were killed have left."""
        for entry in list(self.path.iterdir()) if self.path.is_dir() else []:
            if entry.name.startswith((WRITING, DELETING)):
                shutil.rmtree(entry, ignore_errors=True)

    def discard(self, step: int) -> None:
        """Delete a checkpoint: all of it at once for whoever looks."""
        target = self.path / f"{DELETING}{self.of(step).name}"
        shutil.rmtree(target, ignore_errors=True)
        try:
            self.of(step).rename(target)
        except FileNotFoundError:
            return
        shutil.rmtree(target, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def checksum_of(file: Path) -> int:
    checksum = 0
    with file.open("rb") as stream:
        while block := stream.read(READ_BYTES):
            checksum = zlib.crc32(block, checksum)
    return checksum


def storage_error(errors: Iterable[BaseException]) -> OSError | None:
    """The first of these that says that the storage is full or broken."""
    found = (one for one in errors if isinstance(one, OSError) and one.errno in STORAGE_ERRORS)
    return next(found, None)

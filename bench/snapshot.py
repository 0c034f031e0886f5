"""Freezing 20,000 small files and 100 MB of noise, the first time and when nothing changed, beside plain `tar`."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from timing import Row, interleaved

from airlane.snapshot import CodeRequest, pack, plan

FOLDERS = 200
FILES_PER_FOLDER = 100
NOISE_BYTES = 100_000_000
REPETITIONS = 3


def rows(folder: Path) -> Iterator[Row]:
    root = folder / "code"
    _grow(root)
    time.sleep(0.2)  # files younger than a tick of the clock are never taken from the cache
    kept = folder / "kept"
    _freeze(root, kept)

    def first_time() -> float:
        shutil.rmtree(folder / "new", ignore_errors=True)
        return _timed(lambda: _freeze(root, folder / "new"))

    def tar() -> float:
        archive = folder / "code.tar"
        archive.unlink(missing_ok=True)
        return _timed(lambda: subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True))

    medians = interleaved(
        REPETITIONS, {"first": first_time, "again": lambda: _timed(lambda: _freeze(root, kept)), "tar": tar}
    )
    files = f"snapshot of {FOLDERS * FILES_PER_FOLDER:,} files"
    yield Row(f"{files}, first time", medians["first"], "tar -cf", medians["tar"], most_s=2.0)
    yield Row(f"{files}, unchanged", medians["again"], "tar -cf", medians["tar"], most_s=0.5)


def _freeze(root: Path, home: Path) -> None:
    home.mkdir(exist_ok=True)
    frozen = plan(CodeRequest(root), cache_dir=home / "digests")
    archive = home / f"{frozen.digest}.tar.zst"
    if not archive.exists():
        pack(frozen, archive)


def _grow(root: Path) -> None:
    source = random.Random(7)
    for folder in range(FOLDERS):
        place = root / f"package_{folder // 20}" / f"module_{folder}"
        place.mkdir(parents=True)
        for file in range(FILES_PER_FOLDER):
            (place / f"file_{file}.py").write_bytes(b"# %d\n" % source.randrange(10**9) * source.randrange(5, 200))
    _git(root, "init", "-q")
    _git(root, "add", ".")
    _git(root, "-c", "user.name=bench", "-c", "user.email=bench@example.org", "commit", "-qm", "all")
    (root / "noise.bin").write_bytes(os.urandom(NOISE_BYTES))


def _git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True)


def _timed(action: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    action()
    return time.perf_counter() - began_s

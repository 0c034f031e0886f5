"""How long freezing 20,000 small files and 100 MB of noise takes: the first time, and when nothing changed."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from airlane.snapshot import CodeRequest, SnapshotPlan, pack, plan, unpack

FOLDERS = 200
FILES_PER_FOLDER = 100
NOISE_BYTES = 100_000_000
T = TypeVar("T")


def measure() -> list[tuple[str, float]]:
    """Names and seconds, for one tree in a new temporary folder."""
    with tempfile.TemporaryDirectory(prefix="air-bench-") as name:
        root = Path(name) / "code"
        _grow(root)
        home = Path(name) / "home"
        request = CodeRequest(root)
        time.sleep(0.2)  # files younger than a tick of the clock are never taken from the cache
        frozen, first_plan_s = _timed(lambda: plan(request, cache_dir=home / "digests"))
        archive = home / f"{frozen.digest}.tar.zst"
        _, pack_s = _timed(lambda: pack(frozen, archive))
        again_s = min(_again(request, home, archive) for _ in range(3))
        _, unpack_s = _timed(lambda: unpack(archive, home / "out"))
        _, pinned_s = _timed(lambda: plan(CodeRequest(root, commit="HEAD")))
    return [
        ("snapshot, first time", first_plan_s + pack_s),
        ("snapshot, plan alone", first_plan_s),
        ("snapshot, nothing changed", again_s),
        ("snapshot, unpack", unpack_s),
        ("snapshot, plan of a commit", pinned_s),
    ]


def _again(request: CodeRequest, home: Path, archive: Path) -> float:
    def freeze() -> SnapshotPlan:
        frozen = plan(request, cache_dir=home / "digests")
        pack(frozen, archive)
        return frozen

    return _timed(freeze)[1]


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


def _timed(action: Callable[[], T]) -> tuple[T, float]:
    began_s = time.perf_counter()
    done = action()
    return done, time.perf_counter() - began_s


if __name__ == "__main__":
    for label, seconds in measure():
        print(f"{label:30} {seconds:6.2f} s")

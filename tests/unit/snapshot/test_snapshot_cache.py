"""The cache that makes planning unchanged code fast never makes it wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.errors import SnapshotError
from airlane.snapshot import CodeRequest, SnapshotPlan, hashing, plan
from airlane.snapshot.model import Kind
from airlane.snapshot.stat_cache import memory, remembered
from airlane.snapshot.walk import Found

Write = Callable[[Path, dict[str, str | bytes]], None]
LATER_NS = 3_000_000_000


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The paths that were read to be hashed, in a world whose clock runs 3 s ahead of the files."""
    seen: list[bytes] = []
    real_hash_file = hashing._hash_file

    def watched(root: bytes, file: Found) -> hashing.Content | None:
        seen.append(file.path)
        return real_hash_file(root, file)

    real_time_ns = time.time_ns
    monkeypatch.setattr(hashing, "_hash_file", watched)
    monkeypatch.setattr(time, "time_ns", lambda: real_time_ns() + LATER_NS)
    return seen


@pytest.fixture
def cached(project: Path, write: Write, tmp_path: Path) -> Callable[..., SnapshotPlan]:
    """Plan a project of two files with a cache."""
    write(project, {"a.py": "one", "sub/b\nb.py": "two"})
    return lambda *include: plan(CodeRequest(project, include), cache_dir=tmp_path / "cache")


def test_nothing_is_read_again_when_nothing_changed(cached: Callable[..., SnapshotPlan], reads: list[bytes]) -> None:
    first = cached()
    assert sorted(reads) == [b"a.py", b"sub/b\nb.py"]
    reads.clear()
    assert cached() == first
    assert reads == []


def test_only_what_changed_is_read_again(
    project: Path, write: Write, cached: Callable[..., SnapshotPlan], reads: list[bytes]
) -> None:
    first = cached()
    reads.clear()
    write(project, {"a.py": "ONE"})
    assert cached().digest != first.digest
    assert reads == [b"a.py"]


def test_change_that_hides_behind_the_old_size_and_time_is_seen(
    project: Path, cached: Callable[..., SnapshotPlan], reads: list[bytes]
) -> None:
    first = cached()
    reads.clear()
    info = (project / "a.py").stat()
    (project / "a.py").write_text("ONE")
    os.utime(project / "a.py", ns=(info.st_atime_ns, info.st_mtime_ns))
    assert cached().digest != first.digest
    assert reads == [b"a.py"]


def test_file_that_another_replaced_is_read_again(
    project: Path, cached: Callable[..., SnapshotPlan], reads: list[bytes]
) -> None:
    first = cached()
    reads.clear()
    (project / "new").write_text("ONE")
    (project / "new").rename(project / "a.py")
    assert cached().digest != first.digest
    assert reads == [b"a.py"]


def test_mode_is_never_taken_from_the_cache(project: Path, cached: Callable[..., SnapshotPlan]) -> None:
    first = cached()
    (project / "a.py").chmod(0o755)
    assert cached().digest != first.digest


def test_fresh_files_are_hashed_again_until_their_times_are_sure(
    project: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {"a.py": "one"})
    made_ns = (project / "a.py").stat().st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: made_ns)  # planned within the tick of the change
    plan(CodeRequest(project), cache_dir=tmp_path / "cache")
    [file] = (tmp_path / "cache").iterdir() if (tmp_path / "cache").exists() else [None]
    assert file is None or b"a.py" not in file.read_bytes()


@pytest.mark.parametrize(
    ("age_ns", "ctime_ns", "kept"),
    [
        (0, 1_700_000_000_123_456_789, False),
        (50_000_000, 1_700_000_000_123_456_789, False),
        (200_000_000, 1_700_000_000_123_456_789, True),
        (200_000_000, 1_700_000_000_000_000_000, False),  # a file system that knows whole seconds
        (2_100_000_000, 1_700_000_000_000_000_000, True),
        (-5_000_000_000, 1_700_000_000_123_456_789, False),  # the file server's clock is ahead
    ],
)
def test_digest_is_kept_only_of_files_older_than_a_tick_of_their_clock(age_ns: int, ctime_ns: int, kept: bool) -> None:
    file = Found(b"a", Kind.FILE, 0o644, 3, 0, 7, ctime_ns)
    entry = memory(file, "f" * 64, ctime_ns + age_ns)
    assert (entry is not None) is kept
    if entry is not None:
        assert remembered({b"a": entry}, file) == "f" * 64
        assert remembered({b"a": entry}, file._replace(size_bytes=4)) is None


@pytest.mark.parametrize("damage", [b"", b"junk", b"flip"])
def test_damaged_cache_is_only_slower(
    tmp_path: Path, cached: Callable[..., SnapshotPlan], reads: list[bytes], damage: bytes
) -> None:
    first = cached()
    [file] = (tmp_path / "cache").iterdir()
    data = file.read_bytes()
    file.write_bytes(data.replace(b"a.py", b"b.py") if damage == b"flip" else damage)
    reads.clear()
    assert cached() == first
    assert len(reads) == 2


def test_cache_that_cannot_be_written_does_not_matter(project: Path, write: Write, tmp_path: Path) -> None:
    write(project, {"a.py": "one"})
    (tmp_path / "file").touch()
    assert plan(CodeRequest(project), cache_dir=tmp_path / "file" / "cache") == plan(CodeRequest(project))


def test_choice_of_paths_has_its_own_cache(cached: Callable[..., SnapshotPlan], reads: list[bytes]) -> None:
    cached()
    cached("sub")
    reads.clear()
    cached()
    cached("sub")
    assert reads == []


def test_cache_is_private_and_forgets_files_that_are_gone(
    project: Path, tmp_path: Path, cached: Callable[..., SnapshotPlan], reads: list[bytes]
) -> None:
    cached()
    (project / "a.py").unlink()
    cached()
    [file] = (tmp_path / "cache").iterdir()
    assert b"a.py" not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert reads


def test_slow_storage_is_read_in_threads_with_the_same_result(
    project: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {f"{number}.py": f"{number}" * number for number in range(300)})
    write(project, {"large": os.urandom(3 << 20), "large too": os.urandom(1 << 20)})
    expected = plan(CodeRequest(project))
    monkeypatch.setattr(hashing, "_SLOW_FILE_S", 0.0)
    assert plan(CodeRequest(project)) == expected


def test_file_that_vanishes_after_the_walk_is_named(
    project: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {"a.py": "", "b.py": ""})
    real_contents = hashing._contents

    def removing(root: bytes, files: list[Found]) -> object:
        (project / "b.py").unlink()
        return real_contents(root, files)

    monkeypatch.setattr(hashing, "_contents", removing)
    with pytest.raises(SnapshotError, match=r"b.py changed while"):
        plan(CodeRequest(project))

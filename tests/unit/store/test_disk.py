"""Writing files: whole or not at all, private, and honest about a full disk."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airlane.store import disk as module
from airlane.store.disk import SystemDisk, make_private_folder, read_bytes

OLD, NEW = b"old\n", b"new " * 50 + b"\n"
_NO_ROOM = r"too large|No space"
_IN_THE_WAY = r"exists|Not a directory"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a 'quoted' \"file\" ü\nx.json"


@contextmanager
def room_for(file_bytes: int) -> Iterator[None]:
    """No file may grow beyond this: what a full disk looks like to a writer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def killed_within(write: Callable[[], object], monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Carry out a write in a process that is killed when it comes to the named function of `os`."""

    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        try:
            monkeypatch.setattr(os, where, die)
            monkeypatch.setattr(Path, where, die, raising=False)
            write()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"{where} was never called"


def scratches(path: Path) -> list[Path]:
    return [each for each in path.parent.iterdir() if each != path]


def test_a_replaced_file_has_the_new_content_and_leaves_nothing_else(path: Path) -> None:
    path.write_bytes(OLD)
    SystemDisk().replace(path, NEW)
    assert path.read_bytes() == NEW
    SystemDisk().replace(path, OLD, last=True)
    assert path.read_bytes() == OLD
    assert scratches(path) == []


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_writer_killed_within_a_replacement_leaves_the_old_content(
    path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path.write_bytes(OLD)
    killed_within(lambda: SystemDisk().replace(path, NEW), monkeypatch, where)
    assert path.read_bytes() == OLD
    SystemDisk().replace(path, NEW)
    assert path.read_bytes() == NEW


def test_a_replacement_that_a_full_disk_refuses_leaves_the_old_content_and_no_scrap(path: Path) -> None:
    path.write_bytes(OLD)
    with room_for(100), pytest.raises(OSError, match=_NO_ROOM):
        SystemDisk().replace(path, NEW)
    assert path.read_bytes() == OLD
    assert scratches(path) == []


def test_a_replacement_refused_at_its_last_step_leaves_no_scrap(path: Path) -> None:
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        SystemDisk().replace(path, NEW)
    assert scratches(path) == []


def test_lines_are_appended_in_order(path: Path) -> None:
    for line in (b"1\n", b"2\n", b"3\n"):
        SystemDisk().append(path, line)
    assert path.read_bytes() == b"1\n2\n3\n"


def test_a_line_that_only_fits_in_part_is_taken_back(path: Path) -> None:
    path.write_bytes(b"x" * 80 + b"\n")
    with room_for(100), pytest.raises(OSError, match="No space left") as caught:
        SystemDisk().append(path, NEW)
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"x" * 80 + b"\n"
    SystemDisk().append(path, OLD)
    assert path.read_bytes().endswith(b"x\nold\n")


def test_a_line_that_does_not_fit_at_all_changes_nothing(path: Path) -> None:
    path.write_bytes(b"x" * 100)
    with room_for(100), pytest.raises(OSError, match=_NO_ROOM):
        SystemDisk().append(path, NEW)
    assert path.read_bytes() == b"x" * 100


def test_appending_leaks_no_descriptor(path: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    with room_for(10), pytest.raises(OSError, match=_NO_ROOM):
        SystemDisk().append(path, NEW)
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_of_many_that_create_one_file_at_once_one_wins_and_it_is_whole(path: Path) -> None:
    start, won = threading.Barrier(8), []

    def create(number: int) -> None:
        content = str(number).encode() * 5000
        start.wait()
        if SystemDisk().create(path, content):
            won.append(content)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [path.read_bytes()]
    assert scratches(path) == []


def test_creating_a_file_that_exists_changes_nothing(path: Path) -> None:
    path.write_bytes(OLD)
    assert SystemDisk().create(path, NEW) is False
    assert path.read_bytes() == OLD


def test_a_writer_killed_within_a_creation_leaves_the_name_free(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_within(lambda: SystemDisk().create(path, OLD), monkeypatch, "link")
    assert not path.exists()
    assert SystemDisk().create(path, NEW) is True
    assert path.read_bytes() == NEW


def test_a_creation_that_a_full_disk_refuses_leaves_the_name_free_and_no_scrap(path: Path) -> None:
    with room_for(100), pytest.raises(OSError, match=_NO_ROOM):
        SystemDisk().create(path, NEW)
    assert not path.exists()
    assert scratches(path) == []


def test_a_file_system_without_hard_links_will_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", refuse)
    assert SystemDisk().create(path, NEW) is True
    assert SystemDisk().create(path, OLD) is False
    assert path.read_bytes() == NEW
    assert scratches(path) == []


def test_removing_twice_is_harmless(path: Path) -> None:
    path.write_bytes(OLD)
    SystemDisk().remove(path)
    SystemDisk().remove(path)
    assert read_bytes(path) is None


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_files_and_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "c"
    make_private_folder(folder)
    assert {_mode(each) for each in (folder, folder.parent, folder.parent.parent)} == {0o700}
    SystemDisk().replace(folder / "replaced", OLD)
    SystemDisk().append(folder / "appended", OLD)
    SystemDisk().create(folder / "created", OLD)
    assert {_mode(each) for each in folder.iterdir()} == {0o600}


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    make_private_folder(tmp_path / "a" / "b")
    assert (_mode(tmp_path / "a"), _mode(tmp_path / "a" / "b")) == (0o755, 0o700)


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(OSError, match=_IN_THE_WAY):
        make_private_folder(tmp_path / "a")
    with pytest.raises(OSError, match=_IN_THE_WAY):
        make_private_folder(tmp_path / "a" / "b")


def test_the_disk_of_the_module_is_the_seam(tmp_path: Path) -> None:
    seam: module.Disk = SystemDisk()
    assert seam.create(tmp_path / "x", OLD)

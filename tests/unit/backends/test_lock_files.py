"""Lock files in a folder where others may have planted something else."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.backends.lock_files import is_held, leads_to, lock_current, make_lock_folder, open_lock_file
from airlane.backends.slots import Pool, Stage
from airlane.errors import BackendError

PRECIOUS = b"precious\n"


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of the user's own, private."""
    path = tmp_path / "id_rsa"
    path.write_bytes(PRECIOUS)
    path.chmod(0o600)
    return path


def _unharmed(path: Path) -> bool:
    return path.read_bytes() == PRECIOUS and stat.S_IMODE(path.stat().st_mode) == 0o600


def _plant_symlink(place: Path, target: Path) -> None:
    place.symlink_to(target)


def _plant_hard_link(place: Path, target: Path) -> None:
    place.hardlink_to(target)


PLANTS = [_plant_symlink, _plant_hard_link]


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("place", ["lock", "slots/0"])
def test_a_link_planted_in_a_shared_pool_is_refused_and_its_target_unharmed(
    tmp_path: Path, precious: Path, plant: Callable[[Path, Path], None], place: str
) -> None:
    pool = Pool(tmp_path / "pool", ("0",), shared=True)
    pool.join("00000001", priority=0, stage=Stage.WAITING).leave()
    (pool.folder / place).unlink(missing_ok=True)
    plant(pool.folder / place, precious)

    def use() -> None:
        ticket = pool.join("00000002", priority=0, stage=Stage.WAITING)
        try:
            ticket.take(1, on_stale=pytest.fail)
        finally:
            ticket.leave()

    with pytest.raises(BackendError, match="a link or something else is in its place") as caught:
        use()
    assert caught.value.hint == f"ls -ld {pool.folder / place}"
    assert _unharmed(precious)


@pytest.mark.parametrize("name", ["pool", "pool/queue", "pool/slots"])
def test_a_link_in_place_of_a_pools_folder_is_refused_and_its_target_keeps_its_mode(tmp_path: Path, name: str) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(private)
    pool = Pool(tmp_path / "pool", ("0",), shared=True)
    with pytest.raises(BackendError, match="is not a folder of Airlane's"):
        pool.join("00000001", priority=0, stage=Stage.WAITING)
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert list(private.iterdir()) == []


def test_a_link_to_nothing_does_not_make_a_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "made")
    with pytest.raises(BackendError):
        open_lock_file(tmp_path / "lock", 0o666)
    assert not (tmp_path / "made").exists()


def test_a_pipe_in_place_of_a_file_neither_blocks_nor_is_used(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(BackendError):
        open_lock_file(tmp_path / "lock", 0o666)
    assert not is_held(tmp_path / "lock")


def test_a_folder_or_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o755)
    (tmp_path / "file").touch(mode=0o644)
    make_lock_folder(tmp_path / "folder", 0o1777)
    os.close(open_lock_file(tmp_path / "file", 0o666))
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644


def test_a_lock_that_was_replaced_while_it_was_waited_for_is_not_the_one_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    path.touch()
    flock = fcntl.flock
    replaced: list[bool] = []

    def late(descriptor: int, how: int) -> None:
        flock(descriptor, how)
        if not replaced:
            replaced.append(True)
            path.unlink()
            path.touch()

    monkeypatch.setattr(fcntl, "flock", late)
    descriptor = lock_current(path, 0o600)
    assert leads_to(path, descriptor)
    monkeypatch.undo()
    assert is_held(path)
    os.close(descriptor)
    assert not is_held(path)


def test_a_pool_that_cannot_be_used_says_which_and_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    pool = Pool(tmp_path / "file" / "pool", ("0",))
    with pytest.raises(BackendError, match=r"the queue for accelerators in .*/file/pool cannot be used: "):
        pool.join("00000001", priority=0, stage=Stage.WAITING)


@pytest.mark.root
def test_another_users_ticket_in_a_shared_pool_is_respected_and_a_dead_one_passed_over(tmp_path: Path) -> None:
    pool = Pool(_open_to_all(tmp_path) / "pool", ("0",), shared=True)
    roots = pool.join("00000001", priority=0, stage=Stage.WAITING)

    def join_and_die() -> int | None:
        place = pool.join("00000002", priority=0, stage=Stage.WAITING).take(1, on_stale=pytest.fail)
        (pool.queue / f"{'0' * 11}-{'0' * 20}-00000003.waiting").touch()
        return place

    assert _as_nobody(join_and_die) == "2"
    assert roots.take(1, on_stale=lambda _run: None) is None
    roots.leave()


@pytest.mark.root
def test_a_user_who_may_not_remove_a_dead_ticket_of_another_user_is_first_in_line_all_the_same(tmp_path: Path) -> None:
    pool = Pool(_open_to_all(tmp_path) / "pool", ("0",), shared=True)
    pool.join("00000001", priority=0, stage=Stage.WAITING).forget()  # dead: nobody holds it any more

    def join() -> int | None:
        return pool.join("00000002", priority=0, stage=Stage.WAITING).take(1, on_stale=pytest.fail)

    assert _as_nobody(join) == "None"
    assert len(list(pool.queue.iterdir())) == 2


def _open_to_all(folder: Path) -> Path:
    """The folder, which another user may now go through."""
    for each in (folder, *folder.parents):
        if each.stat().st_uid == os.geteuid() and not each.stat().st_mode & stat.S_IXOTH:
            each.chmod(0o755)
    return folder


def _as_nobody(what: Callable[[], object]) -> str:
    """The answer in words of a process of another user, which ends without tidying up."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        answer = "nothing"
        try:
            os.setuid(65534)
            answer = str(what())
        except BaseException as error:  # noqa: BLE001 (told to the parent)
            answer = repr(error)
        finally:
            os.write(writer, answer.encode())
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as answers:
        return answers.read()

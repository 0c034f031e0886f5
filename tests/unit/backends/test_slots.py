"""Slots and the queue for them: order, sharing, and what is left of those who died."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from airlane.backends import slots
from airlane.backends.slots import Pool, Stage, Ticket
from airlane.errors import BackendError

from .conftest import OtherProcess

FIRST, SECOND, THIRD = "00000001", "00000002", "00000003"


@pytest.fixture(autouse=True)
def look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "FULL_LOOK_EVERY_S", 0.0)


@pytest.fixture(autouse=True)
def no_descriptor_is_lost() -> Iterator[None]:
    before = len(list(Path("/dev/fd").iterdir()))
    yield
    assert len(list(Path("/dev/fd").iterdir())) == before


def never(run_id: str) -> None:
    pytest.fail(f"{run_id} was taken for dead")


def join(pool: Pool, run_id: str, *, priority: int = 0, stage: Stage = Stage.WAITING) -> Ticket:
    return pool.join(run_id, priority=priority, stage=stage)


def test_slots_go_to_the_first_in_line(pool: Pool) -> None:
    first, second = join(pool, FIRST), join(pool, SECOND)
    assert second.take(1, on_stale=never) == 2
    assert first.take(1, on_stale=never) is None
    assert second.take(1, on_stale=never) is None
    assert (first.slots, second.slots) == (("0",), ("1",))
    first.leave()
    second.leave()


def test_a_large_run_at_the_front_is_not_overtaken_by_a_small_one(pool: Pool) -> None:
    holder, large, small = join(pool, FIRST), join(pool, SECOND), join(pool, THIRD)
    assert holder.take(1, on_stale=never) is None
    assert large.take(2, on_stale=never) == 1
    assert small.take(1, on_stale=never) == 2
    holder.leave()
    assert large.take(2, on_stale=never) is None
    assert small.take(1, on_stale=never) == 1
    large.leave()
    small.leave()


def test_a_run_that_gets_fewer_slots_than_it_asked_for_holds_none(pool: Pool) -> None:
    holder, large = join(pool, FIRST), join(pool, SECOND)
    holder.take(1, on_stale=never)
    assert large.take(2, on_stale=never) == 1
    assert large.descriptors == ()
    assert pool.busy() == 1
    holder.leave()
    large.leave()


@pytest.mark.parametrize(
    ("later", "earlier"), [(0, 100), (-100, 0), (-100, 100), (100, 2**31 - 1), (-(2**31), -100), (998, 1001)]
)
def test_a_higher_priority_goes_first(pool: Pool, later: int, earlier: int) -> None:
    low, high = join(pool, FIRST, priority=later), join(pool, SECOND, priority=earlier)
    assert low.take(2, on_stale=never) == 2
    assert high.take(2, on_stale=never) is None
    low.leave()
    high.leave()


def test_equal_priorities_keep_the_order_of_arrival(pool: Pool) -> None:
    tickets = [join(pool, f"{number:08d}", priority=7) for number in range(20, 0, -1)]
    assert [ticket.take(3, on_stale=never) for ticket in tickets] == list(range(1, 21))
    for ticket in tickets:
        ticket.leave()


def test_a_run_that_prepares_lets_others_pass_and_keeps_its_place(pool: Pool) -> None:
    first = join(pool, FIRST, stage=Stage.PREPARING)
    second, third = join(pool, SECOND), join(pool, THIRD)
    assert second.take(2, on_stale=never) is None
    assert third.take(1, on_stale=never) == 1
    assert first.take(1, on_stale=never) == 1  # it is ready now, and was there before the third
    assert third.take(1, on_stale=never) == 2
    for ticket in (first, second, third):
        ticket.leave()


def test_slots_that_are_given_back_are_free_and_the_place_in_line_is_kept(pool: Pool) -> None:
    first, second = join(pool, FIRST), join(pool, SECOND)
    first.take(2, on_stale=never)
    first.give_back()
    first.give_back()
    assert pool.busy() == 0
    assert second.take(2, on_stale=never) is None  # the first one prepares its next attempt
    assert first.take(2, on_stale=never) == 1
    second.leave()
    assert first.take(2, on_stale=never) is None
    first.leave()


def test_taking_twice_keeps_the_same_slots(pool: Pool) -> None:
    ticket = join(pool, FIRST)
    ticket.take(1, on_stale=never)
    held = ticket.descriptors
    assert ticket.take(1, on_stale=never) is None
    assert ticket.descriptors == held
    ticket.leave()


def test_leaving_removes_every_trace_from_the_queue(pool: Pool) -> None:
    ticket = join(pool, FIRST)
    ticket.take(1, on_stale=never)
    ticket.leave()
    assert list(pool.queue.iterdir()) == []
    assert [path.read_bytes() for path in (pool.folder / "slots").iterdir()] == [b""]


def test_a_waiting_process_that_is_killed_lets_the_next_one_pass(pool: Pool, other: OtherProcess) -> None:
    assert other.ask(f"ticket <- pool.join({FIRST!r}, priority=0, stage=Stage.WAITING)") == "None"
    mine = join(pool, SECOND)
    assert mine.take(1, on_stale=never) == 2
    other.kill()
    assert mine.take(1, on_stale=never) is None
    mine.leave()
    assert list(pool.queue.iterdir()) == []


def test_the_slots_of_a_process_that_is_killed_are_free_and_its_run_is_swept(pool: Pool, other: OtherProcess) -> None:
    other.ask(f"ticket <- pool.join({FIRST!r}, priority=0, stage=Stage.WAITING)")
    assert other.ask("ticket.take(2, on_stale=print)") == "None"
    mine = join(pool, SECOND)
    assert mine.take(2, on_stale=never) == 1
    other.kill()
    swept: list[str] = []
    assert mine.take(2, on_stale=swept.append) is None
    assert set(swept) == {FIRST}
    mine.leave()


def test_slots_that_an_agent_still_holds_stay_taken_after_its_supervisor_died(
    pool: Pool, other: OtherProcess, folder: Path
) -> None:
    with OtherProcess() as supervisor:
        supervisor.ask(f"pool <- Pool(Path({str(folder)!r}), ('0', '1'))")
        supervisor.ask(f"ticket <- pool.join({FIRST!r}, priority=0, stage=Stage.WAITING)")
        supervisor.ask("ticket.take(1, on_stale=print)")
        # The agent: another process that has the slot's descriptor open.
        descriptor = supervisor.ask("ticket.descriptors[0]")
        start = f"__import__('subprocess').Popen(['sleep', '60'], stdin=-3, stdout=-3, pass_fds=[{descriptor}])"
        agent = supervisor.ask(f"{start}.pid")
        supervisor.kill()
    assert pool.busy() == 1
    assert other.ask("pool.busy()") == "1"
    os.kill(int(agent), 9)
    mine = join(pool, SECOND)
    swept: list[str] = []
    while mine.take(2, on_stale=swept.append) is not None:  # until the kernel has ended it
        os.sched_yield()
    assert swept == [FIRST]
    mine.leave()


def test_two_processes_that_race_never_hold_more_than_there_is(pool: Pool, other: OtherProcess) -> None:
    for turn in range(20):
        other.ask(f"theirs <- pool.join('{turn:07d}x', priority=0, stage=Stage.WAITING)")
        mine = join(pool, f"{turn:07d}y")
        other.send("theirs.take(2, on_stale=print)")  # both at once
        here = mine.take(2, on_stale=never)
        there = other.answer()
        assert (here is None) + (there == "None") == 1, (here, there)
        assert pool.busy() == 2
        mine.leave()
        other.ask("theirs.leave()")
    assert pool.busy() == 0


def test_a_name_in_a_slot_of_a_run_that_is_alive_is_not_believed(pool: Pool) -> None:
    # In a shared pool anybody can write there; the run that is named would be ended.
    alive = join(pool, FIRST, stage=Stage.PREPARING)
    victim = join(pool, SECOND)
    (pool.folder / "slots" / "0").write_text(FIRST)
    assert victim.take(1, on_stale=never) is None
    alive.leave()
    victim.leave()


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"../../etc", b"x" * 4096, b"0000000\n"])
def test_anything_else_in_a_slot_file_is_ignored(pool: Pool, content: bytes) -> None:
    ticket = join(pool, FIRST)
    (pool.folder / "slots" / "0").write_bytes(content)
    assert ticket.take(1, on_stale=never) is None
    assert (pool.folder / "slots" / "0").read_bytes() == FIRST.encode()
    ticket.leave()


def test_strange_names_in_the_queue_are_cleared_away(pool: Pool) -> None:
    ticket = join(pool, SECOND)
    for name in ("junk", "000-x.waiting", ".waiting"):
        (pool.queue / name).touch()
    assert ticket.take(1, on_stale=never) is None
    late = join(pool, THIRD)
    assert len(list(pool.queue.iterdir())) == 2
    ticket.leave()
    late.leave()


def test_a_ticket_whose_file_was_removed_is_written_anew(pool: Pool) -> None:
    holder, ticket = join(pool, FIRST), join(pool, SECOND)
    holder.take(2, on_stale=never)
    assert ticket.take(1, on_stale=never) == 1
    for path in pool.queue.iterdir():
        path.unlink()
    assert ticket.take(1, on_stale=never) == 1
    holder.give_back()
    assert ticket.take(1, on_stale=never) is None
    holder.leave()
    ticket.leave()
    assert list(pool.queue.iterdir()) == []


def test_a_queue_whose_folder_was_removed_is_made_anew(pool: Pool) -> None:
    ticket = join(pool, FIRST)
    shutil.rmtree(pool.folder)
    assert ticket.take(1, on_stale=never) is None
    shutil.rmtree(pool.folder)
    ticket.give_back()
    ticket.leave()


def test_slots_are_closed_when_one_of_them_cannot_be_opened(pool: Pool) -> None:
    ticket = join(pool, FIRST)
    (pool.folder / "slots" / "1").mkdir()
    with pytest.raises(BackendError, match="is not a file of Airlane's"):
        ticket.take(2, on_stale=never)
    assert ticket.descriptors == ()
    (pool.folder / "slots" / "1").rmdir()
    assert pool.busy() == 0
    ticket.leave()


def test_a_full_disk_does_not_keep_a_run_from_its_slots(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    ticket = join(pool, FIRST)
    monkeypatch.setattr(os, "pwrite", refuse)
    monkeypatch.setattr(os, "ftruncate", refuse)
    assert ticket.take(2, on_stale=never) is None
    ticket.give_back()
    assert pool.busy() == 0
    ticket.leave()


def test_what_is_held_for_long_is_touched(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = join(pool, FIRST)
    ticket.take(1, on_stale=never)
    old = 1_000_000_000
    held = [pool.folder / "slots" / "0", *pool.queue.iterdir()]
    for path in held:
        os.utime(path, (old, old))
    ticket.touch()
    assert [path.stat().st_mtime for path in held] == [old, old]
    monkeypatch.setattr(slots, "TOUCH_EVERY_S", 0.0)
    ticket.touch()
    assert all(path.stat().st_mtime > old for path in held)
    ticket.leave()


def test_the_queue_is_not_read_again_while_nothing_changed(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    holder, ticket = join(pool, FIRST), join(pool, SECOND)
    holder.take(2, on_stale=never)
    monkeypatch.setattr(slots, "FULL_LOOK_EVERY_S", 3600.0)
    assert ticket.take(1, on_stale=never) == 1
    assert ticket.take(1, on_stale=never) == 1
    monkeypatch.setattr(Pool, "waiting", lambda _pool: pytest.fail("the queue was read"))
    assert ticket.take(1, on_stale=never) == 1
    monkeypatch.undo()
    holder.leave()
    assert ticket.take(1, on_stale=never) is None
    ticket.leave()


def _modes(pool: Pool) -> set[tuple[str, int]]:
    kinds = {path: "folder" if path.is_dir() else "file" for path in (pool.folder, *pool.folder.rglob("*"))}
    return {(kind, stat.S_IMODE(path.stat().st_mode)) for path, kind in kinds.items()}


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_a_pool_of_ones_own_is_private_and_a_shared_one_is_open_but_sticky(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        for shared, modes in (
            (False, {("folder", 0o700), ("file", 0o600)}),
            (True, {("folder", 0o1777), ("file", 0o666)}),
        ):
            pool = Pool(tmp_path / str(shared), ("0",), shared=shared)
            ticket = join(pool, FIRST)
            ticket.take(1, on_stale=never)
            assert _modes(pool) == modes
            ticket.leave()
    finally:
        os.umask(before)

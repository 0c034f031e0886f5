"""Run folders: made whole or not at all, found by what people type, and read as they are."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airlane.errors import NotFoundError, StoreError
from airlane.store import codec, runs
from airlane.store.disk import SystemDisk
from airlane.store.paths import Home, RunPaths
from airlane.store.records import Attempt, Cause, CauseKind, NodeRecord, Status, Verdict
from airlane.store.runs import NewRun, RunContent, RunStore
from airlane.store.states import State
from airlane.store.supervisor_lock import is_held

from .made_records import made_record, made_status

CONTENT = RunContent(workload="a: ü\n", command="echo hi\n", parameters="x: 1\n", diff=b"\xff", secrets=b'{"A": "b"}')
NOW = 1_796_034_067.0  # 2026-11-30


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "a 'home' with \"quotes\" and ünïcode\nand a newline")


@pytest.fixture
def store(home: Home) -> RunStore:
    return RunStore(home)


def create(store: RunStore, *, at: float = NOW, content: RunContent = CONTENT) -> NewRun:
    """A new run whose supervisor never started."""
    new = store.create(made_record(submitted_at=at), content)
    os.close(new.lock)
    return new


def test_a_new_run_has_its_files_and_a_held_lock(store: RunStore, home: Home) -> None:
    new = store.create(made_record(submitted_at=NOW), CONTENT)
    paths = new.paths
    assert paths.root.parent == home.runs / "2026-11"
    assert new.record == made_record(id=paths.id, submitted_at=NOW)
    assert store.view(paths).record == new.record
    assert paths.workload.read_text() == "a: ü\n"
    assert paths.command.read_text() == "echo hi\n"
    assert paths.parameters.read_text() == "x: 1\n"
    assert paths.diff.read_bytes() == b"\xff"
    assert paths.secrets.read_bytes() == b'{"A": "b"}'
    assert is_held(paths.lock)
    os.close(new.lock)
    assert is_held(paths.lock) is False


def test_what_a_run_does_not_have_makes_no_file(store: RunStore) -> None:
    paths = create(store, content=RunContent(workload="", command="")).paths
    assert not any(path.exists() for path in (paths.parameters, paths.diff, paths.secrets, paths.status))


def test_a_run_is_private_whatever_the_umask(store: RunStore, home: Home) -> None:
    before = os.umask(0)
    try:
        create(store)
    finally:
        os.umask(before)
    for path in (home.root, *home.root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_runs_of_one_moment_have_ids_in_their_order(store: RunStore) -> None:
    made = [create(store).paths.id for _ in range(20)]
    assert made == sorted(set(made))
    assert [paths.id for paths in store.ids()] == made[::-1]
    assert store.find("@last").id == made[-1]


def test_a_run_of_a_later_month_comes_first(store: RunStore) -> None:
    december, november = create(store, at=NOW + 86_400 * 2), create(store, at=NOW)
    assert [paths.id for paths in store.ids()] == [december.paths.id, november.paths.id]


@pytest.mark.parametrize("write", range(7))
def test_a_run_that_a_full_disk_refuses_leaves_nothing(
    store: RunStore, home: Home, monkeypatch: pytest.MonkeyPatch, write: int
) -> None:
    opens = iter(range(100))
    really_open = os.open

    def scarce(path: str, flags: int, mode: int = 0o777, **where: Any) -> int:
        if flags & os.O_CREAT and next(opens) == write:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return really_open(path, flags, mode, **where)

    before = len(list(Path("/dev/fd").iterdir()))
    monkeypatch.setattr(os, "open", scarce)
    with pytest.raises(StoreError, match=r"(?s)could not write under .*: No space left on device") as caught:
        store.create(made_record(submitted_at=NOW), CONTENT)
    monkeypatch.undo()
    assert caught.value.hint == "free some space, or set AIR_HOME to another folder"
    assert [path for path in home.runs.rglob("*") if path.name != "2026-11"] == [], "half a run was left"
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_home_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    store = RunStore(Home(tmp_path / "home"))
    with pytest.raises(StoreError, match="could not write under"):
        store.create(made_record(), CONTENT)
    with pytest.raises(StoreError, match="could not write under"), store.submission():
        pytest.fail("there is no lock to hold")
    with pytest.raises(StoreError, match="could not write under"), store.token("me", "t"):
        pytest.fail("there is no token to hold")


def test_secrets_are_written_after_the_run_can_be_found(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    # Who is killed right then leaves a run whose end is settled, not a file that nobody removes.
    really_write = runs._write_private

    def write(path: Path, data: bytes) -> None:
        assert path.name != "secrets.json" or (path.parent / "run.json").exists()
        really_write(path, data)

    monkeypatch.setattr(runs, "_write_private", write)
    assert create(store).paths.secrets.exists()


def test_a_discarded_run_is_gone_and_its_lock_free(store: RunStore) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    new = store.create(made_record(), CONTENT)
    store.discard(new)
    assert not new.paths.root.exists()
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_run_is_found_by_its_id_by_an_unambiguous_beginning_and_by_last(store: RunStore) -> None:
    old, new = create(store, at=NOW - 1e7).paths, create(store, at=NOW).paths
    assert store.find(old.id) == old
    assert store.find(new.id[:7]) == new
    assert store.find("@last") == new


def test_an_ambiguous_beginning_lists_what_it_could_be(store: RunStore) -> None:
    ids = [create(store).paths.id for _ in range(7)]
    with pytest.raises(NotFoundError) as caught:
        store.find(ids[0][:4])
    newest = ", ".join(reversed(ids[2:]))
    assert caught.value.message == f"{ids[0][:4]} could be any of {newest}, ..."
    with pytest.raises(NotFoundError, match=r"could be any of \w+, \w+$"):
        find_one_of_two(store)


def find_one_of_two(store: RunStore) -> None:
    """Look for a beginning that the first runs of two later moments share."""
    first = create(store, at=NOW + 60).paths.id
    create(store, at=NOW + 60)
    store.find(first[:6])


@pytest.mark.parametrize("name", ["", "@first", "../../etc", "ILOU", "a b", "7k2m9q4d/../x", "*", "ü", "\n"])
def test_what_cannot_be_an_id_is_told(store: RunStore, name: str) -> None:
    create(store)
    with pytest.raises(NotFoundError, match="is not a run id"):
        store.find(name)


@pytest.mark.parametrize("name", ["zzzzzzzz", "z", "0000000000000"])
def test_an_id_of_no_run_is_told(store: RunStore, name: str) -> None:
    create(store)
    with pytest.raises(NotFoundError, match=f"there is no run {name}"):
        store.find(name)


def test_there_is_no_last_run_before_the_first(store: RunStore) -> None:
    with pytest.raises(NotFoundError, match="there are no runs yet"):
        store.find("@last")


def test_a_folder_without_a_run_is_passed_over(store: RunStore, home: Home) -> None:
    run = create(store).paths
    for name in ("zzzzzzzz", "zzzzzzzy", "zzzzzzzx", "zzzzzzzw", "zzzzzzzv", "zzzzzzzt", "zzzzzzzs"):
        (home.runs / "2026-11" / name).mkdir()  # submissions that are being written, or were cut off
    (home.runs / "2026-11" / "notes.txt").touch()
    (home.runs / "junk").touch()
    assert store.find("@last") == run
    assert store.find(run.id[:3]) == run
    with pytest.raises(NotFoundError, match="there is no run zzz"):
        store.find("zzz")
    with pytest.raises(NotFoundError, match="holds no run"):
        store.view(RunPaths(home.runs / "2026-11" / "zzzzzzzz"))


def test_a_status_has_the_last_word_once_it_is_terminal_and_a_verdict_until_then(store: RunStore) -> None:
    paths = create(store).paths
    assert store.view(paths).state is State.PENDING
    attempt = Attempt(0, NOW + 1, hosts=("here",))
    store.disk.replace(paths.status, codec.encode(made_status(State.RUNNING, attempts=(attempt,))))
    assert store.view(paths).state is State.RUNNING
    assert store.view(paths).duration_s(NOW + 5) == 4
    lost = Cause(CauseKind.SUPERVISOR_LOST, "lost")
    store.disk.create(paths.verdict, codec.encode(Verdict(State.FAILED, lost, NOW + 9, "a reader")))
    view = store.view(paths)
    assert (view.state, view.phase, view.cause, view.ended_at) == (State.FAILED, None, lost, NOW + 9)
    assert (view.attempts[0].state, view.attempts[0].ended_at, view.attempts[0].cause) == (State.FAILED, NOW + 9, lost)
    assert view.duration_s(NOW + 99) == 8
    done = Cause(CauseKind.COMPLETED, "done")
    store.disk.replace(paths.status, codec.encode(made_status(State.SUCCESS, cause=done, ended_at=NOW + 8)))
    view = store.view(paths)
    assert (view.state, view.cause, view.ended_at) == (State.SUCCESS, done, NOW + 8)


@pytest.mark.parametrize("name", ["run.json", "status.json", "verdict.json"])
def test_a_damaged_file_is_named(store: RunStore, name: str) -> None:
    paths = create(store).paths
    (paths.root / name).write_bytes(b'{"state": "RUN')
    with pytest.raises(StoreError) as caught:
        store.view(paths)
    assert caught.value.message.startswith(f"{paths.root / name} is damaged: ")


@pytest.mark.parametrize("content", [b"", b"not json", b'{"node_rank": "one"}', b"\xff"])
def test_a_damaged_record_of_a_node_counts_as_none(store: RunStore, content: bytes) -> None:
    paths = create(store).paths
    paths.nodes(0).mkdir(parents=True)
    paths.node_record(attempt=0, node=0).write_bytes(content)
    assert store.node_record(paths, attempt=0, node=0) is None
    record = NodeRecord(0, "here", 2, "subreaper", 2.0)
    SystemDisk().replace(paths.node_record(attempt=0, node=0), codec.encode(record))
    assert store.node_record(paths, attempt=0, node=0) == record


def test_a_token_names_the_run_it_was_given(store: RunStore) -> None:
    run = create(store).paths
    with store.token("me", "once") as held:
        assert held.run_id is None
        held.assign(run.id)
    with store.token("me", "once") as held:
        assert held.run_id == run.id
    for user, token in (("you", "once"), ("me", "twice"), ("me\0on", "ce"), ("", "meonce")):
        with store.token(user, token) as other:
            assert other.run_id is None


def test_a_token_of_a_run_that_is_gone_is_free_again(store: RunStore) -> None:
    run, following = create(store).paths, create(store).paths
    with store.token("me", "once") as held:
        held.assign(run.id)
    (run.record).unlink()
    run.root.rename(run.root.with_name("gone"))
    with store.token("me", "once") as held:
        assert held.run_id is None
        held.assign(following.id)
    with store.token("me", "once") as held:
        assert held.run_id == following.id


def test_junk_in_a_token_is_no_run(store: RunStore, home: Home) -> None:
    with store.token("me", "once"):
        (file,) = home.tokens.iterdir()
    file.write_bytes(b"\xff\xfe../../x")
    with store.token("me", "once") as held:
        assert held.run_id is None


_HOLDER = """
import sys
from pathlib import Path
from airlane.store.paths import Home
from airlane.store.runs import RunStore
with RunStore(Home(Path(sys.argv[1]))).token("me", "once") as held:
    print(held.run_id, flush=True)
    held.assign(sys.stdin.readline().strip())
"""


def _holder(home: Home) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _HOLDER, home.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_who_uses_a_token_that_is_held_waits_and_then_finds_the_run(store: RunStore, home: Home) -> None:
    run = create(store).paths
    with _holder(home) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "None\n"
        with _holder(home) as second:  # it waits for the first
            first.communicate(run.id + "\n")
            assert second.communicate(run.id + "\n")[0] == f"{run.id}\n"


def test_a_token_whose_holder_is_killed_is_free(store: RunStore, home: Home) -> None:
    with _holder(home) as first:
        assert first.stdout is not None
        first.stdout.readline()
        first.send_signal(signal.SIGKILL)
    with store.token("me", "once") as held:
        assert held.run_id is None


def test_one_submission_is_made_at_a_time(store: RunStore, home: Home) -> None:
    import fcntl

    with store.submission():
        descriptor = os.open(home.root / "submission.lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


@pytest.mark.root
def test_a_home_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "home" / "runs").mkdir(mode=0o700, parents=True)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        answer = "nothing"
        try:
            os.chdir("/")
            os.setuid(65534)
            list(RunStore(Home(tmp_path / "home")).ids())
        except StoreError as error:
            answer = error.message
        finally:
            os.write(writer, answer.encode())
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        assert answers.read() == f"{tmp_path / 'home' / 'runs'} cannot be read: Permission denied"


def test_views_need_no_more_than_a_record(store: RunStore) -> None:
    view = store.view(create(store).paths)
    assert (view.attempts, view.started_at, view.ended_at, view.cause, view.phase) == ((), None, None, None, None)
    assert view.duration_s(NOW) is None
    assert codec.read(Status, view.paths.status) is None

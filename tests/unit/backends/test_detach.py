"""A detached process: what it keeps, what it lets go of, and what becomes of it when something fails."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.backends import detach as module
from airlane.backends.detach import detach
from airlane.errors import BackendError


def answer_of(what: Callable[[], object], log: Path, *, keep: tuple[int, ...] = ()) -> str:
    """What the detached process says, in words; "" if it ends without a word."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)

    def body() -> None:
        os.write(writer, str(what()).encode())

    try:
        detach(body, log=log, keep=(*keep, writer))
    finally:
        os.close(writer)
    with os.fdopen(reader) as answers:
        return answers.read()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "supervisor.log"


def test_it_has_a_session_of_its_own_and_no_living_parent_of_ours(log: Path) -> None:
    session, parent = answer_of(lambda: f"{os.getsid(0)} {os.getppid()}", log).split()
    assert int(session) != os.getsid(0)
    assert int(parent) != os.getpid()


def test_it_stands_in_the_root_folder_and_reads_nothing(log: Path) -> None:
    assert answer_of(lambda: (str(Path.cwd()), sys.stdin.read()), log) == "('/', '')"


def test_it_keeps_only_the_descriptors_it_was_given(log: Path, tmp_path: Path) -> None:
    wanted = os.open(tmp_path / "wanted", os.O_RDWR | os.O_CREAT)
    unwanted = os.open(tmp_path / "unwanted", os.O_RDWR | os.O_CREAT)

    def open_files() -> str:
        links = [Path("/dev/fd") / name for name in ("0", "1", "2", *map(str, range(3, 100)))]
        return " ".join(link.readlink().name for link in links if link.is_symlink())

    names = answer_of(open_files, log, keep=(wanted,)).split()
    assert "wanted" in names
    assert "unwanted" not in names
    assert names[:3] == ["null", "supervisor.log", "supervisor.log"]
    os.close(wanted)
    os.close(unwanted)


def test_a_lock_it_was_given_is_held_until_it_ends(log: Path, tmp_path: Path) -> None:
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    go, told = os.pipe()
    detach(lambda: os.close(go) if os.read(go, 1) else None, log=log, keep=(lock, go))
    os.close(lock)
    again = os.open(tmp_path / "lock", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(told, b"!")
    fcntl.flock(again, fcntl.LOCK_EX)  # waits for its end, and for nothing else
    for descriptor in (again, go, told):
        os.close(descriptor)


def test_hanging_up_and_ctrl_c_do_not_reach_it(log: Path) -> None:
    handlers = answer_of(lambda: [signal.getsignal(s).name for s in (signal.SIGHUP, signal.SIGINT)], log)  # type: ignore[union-attr]
    assert handlers == "['SIG_IGN', 'SIG_IGN']"


def test_what_it_prints_goes_to_a_private_log(log: Path) -> None:
    answer_of(lambda: (sys.stdout.write("out\n"), sys.stderr.write("err\n")), log)
    assert log.read_text() == "out\nerr\n"
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_fault_of_the_body_is_told_in_the_log_and_ends_the_process(log: Path) -> None:
    assert answer_of(lambda: 1 / 0, log) == ""
    assert "ZeroDivisionError" in log.read_text()


def test_a_body_that_exits_does_not_run_on_in_the_callers_code(log: Path) -> None:
    def leave() -> None:
        sys.exit(3)

    assert answer_of(leave, log) == ""
    assert os.getpid()  # a child that came back would run this test, and all that follow, a second time


def test_a_log_that_cannot_be_written_does_not_keep_it_from_its_work(tmp_path: Path) -> None:
    assert answer_of(lambda: sys.stdout.write("lost"), tmp_path / "no" / "such.log") == "4"


def test_a_log_that_is_full_does_not_keep_it_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = tmp_path / "full.log"
    full.symlink_to("/dev/full")

    def explode() -> None:
        raise RuntimeError("told to nobody")

    ends: list[int] = []
    monkeypatch.setattr(module, "_check_started", lambda child: ends.append(os.waitpid(child, 0)[1]))
    assert answer_of(explode, full) == ""
    assert ends == [0]


def test_a_stdout_that_is_closed_does_not_keep_it_from_starting(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open("w") as closed:
        pass
    monkeypatch.setattr(sys, "stdout", closed)
    monkeypatch.setattr(sys, "stderr", None)
    assert answer_of(lambda: "started", log) == "started"


def test_a_caller_that_ignores_its_children_may_detach_too(log: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert answer_of(lambda: "started", log) == "started"
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("refused", [1, 2])
def test_a_machine_without_room_for_a_process_is_told(log: Path, monkeypatch: pytest.MonkeyPatch, refused: int) -> None:
    fork, forks = os.fork, []

    def scarce() -> int:
        forks.append(1)
        if len(forks) == refused:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    monkeypatch.setattr(os, "fork", scarce)
    with pytest.raises(BackendError, match="the supervisor could not be started: Resource temporarily unavailable"):
        detach(lambda: None, log=log, keep=())

"""A seat and its keeper on one machine, as real processes, without Ray."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airlane.ranks.kit import build_kit
from airlane.ranks.order import PYTHON, Order
from airlane.ranks.seat import MOST_BYTES, Seat

from .conftest import alive, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks are contained on Linux")

KIT = build_kit()
# A rank that hides a process from its group, its session and its parent.
LEAVES = """
import os, subprocess, sys, time
inside = subprocess.Popen(["sleep", "300"])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(1, b"pids %d %d\\n" % (os.getpid(), inside.pid))  # in one piece: two processes share the pipe
        os.closerange(0, 3)
        time.sleep(300)
    os._exit(0)
os.wait()
os.write(1, b"rank %d\\n" % os.getpid())
"""


class Told:
    """All that a seat has told so far."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.events: list[dict[str, Any]] = []
        self.out = self.errors = b""
        self.over = False

    def follow(self) -> None:
        events, out, errors, self.over = self.seat.follow(0.2)
        self.events += events
        self.out += out
        self.errors += errors

    def until_over(self, within_s: float = 20) -> Told:
        deadline = time.monotonic() + within_s
        while not self.over:
            assert time.monotonic() < deadline, (self.events, self.out, self.errors)
            self.follow()
        return self

    def until(self, text: bytes, within_s: float = 20) -> Told:
        deadline = time.monotonic() + within_s
        while text not in self.out:
            assert time.monotonic() < deadline, (self.events, self.out, self.errors)
            self.follow()
        return self

    def event(self, name: str) -> dict[str, Any]:
        return next(event for event in self.events if event["event"] == name)

    def pids(self) -> list[int]:
        return [int(word) for word in self.out.split() if word.isdigit()]


def order(*argv: str, folder: Path, **fields: Any) -> Order:
    basic = Order(argv=argv, folder=str(folder), python=sys.executable, mark=f"test-{os.urandom(8).hex()}")
    return replace(basic, **fields)


def started(order: Order) -> Told:
    seat = Seat()
    seat.start(KIT, order.to_json().encode(), order.mark, None)
    return Told(seat)


def python(code: str, folder: Path, **fields: Any) -> Told:
    return started(order(PYTHON, "-c", code, folder=folder, **fields))


@pytest.fixture(autouse=True)
def kits_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every rank's folder is gone after it."""
    kits = tmp_path / "kits"
    kits.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(kits))
    yield
    wait_until(lambda: not list(kits.iterdir()), within_s=5, what=f"no kit is left: {list(kits.iterdir())}")


def test_both_streams_and_the_exit_code_come_through(tmp_path: Path) -> None:
    told = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)", tmp_path).until_over()
    assert (told.out, told.errors) == (b"out\n", b"err\n")
    ended = told.event("ended")
    assert (ended["code"], ended["signal"], ended["asked"]) == (7, None, False)
    assert [event["event"] for event in told.events] == ["started", "ended", "empty"]


def test_a_rank_starts_as_from_a_fresh_shell(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; print(os.getcwd(), sys.stdin.read() == '', os.environ['X'],"
        " signal.getsignal(signal.SIGTERM) == signal.getsignal(signal.SIGHUP) == signal.SIG_DFL)"
    )
    told = python(code, tmp_path, own={"X": "1"}).until_over()
    assert told.out.decode() == f"{tmp_path} True 1 True\n"


def test_what_a_rank_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    told = python(LEAVES, tmp_path).until_over()
    assert len(told.pids()) == 3
    assert alive(told.pids()) == []
    assert told.event("ended")["code"] == 0


def test_a_request_to_stop_is_answered_or_enforced_with_all_that_the_rank_started(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(15, lambda *_: print('no', flush=True)); print('up', flush=True)\n"
    told = python(f"import subprocess\n{deaf}subprocess.Popen(['sleep', '300'])\nwhile True: time.sleep(1)", tmp_path)
    told.until(b"up\n")
    began = time.monotonic()
    told.seat.tell("stop 0.5")
    told.until_over()
    assert 0.4 < time.monotonic() - began < 3
    assert told.out == b"up\nno\n"
    ended = told.event("ended")
    assert (ended["signal"], ended["asked"]) == (signal.SIGKILL, True)


def test_a_rank_may_save_before_it_ends(tmp_path: Path) -> None:
    saving = "import signal, sys, time; signal.signal(15, lambda *_: (time.sleep(0.3), print('saved'), sys.exit(0)))\n"
    told = python(f"{saving}print('up', flush=True)\nwhile True: time.sleep(1)", tmp_path).until(b"up\n")
    told.seat.tell("stop 20")
    assert told.until_over().out == b"up\nsaved\n"


HOLDER = """
import os, sys
sys.path.insert(0, sys.argv[1])
import tempfile
tempfile.tempdir = sys.argv[2]
from airlane.ranks.kit import build_kit
from airlane.ranks.seat import Seat
seat = Seat()
seat.start(build_kit(), sys.argv[3].encode(), "m", None)
while True:
    sys.stdout.buffer.write(seat.follow(1)[1])
    sys.stdout.flush()
"""


def test_nothing_is_left_when_the_seats_process_is_killed(tmp_path: Path) -> None:
    source = str(Path(__file__).parents[3] / "src")
    wanted = order(PYTHON, "-c", LEAVES + "time.sleep(300)", folder=tmp_path).to_json()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, source, str(tmp_path / "kits"), wanted], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        pids = [int(word) for _ in range(2) for word in holder.stdout.readline().split() if word.isdigit()]
        assert len(alive(pids)) == 3
        holder.kill()
    wait_until(lambda: not alive(pids), within_s=3, what=f"all are gone: {alive(pids)}")


def test_nothing_is_left_when_the_keeper_is_killed(tmp_path: Path) -> None:
    told = python(LEAVES + "time.sleep(300)", tmp_path).until(b"rank ")
    told.until(b"pids ")
    rank = told.event("started")["pid"]
    keeper = int(Path(f"/proc/{rank}/stat").read_text().rpartition(") ")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    told.until_over()
    assert told.event("lost")
    wait_until(lambda: not alive(told.pids()), within_s=3, what=f"all are gone: {alive(told.pids())}")


def test_a_rank_that_hangs_shows_where_in_every_thread(tmp_path: Path) -> None:
    code = """
import threading, time
def in_a_thread(): time.sleep(300)
def waits_here(): time.sleep(300)
threading.Thread(target=in_a_thread, daemon=True).start()
print("up", flush=True)
waits_here()
"""
    told = python(code, tmp_path, own={"PYTHONFAULTHANDLER": "1"}).until(b"up\n")
    told.seat.tell("dump")
    told.until_over()
    assert b"in waits_here" in told.errors
    assert b"in in_a_thread" in told.errors
    assert told.event("state")["state"] == "S"
    assert told.event("ended")["signal"] == signal.SIGABRT
    assert list(tmp_path.glob("core*")) == []


def test_a_rank_below_a_shell_and_one_that_is_stopped_show_their_stacks_too(tmp_path: Path) -> None:
    code = "import os, time\ndef waits_here():\n print('up', os.getpid(), flush=True); time.sleep(300)\nwaits_here()"
    (tmp_path / "x.py").write_text(code)
    words = ("bash", "-c", f"{sys.executable} x.py; true")
    told = started(order(*words, folder=tmp_path, own={"PYTHONFAULTHANDLER": "1"})).until(b"\n")
    os.kill(told.pids()[0], signal.SIGSTOP)
    told.seat.tell("dump")
    assert b"in waits_here" in told.until_over().errors


def test_a_rank_that_writes_faster_than_it_is_read_waits(tmp_path: Path) -> None:
    told = python("import sys\nfor n in range(10**7): print('x' * 99); n % 100 or print(n, file=sys.stderr)", tmp_path)
    time.sleep(1)  # nobody reads; the rank could have written a hundred megabytes
    told.follow()
    assert 0 < len(told.out) <= MOST_BYTES
    while len(told.out) < 3_000_000:
        _, out, errors, _ = told.seat.follow(1)
        assert len(out) <= MOST_BYTES
        assert len(errors) <= MOST_BYTES
        told.out += out
    lines = told.out.splitlines()
    assert {len(line) for line in lines[:-1]} == {99}
    told.seat.tell("kill")
    told.until_over()


def test_what_cannot_be_started_is_told_with_the_reason(tmp_path: Path) -> None:
    missing = python("", tmp_path, script="train.py").until_over()
    assert missing.event("failed")["why"] == f"{tmp_path / 'train.py'} is not there"
    program = started(order("no-such-program", folder=tmp_path)).until_over()
    assert "no-such-program" in program.event("failed")["why"]


def test_an_order_may_be_larger_than_a_pipe(tmp_path: Path) -> None:
    told = python("import os; print(len(os.environ['BIG']))", tmp_path, own={"BIG": "x" * 120_000, "C": "y" * 120_000})
    assert told.until_over().out == b"120000\n"


def test_what_a_rank_needs_lies_where_it_is_removed_even_if_all_on_the_node_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(scratch))
    told = python("print('up', flush=True); import time; time.sleep(300)", tmp_path).until(b"up\n")
    assert [path.name[:9] for path in scratch.iterdir()] == ["air-rank-"]
    told.seat.tell("kill")
    told.until_over()
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "gone"))
    assert python("print('up')", tmp_path).until_over().out == b"up\n"


def test_a_seat_can_start_one_rank_after_the_other(tmp_path: Path) -> None:
    seat = Seat()
    for count in range(3):
        wanted = order(PYTHON, "-c", f"print({count})", folder=tmp_path)
        seat.start(KIT, wanted.to_json().encode(), wanted.mark, None)
        assert Told(seat).until_over().out == b"%d\n" % count
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    wanted = order(PYTHON, "-c", "pass", folder=tmp_path)
    seat.start(KIT, wanted.to_json().encode(), wanted.mark, None)
    Told(seat).until_over()
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


@pytest.fixture
def seat() -> Iterator[Seat]:
    made = Seat()
    yield made
    if made._port is not None:
        made._port.close()


def test_the_held_port_is_nobodys_but_the_one_who_listens_as_a_store_does(seat: Seat) -> None:
    port = seat.hold_port()
    with socket.socket() as thief, pytest.raises(OSError, match="Address already in use"):
        thief.bind(("127.0.0.1", port))
    with socket.socket(socket.AF_INET6) as thief, pytest.raises(OSError, match="Address already in use"):
        thief.bind(("::1", port))
    with socket.socket() as store:
        store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        store.bind(("", port))
        store.listen()
        socket.create_connection(("127.0.0.1", port)).close()
    assert seat.hold_port() != port


def test_the_kernel_gives_a_held_port_to_nobody(seat: Seat) -> None:
    port = seat.hold_port()
    given = set()
    for _ in range(3000):
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", 0))
            given.add(other.getsockname()[1])
    assert len(given) > 1000
    assert port not in given

"""`python -I -S .../keeper.py STATUS_FD`: holds one rank with all it starts, and leaves nothing of it on the node.

A seat starts it and gives it the order as the first line of stdin, then requests: "stop SECONDS" (SIGTERM, then
SIGKILL), "kill", "dump" (every stack, then SIGKILL). When the seat is gone, stdin ends, and everything is killed at
once. It has a session of its own: Ray ends a worker's direct children and process group with the worker, and would make
orphans of the rank's own children. On STATUS_FD it tells what happens, one JSON object a line.

`keeper.py --sweep MARK` kills what is left of a rank whose keeper was killed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from airlane.launch.oom import oom_count, oom_killed
from airlane.launch.processes import descendants, kill_all, lives, read_stat, start_ticks, started_with
from airlane.ranks.order import Order
from airlane.ranks.program import MARK, RankProgram

TYPE_CHECKING = False
if TYPE_CHECKING:
    from airlane.launch.contained import Contained

ROOT = sys.path[0]
_CONTROL = 0
_SETTLE_S = 0.2  # what a rank leaves may finish what it is writing
_KILL_AGAIN_S = 0.02
_GIVE_UP_AFTER_S = 5.0
_STACK_S = 1.0
_MOST_STACKS = 16


class Keeper:
    """One rank that was started, until nothing of it is left."""

    def __init__(self, contained: Contained, status: int) -> None:
        self._contained = contained
        self._status = status
        self._requests = b""
        self._kill_at: float | None = None
        self._killing_since: float | None = None
        self._asked = False
        self._told_end = False
        self._oom_before = oom_count()
        self._poller = select.poll()
        self._poller.register(_CONTROL, select.POLLIN)
        self._wake = self._open_wake()

    def _open_wake(self) -> int:
        """A descriptor that becomes readable when a child ends."""
        wake, written = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(written, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        self._poller.register(wake, select.POLLIN)
        return wake

    def run(self) -> None:
        while not self._over():
            for descriptor, _ in self._poller.poll(self._patience_ms()):
                if descriptor == _CONTROL:
                    self._hear()
                else:
                    os.read(self._wake, 4096)
        tell(self._status, "empty", left=not self._contained.empty)

    def _over(self) -> bool:
        now = time.monotonic()
        self._contained.reap()
        if self._contained.status is not None and not self._told_end:
            self._told_end = True
            self._tell_end(self._contained.status)
            if not self._asked:
                self._kill_by(now + _SETTLE_S)
        if self._contained.empty:
            return True
        if self._kill_at is not None and now >= self._kill_at:
            self._killing_since = self._killing_since or now
            self._contained.kill()
        return self._killing_since is not None and now > self._killing_since + _GIVE_UP_AFTER_S

    def _tell_end(self, status: int) -> None:
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        code = os.WEXITSTATUS(status) if number is None else None
        name = "SIGKILL" if number == signal.SIGKILL else None
        oom = oom_killed(self._oom_before, oom_count(), exit_code=code, signal=name)
        tell(self._status, "ended", code=code, signal=number, oom=oom, asked=self._asked)

    def _patience_ms(self) -> float | None:
        if self._kill_at is None:
            return None
        return 1000 * max(self._kill_at - time.monotonic(), _KILL_AGAIN_S if self._killing_since else 0.0)

    def _hear(self) -> None:
        text = os.read(_CONTROL, 4096)
        if not text:  # the seat is gone
            self._poller.unregister(_CONTROL)
            self._ask_to_end(0.0)
            return
        *lines, self._requests = (self._requests + text).split(b"\n")
        for line in lines:
            word, _, argument = line.partition(b" ")
            if word == b"stop":
                self._ask_to_end(float(argument))
            elif word == b"kill":
                self._ask_to_end(0.0)
            elif word == b"dump":
                self._asked = True
                self._dump()
                self._ask_to_end(0.0)

    def _ask_to_end(self, grace_s: float) -> None:
        """SIGTERM, which happens once, and SIGKILL after the grace; without a grace SIGKILL alone."""
        first, self._asked = not self._asked, True
        if first and grace_s > 0:
            self._contained.terminate()
        self._kill_by(time.monotonic() + grace_s)

    def _kill_by(self, deadline: float) -> None:
        self._kill_at = deadline if self._kill_at is None else min(self._kill_at, deadline)

    def _dump(self) -> None:
        """Have each process show its stacks, one after the other: faulthandler does so on SIGABRT, which ends it."""
        found = [pid for pid, _ in descendants(os.getpid())]
        found.sort(key=lambda pid: pid != self._contained.pid)  # the rank itself first
        for pid in found[:_MOST_STACKS]:
            tell(self._status, "state", pid=pid, **process_state(pid))
            forbid_core(pid)
            for number in (signal.SIGABRT, signal.SIGCONT):
                send(pid, number)
            deadline = time.monotonic() + _STACK_S
            while lives(pid) and time.monotonic() < deadline:
                time.sleep(_KILL_AGAIN_S)


def tell(status: int, event: str, **fields: object) -> None:
    """One line to the seat, if there still is one."""
    try:
        os.write(status, json.dumps({"event": event, "at": time.time(), **fields}).encode() + b"\n")
    except OSError:
        return


def send(pid: int, number: int) -> None:
    """Signal a process of the rank, if it still is there: a child's pid is not another's before it was reaped."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def process_state(pid: int) -> dict[str, str]:
    """What the kernel says a process is doing: its state's letter, and where it waits; proc(5)."""
    try:
        letter = read_stat(pid)[0].decode()
        return {"state": letter, "waits_in": Path(f"/proc/{pid}/wchan").read_text(encoding="ascii").strip("0")}
    except OSError:
        return {"state": "", "waits_in": ""}


def forbid_core(pid: int) -> None:
    """A stack is wanted, not a file of the size of the process's memory."""
    import resource

    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_CORE)
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, hard))
    except (OSError, AttributeError):
        return


def contain(program: RankProgram) -> Contained:
    """Not in a PID namespace of its own: CUDA IPC, by which ranks of a node share GPU memory, does not cross them."""
    if sys.platform != "linux":
        from airlane.launch.process_group import ProcessGroup

        return ProcessGroup(program)
    from airlane.launch.subreaper import Subreaper

    return Subreaper(program)


def sweep(mark: str) -> int:
    """SIGKILL every process that carries a rank's mark, ourselves excepted; returns how many."""

    def marked() -> list[tuple[int, int]]:
        found = [(pid, start_ticks(pid)) for pid in started_with(f"{MARK}={mark}") if pid != os.getpid()]
        return [(pid, ticks) for pid, ticks in found if ticks is not None]

    return len(kill_all(marked))


def read_order() -> Order | None:
    """The first line of stdin; None if the seat is gone before it has said all."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(_CONTROL, 1 << 16)
        if not part:
            return None
        line += part
    return Order.from_json(line.decode())


def main(arguments: list[str]) -> int:
    if arguments[1] == "--sweep":
        sweep(arguments[2])
        return 0
    if os.fork():
        return 0
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # who wants the rank to end asks the launcher, or closes stdin
    status = int(arguments[1])
    os.set_inheritable(status, False)
    try:
        order = read_order()
        if order is not None:
            keep(order, status)
    finally:
        remove_kit()
    return 0


def remove_kit() -> None:
    import shutil

    shutil.rmtree(ROOT, ignore_errors=True)


def keep(order: Order, status: int) -> None:
    try:
        program = RankProgram(order, node=os.environ, python=sys.executable, kit=ROOT, here=str(Path.cwd()))
        contained = contain(program)
    except (OSError, ValueError) as error:
        tell(status, "failed", why=str(error))
        return
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):  # the rank's now: their readers see an end when the rank's processes have closed them
        os.dup2(null, stream)
    why = program.failure()
    if why is None:
        tell(status, "started", pid=contained.pid)
    else:
        tell(status, "failed", why=why)
    Keeper(contained, status).run()


if __name__ == "__main__":
    os._exit(main(sys.argv))

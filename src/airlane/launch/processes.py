"""Linux processes through /proc: who descends from whom, and signals that cannot hit a recycled pid."""

from __future__ import annotations

import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    # A process that cannot be mistaken for a later one: its pid and its start, in clock ticks since boot.
    Identity = tuple[int, int]

_STATE, _PARENT, _THREADS, _START = 0, 1, 17, 19  # positions in /proc/PID/stat after the name; proc(5)
_MOST_PASSES = 20
# In the environment of what serves the command, and must be there while the command answers a SIGTERM.
STOPS_LAST = "AIR_STOPS_LAST"


def read_stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat from the third on (the state). Raises OSError when there is no such process."""
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        text = file.read()
    return text[text.rindex(b")") + 2 :].split()


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when it is gone."""
    try:
        return int(read_stat(pid)[_START])
    except (OSError, ValueError):
        return None


def _lives(fields: list[bytes]) -> bool:
    """Zombies are dead: they only wait to be read. One whose other threads go on is not."""
    return fields[_STATE] not in (b"Z", b"X") or int(fields[_THREADS]) > 1


def lives(pid: int) -> bool:
    """Whether there is such a process, and it is not a zombie."""
    try:
        return _lives(read_stat(pid))
    except (OSError, ValueError):
        return False


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(*roots: int) -> list[Identity]:
    """Every live process below these, without them, parents first."""
    children: dict[int, list[int]] = {}
    starts: dict[int, int] = {}
    for pid in all_pids():
        try:
            fields = read_stat(pid)
        except (OSError, ValueError):
            continue  # ended meanwhile
        children.setdefault(int(fields[_PARENT]), []).append(pid)
        if _lives(fields):
            starts[pid] = int(fields[_START])
    below = [child for root in roots for child in children.get(root, ())]
    for pid in below:
        below.extend(children.pop(pid, ()))
    return [(pid, starts[pid]) for pid in below if pid in starts]


def send(process: Identity, number: int) -> bool:
    """Signal one process; False when it is gone, or is not ours to signal."""
    pid, started = process
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):
        return _send_by_pid(process, number)  # Linux before 5.3
    try:
        if start_ticks(pid) != started:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(descriptor)
    return True


def _send_by_pid(process: Identity, number: int) -> bool:
    pid, started = process
    if start_ticks(pid) != started:
        return False
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def send_all(find: Callable[[], list[Identity]], number: int) -> list[Identity]:
    """Signal everything that `find` finds, again until it finds nothing new; returns whom the signal reached."""
    tried: set[Identity] = set()
    reached: list[Identity] = []
    for _ in range(_MOST_PASSES):
        new = [process for process in find() if process not in tried]
        if not new:
            break
        tried.update(new)
        reached.extend(process for process in new if send(process, number))
    return reached


def kill_all(find: Callable[[], list[Identity]]) -> set[Identity]:
    """SIGKILL everything that `find` finds; what was stopped first cannot fork its way out."""
    stopped = send_all(find, signal.SIGSTOP)
    return {process for process in stopped if send(process, signal.SIGKILL)}


def terminate_all(find: Callable[[], list[Identity]]) -> None:
    """SIGTERM everything that `find` finds, and wake what is stopped so that it can answer.

    A shell must hear of it before its children do: else it sees a child fail, and `set -e` ends it without its trap.
    What starts from now on is left alone: it may be what a trap calls to save. So is what stops last.
    """

    def askable() -> list[Identity]:
        return [process for process in find() if not stops_last(process[0])]

    listed = askable()
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    reached = [process for process in listed if send(process, signal.SIGTERM)]
    # Forked while the list was made:
    missed = send_all(lambda: [one for one in askable() if one[1] < now and one not in listed], signal.SIGTERM)
    for process in reached + missed:
        send(process, signal.SIGCONT)


def stops_last(pid: int) -> bool:
    return f"{STOPS_LAST}=".encode() in environment_text(pid)


def started_with(*words: str) -> list[int]:
    """Whose environment had all of these, NAME=VALUE each, when it was started."""
    wanted = {word.encode() for word in words}
    return [pid for pid in all_pids() if wanted.issubset(environment_text(pid).split(b"\0"))]


def environment_text(pid: int) -> bytes:
    """The environment that a process was started with, NAME=VALUE and a NUL each; empty when it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""

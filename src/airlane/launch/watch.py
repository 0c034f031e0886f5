"""Watching the command: requests from the supervisor, signals, deadlines, and the record at the end."""

from __future__ import annotations

import os
import select
import signal
import sys
import time

from airlane.launch import libc
from airlane.launch.complaint import EXIT_NO_RECORD, complain
from airlane.launch.ending import CUT_OFF, Ending
from airlane.launch.heart import Heart
from airlane.launch.lease import Lease
from airlane.launch.oom import oom_count, oom_killed
from airlane.launch.record import RecordFile
from airlane.launch.scratch import remove_scratch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from airlane.launch.command import Command
    from airlane.launch.contained import Contained
    from airlane.launch.order import Order
    from airlane.launch.output import MaskedOutput
    from airlane.launch.system_metrics import Sampler

_CONTROL = 0  # the agent's stdin: a pipe from the supervisor
_REQUESTS = {b"stop": "stop", b"kill": "kill"}
_KILL_AGAIN_S = 0.02
_GIVE_UP_AFTER_S = 10.0


def give_up(order: Order, started_at: float, error: Exception) -> int:
    """Record that the command could not even be started; returns the agent's exit code."""
    fields = _first_fields(order, started_at)
    fields.update(containment="none", ended_at=time.time(), error=f"the command could not be started: {error}")
    remove_scratch(order.scratch_folders)
    return _write_final(RecordFile(order.record_file), fields)


class Watch:
    """One started command, until nothing of it is left."""

    def __init__(self, order: Order, command: Command, contained: Contained, started_at: float) -> None:
        self._order = order
        self._command = command
        self._contained = contained
        self._ending = Ending(stop_grace_s=order.stop_grace_s, orphan_grace_s=order.orphan_grace_s)
        self._record = RecordFile(order.record_file)
        self._fields = _first_fields(order, started_at)
        self._fields.update(containment=contained.name, pid=contained.pid, network=command.network)
        self._ended_at: float | None = None
        self._kill_started: float | None = None
        self._oom_before = oom_count()
        self._control_text = b""
        self._rank = b"%d" % order.node_rank
        self._heart = Heart(order.beat_interval_s)
        self._lease = Lease(order.silence_s, time.monotonic())
        self._poller = select.poll()
        self._poller.register(_CONTROL, select.POLLIN)
        if contained.news is not None:
            self._poller.register(contained.news, select.POLLIN)
        self._wake = self._open_wake()
        self._output = self._open_output()
        self._sampler = self._open_sampler()

    def run(self) -> int:
        """Returns the agent's exit code."""
        try:
            self._record.begin(self._fields)
        except OSError as error:
            # The run goes on: a disk that is full now may have room at the end.
            complain(f"the record could not be written: {error}")
        if self._sampler:
            self._sampler.start()
        while not self._over():
            self._wait()
        return self._finish()

    def _open_wake(self) -> int:
        """A descriptor that becomes readable when a child ends or someone signals us."""
        wake, written = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(written, False)
        for number in (signal.SIGCHLD, *libc.STOP_SIGNALS):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, libc.STOP_SIGNALS)
        self._poller.register(wake, select.POLLIN)
        return wake

    def _open_output(self) -> MaskedOutput | None:
        if not self._command.secrets:
            return None
        from airlane.launch.output import MaskedOutput

        source = self._command.output_end
        self._poller.register(source, select.POLLIN)
        return MaskedOutput(source, self._command.log, self._command.secrets.values())

    def _open_sampler(self) -> Sampler | None:
        if self._order.metrics_file is None:
            return None
        from airlane.launch.system_metrics import Sampler

        return Sampler(self._order.metrics_file, interval_s=self._order.metrics_interval_s, gpus=self._order.gpus)

    def _over(self) -> bool:
        """Collect what has ended, do what is due; true when nothing is left, or when the rest cannot be ended."""
        contained, now = self._contained, time.monotonic()
        contained.reap()
        if contained.status is not None and self._ended_at is None:
            self._ended_at = time.time()
            self._ending.command_over(now)
        if contained.empty:
            return True
        if self._lease.over:
            self._ask(CUT_OFF)
        if self._ending.kill_at is not None and now >= self._ending.kill_at:
            if self._kill_started is None:
                self._kill_started = now
            contained.kill()
        return self._kill_started is not None and now > self._kill_started + _GIVE_UP_AFTER_S

    def _wait(self) -> None:
        events = self._poller.poll(self._timeout_ms())
        self._lease.look(time.monotonic())
        for descriptor, event in events:
            if descriptor == _CONTROL:
                self._read_control()
            elif descriptor == self._wake:
                self._read_signals()
            elif descriptor == self._contained.news:
                if event & select.POLLHUP:
                    self._poller.unregister(descriptor)
            else:
                self._pump()

    def _timeout_ms(self) -> float | None:
        beat_s = self._heart.beat()
        if self._ending.kill_at is None:
            return None if beat_s is None else 1000 * beat_s
        left_s = max(self._ending.kill_at - time.monotonic(), _KILL_AGAIN_S if self._kill_started is not None else 0.0)
        return 1000 * (left_s if beat_s is None else min(left_s, beat_s))

    def _read_control(self) -> None:
        try:
            text = os.read(_CONTROL, 4096)
        except OSError:
            text = b""
        if not text:  # the supervisor is gone
            self._poller.unregister(_CONTROL)
            self._ask(CUT_OFF if self._lease.overslept else "orphaned")
            return
        self._lease.heard()
        *lines, self._control_text = (self._control_text + text).split(b"\n")
        for line in lines:
            request, _, node = line.strip().partition(b" ")  # a launcher tells all nodes what is for one
            if request in _REQUESTS and node in (b"", self._rank):
                self._ask(_REQUESTS[request])

    def _read_signals(self) -> None:
        if set(os.read(self._wake, 4096)) & set(libc.STOP_SIGNALS):
            self._ask("stop")

    def _ask(self, reason: str) -> None:
        if self._ending.ask(reason, time.monotonic()):
            self._contained.terminate()

    def _pump(self) -> None:
        if self._output and not self._output.pump() and self._output.ended:
            self._poller.unregister(self._output.source)

    def _finish(self) -> int:
        if self._sampler:
            self._sampler.stop()
        if self._output:
            self._output.finish()
            self._fields["log_bytes_lost"] = self._output.lost_bytes
        left = self._contained.close()
        remove_scratch(self._order.scratch_folders)
        self._fields.update(self._outcome())
        if left is not None and self._fields["error"] is None:
            self._fields["error"] = left
        return _write_final(self._record, self._fields)

    def _outcome(self) -> dict[str, Any]:
        outcome: dict[str, Any] = {
            "ended_at": self._ended_at or time.time(),
            "stop_reason": self._ending.reason,
            "leftovers_killed": self._contained.killed,
            **_how(self._contained.status),
        }
        failure = self._command.failure()
        if failure is not None:
            outcome.update(exit_code=None, error=f"the command could not be started: {failure}")
        elif not self._contained.empty:
            outcome["error"] = f"processes of the command were still there {_GIVE_UP_AFTER_S:.0f} s after SIGKILL"
        ended = {"exit_code": outcome["exit_code"], "signal": outcome["signal"]}
        outcome["oom_kill"] = self._contained.oom_kill or oom_killed(self._oom_before, oom_count(), **ended)
        return outcome


def _first_fields(order: Order, started_at: float) -> dict[str, Any]:
    """The record as it stands while the command runs."""
    ticks = None
    if sys.platform == "linux":
        from airlane.launch.processes import start_ticks

        ticks = start_ticks(os.getpid())
    return {
        "node_rank": order.node_rank,
        "host": os.uname().nodename,
        "agent_pid": os.getpid(),
        "agent_start_ticks": ticks,
        "started_at": started_at,
        "pid": None,
        "ended_at": None,
        "exit_code": None,
        "signal": None,
        "oom_kill": False,
        "stop_reason": None,
        "leftovers_killed": 0,
        "network": None,
        "error": None,
    }


def _how(status: int | None) -> dict[str, Any]:
    """Exit code or signal name of a wait status; both None when it never came."""
    if status is None:
        return {"exit_code": None, "signal": None}
    if os.WIFEXITED(status):
        return {"exit_code": os.WEXITSTATUS(status), "signal": None}
    number = os.WTERMSIG(status)
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"SIGRTMIN+{number - signal.SIGRTMIN}"
    return {"exit_code": None, "signal": name}


def _write_final(record: RecordFile, fields: dict[str, Any]) -> int:
    try:
        record.finish(fields)
    except OSError as error:
        complain(f"the record could not be written: {error}")
        return EXIT_NO_RECORD
    return 0

"""A node's agent: starts the user's command, stays until nothing of it is left, and writes down how it ended.

Exit codes: 0 the final record is written; 64 there was no readable order; 74 the record could not be written.
This file comes before the command's start: what it imports is what the user waits for.
"""

from __future__ import annotations

import os
import sys
import time

from airlane.launch import libc
from airlane.launch.command import KEPT_DESCRIPTORS, Command
from airlane.launch.complaint import EXIT_NO_ORDER, complain
from airlane.launch.order_file import START, WHEN_TOLD, read_order
from airlane.launch.reserve import reserve
from airlane.launch.scratch import make_scratch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from airlane.launch.contained import Contained
    from airlane.launch.order import Order

_FIRST_FREE_DESCRIPTOR = 3


def main(arguments: list[str]) -> int:
    """Carry out the order whose file is the last argument; returns the exit code.

    With `--when-told` before it, the file is read once stdin has said `start`: the interpreter is up by then.
    """
    started_at = time.time()
    fill_standard_descriptors()
    libc.block_stop_signals()
    try:
        *options, path = arguments[1:]
        if WHEN_TOLD in options and not told_to_start():
            return EXIT_NO_ORDER
        order = read_order(path)
        keep_descriptors(os.environ.pop(KEPT_DESCRIPTORS, ""))
    except (OSError, ValueError, TypeError) as error:
        complain(f"no order to carry out: {error}")
        return EXIT_NO_ORDER
    try:
        reserve(order.record_file)
        make_scratch(order.scratch_folders)
        command = Command(order)
        contained = contain(order, command)
    except (OSError, ValueError) as error:
        from airlane.launch.watch import give_up

        return give_up(order, started_at, error)
    command.release()

    from airlane.launch.watch import Watch

    return Watch(order, command, contained, started_at).run()


def told_to_start() -> bool:
    """Wait for the word, with everything imported that the start needs; False if the supervisor is gone before it."""
    from airlane.launch import pid_namespace, watch  # noqa: F401

    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)  # one at a time: what follows is for the watch
        if not byte:
            return False
        line += byte
    return line == START


def fill_standard_descriptors() -> None:
    """Open what a launcher closed of the first three descriptors, so that no file of ours takes their place."""
    for descriptor in range(_FIRST_FREE_DESCRIPTOR):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one


def keep_descriptors(numbers: str) -> None:
    """Keep the descriptors "5,6" for as long as the agent lives, without the command; close all others it was given.

    Raises ValueError or OSError when one is not a number, or not open.
    """
    kept = {int(number) for number in numbers.split(",") if number}
    for descriptor in kept:
        os.set_inheritable(descriptor, False)
    for name in os.listdir("/dev/fd"):
        if int(name) >= _FIRST_FREE_DESCRIPTOR and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                continue  # the listing's own


def contain(order: Order, command: Command) -> Contained:
    """Start the command: in a PID namespace where that is wanted ("auto": as root) and permitted. Raises OSError."""
    wanted = order.containment
    if sys.platform != "linux":
        from airlane.launch.process_group import ProcessGroup

        return ProcessGroup(command)
    if command.runtime in ("docker", "podman"):
        from airlane.launch.container import EngineContainer

        return EngineContainer(command, command.runtime, order)
    if wanted == "pid_namespace" or (wanted == "auto" and os.geteuid() == 0):
        namespace = in_namespace(command)
        if namespace is not None:
            return namespace
    from airlane.launch.subreaper import Subreaper

    return Subreaper(command)


def in_namespace(command: Command) -> Contained | None:
    """The command in a PID namespace of its own; None where that is not permitted, as in many containers."""
    from airlane.launch.pid_namespace import PidNamespace

    try:
        return PidNamespace(command)
    except OSError:
        return None  # the record says which containment it was

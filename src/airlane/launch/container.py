"""Containment in an engine's container, whose processes are not our own: they end with a pipe that we hold."""

from __future__ import annotations

import os
import signal

from airlane.launch.container_argv import box_of
from airlane.launch.subreaper import Subreaper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from airlane.launch.command import Command
    from airlane.launch.order import Order


class EngineContainer(Subreaper):
    """The command is a runner (`pid`), below it the engine's client; the container is the engine's.

    What the engine puts beside it (podman's monitor) is not to be signalled: it would end the container at once.
    """

    def __init__(self, command: Command, runtime: str, order: Order) -> None:
        self.name = runtime
        self._runtime = runtime
        self._order = order
        self._asked = False
        super().__init__(command)

    def reap(self) -> None:
        super().reap()
        if self.status is not None and not self._asked:
            from airlane.launch.container_runner import read_ended

            self._asked = True
            ended = read_ended(box_of(self._order))
            self.oom_kill = ended is not None and ended[0] != 0 and ended[1] > 0

    def terminate(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGTERM)  # a zombie of ours at worst: its pid cannot be another's

    def close(self) -> str | None:
        from airlane.launch.container_runner import remove
        from airlane.launch.sweep import sweep

        # A runner that was not ended by force has seen its container end.
        if self.status is not None and not os.WIFSIGNALED(self.status):
            return None
        refused = remove(self._runtime, self._order)
        if refused is None:
            return None
        order = self._order
        sweep(order.run_id, attempt=order.attempt, node=order.node_rank)
        return f"the container may be left: {refused}"

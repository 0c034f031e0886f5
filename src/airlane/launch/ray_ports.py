"""The ports of one Ray node: a block of its own, so that clusters on one host never meet."""

from __future__ import annotations

import os
import socket

BLOCK = 16
# Ray gives 10002-19999 to workers and 23000-23999 to the servers of its clients unless told otherwise.
_FIRST, _LAST = 20_000, 32_000
_TAKEN_BY_RAY = range(23_000, 24_000)
_LOWEST = 10_240
_TRIES = 500


class PortBlock:
    """Sixteen free TCP ports, kept from other Airlane nodes by a UDP socket on the first for as long as this lives.

    UDP and TCP ports do not meet, so Ray can use the TCP port; and the kernel frees the socket, whatever ends us.
    """

    def __init__(self, base: int, reservation: socket.socket) -> None:
        self.base = base
        self._reservation = reservation
        self.gcs = base
        self.dashboard = base + 1
        self.client = base + 2
        self.node_manager = base + 3
        self.object_manager = base + 4
        self.agent_http = base + 5
        self.agent_grpc = base + 6
        self.runtime_env_agent = base + 7
        self.metrics = base + 8
        self.dashboard_metrics = base + 9
        self.autoscaler_metrics = base + 10

    def is_free(self) -> bool:
        """Whether nobody listens on any of the ports now."""
        return all(_is_free(port) for port in range(self.base, self.base + BLOCK))

    def give_back(self) -> None:
        self._reservation.close()


def take_block() -> PortBlock:
    """A free block, below the ports that the kernel hands out by itself. Raises OSError when none is found."""
    choices = _choices(_lowest_ephemeral())
    for _ in range(_TRIES):
        base = choices[int.from_bytes(os.urandom(4), "big") % len(choices)]
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            reservation.bind(("", base))
        except OSError:
            reservation.close()
            continue
        block = PortBlock(base, reservation)
        if block.is_free():
            return block
        block.give_back()
    raise OSError(f"no {BLOCK} free ports side by side from {choices[0]} to {choices[-1]}")


def _choices(ephemeral: int) -> list[int]:
    """The first ports of all blocks that may be taken."""
    last = min(_LAST, ephemeral)
    first = _FIRST if last > _FIRST + 1000 else _LOWEST
    return [base for base in range(first, last - BLOCK, BLOCK) if not _meets(base, _TAKEN_BY_RAY)] or [_LOWEST]


def _meets(base: int, taken: range) -> bool:
    return base < taken.stop and base + BLOCK > taken.start


def _lowest_ephemeral() -> int:
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return _LAST


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True

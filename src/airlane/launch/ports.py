"""Ports that are free."""

from __future__ import annotations

import os

_PORTS_TOGETHER = 4


def free_port(address: str = "127.0.0.1") -> int:
    """A TCP port that is free now together with the next few, which programs like to use beside it.

    It is below the range that the kernel hands out by itself, so that it stays free.
    """
    while True:
        port = 20_000 + int.from_bytes(os.urandom(4), "big") % 10_000
        if all(_is_free(address, each) for each in range(port, port + _PORTS_TOGETHER)):
            return port


def _is_free(address: str, port: int) -> bool:
    import socket

    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True

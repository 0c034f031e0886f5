"""Ports that are free, with the next few."""

from __future__ import annotations

import os
import socket
from contextlib import closing

import pytest

from airlane.launch.ports import free_port


def test_a_free_port_and_the_next_ones_can_be_listened_on() -> None:
    port = free_port()
    assert 20_000 <= port < 30_000
    for each in range(port, port + 4):
        with closing(socket.socket()) as made:
            made.bind(("127.0.0.1", each))
            made.listen()


def two_ports(address: str = "127.0.0.1") -> tuple[int, int]:
    """Free ports that are no neighbours."""
    first = other = free_port(address)
    while abs(first - other) < 8:
        other = free_port(address)
    return first, other


def choose(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """Have these be tried, in this order."""
    chosen = iter(ports)
    monkeypatch.setattr(os, "urandom", lambda size: (next(chosen) - 20_000).to_bytes(size, "big"))


@pytest.mark.parametrize("offset", [0, 3])
def test_a_port_that_is_taken_or_whose_neighbour_is_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    first, other = two_ports()
    choose(monkeypatch, first, other)
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", first + offset))
        taken.listen()
        assert free_port() == other


def test_a_port_is_looked_for_on_the_address_that_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = two_ports("127.0.0.2")
    choose(monkeypatch, first, other)
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        assert free_port("127.0.0.2") == first

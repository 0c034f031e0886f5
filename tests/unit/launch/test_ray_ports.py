"""The ports of a Ray node."""

from __future__ import annotations

import socket

import pytest

from airlane.launch import ray_ports
from airlane.launch.ray_ports import BLOCK, take_block


def test_no_two_blocks_that_are_held_share_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_ports, "_choices", lambda _ephemeral: [21_008, 21_024, 21_040])
    held = [take_block() for _ in range(3)]
    assert sorted(block.base for block in held) == [21_008, 21_024, 21_040]
    with pytest.raises(OSError, match=r"no 16 free ports side by side from 21008 to 21040"):
        take_block()
    held.pop(1).give_back()
    held.append(take_block())
    assert len({block.base for block in held}) == 3
    for block in held:
        block.give_back()


def test_a_block_with_a_port_that_somebody_listens_on_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_ports, "_choices", lambda _ephemeral: [21_072, 21_088])
    with socket.create_server(("127.0.0.1", 21_075)):
        block = take_block()
    assert block.base == 21_088
    block.give_back()


@pytest.mark.parametrize("ephemeral", [32_768, 49_152, 16_000])
def test_blocks_stay_clear_of_what_ray_and_the_kernel_give_to_others(ephemeral: int) -> None:
    ports = {port for base in ray_ports._choices(ephemeral) for port in range(base, base + BLOCK)}
    assert ports
    assert max(ports) < ephemeral
    assert not ports & set(range(23_000, 24_000))


def test_every_port_of_a_node_is_its_own() -> None:
    block = take_block()
    ports = [value for name, value in vars(block).items() if isinstance(value, int) and name != "base"]
    assert len(ports) == len(set(ports)) == 11
    assert set(ports) <= set(range(block.base, block.base + BLOCK))
    block.give_back()

"""Network presets on a real node: this one, as it finds its way to its own address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airlane.launch.interface import interface_towards, reachable_address

if TYPE_CHECKING:
    from e2e.launch.conftest import AgentHost

ADDRESS = reachable_address()
SHOW = 'echo "$NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME"'
pytestmark = pytest.mark.skipif(ADDRESS is None, reason="this machine has no address but loopback")


@pytest.fixture
def towards() -> dict[str, str]:
    return {"MASTER_ADDR": str(ADDRESS)}


@pytest.fixture
def interface(towards: dict[str, str]) -> str:
    return str(interface_towards(towards["MASTER_ADDR"]))


def test_the_command_finds_the_variables_and_the_record_says_what_was_chosen(
    user_host: AgentHost, towards: dict[str, str], interface: str
) -> None:
    agent = user_host.run(SHOW, network="ethernet", env=towards)
    assert agent.log == f"={interface} {interface}\n"
    assert agent.record["network"] == f"ethernet; sockets: {interface}"


def test_what_the_workload_sets_wins(user_host: AgentHost, towards: dict[str, str], interface: str) -> None:
    agent = user_host.run(SHOW, network="ethernet", env={**towards, "NCCL_SOCKET_IFNAME": "bond0"})
    assert agent.log == f"bond0 {interface}\n"


def test_without_a_preset_nothing_is_set(user_host: AgentHost, towards: dict[str, str]) -> None:
    agent = user_host.run('echo "<${NCCL_SOCKET_IFNAME-}>"', env=towards)
    assert (agent.log, agent.record["network"]) == ("<>\n", None)


@pytest.mark.skipif(Path("/sys/class/infiniband").exists(), reason="this machine may have the device")
def test_a_node_without_the_device_that_is_named_says_so(user_host: AgentHost, towards: dict[str, str]) -> None:
    record = user_host.run("true", network="efa", env=towards).record
    assert record["exit_code"] is None
    assert "could not be started: network: efa, and this node has no EFA device" in record["error"]

"""Network presets on a real node: this one, whose way to itself is the loopback interface."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from e2e.launch.conftest import AgentHost

TOWARDS = {"MASTER_ADDR": "127.0.0.1"}


def test_the_command_finds_the_variables_and_the_record_says_what_was_chosen(user_host: AgentHost) -> None:
    agent = user_host.run('echo "$NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME"', network="ethernet", env=TOWARDS)
    assert agent.log == "=lo lo\n"
    assert agent.record["network"] == "ethernet; sockets: lo"


def test_what_the_workload_sets_wins(user_host: AgentHost) -> None:
    set_by_hand = {**TOWARDS, "NCCL_SOCKET_IFNAME": "bond0"}
    agent = user_host.run('echo "$NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME"', network="ethernet", env=set_by_hand)
    assert agent.log == "bond0 lo\n"


def test_without_a_preset_nothing_is_set(user_host: AgentHost) -> None:
    agent = user_host.run('echo "<${NCCL_SOCKET_IFNAME-}>"', env=TOWARDS)
    assert (agent.log, agent.record["network"]) == ("<>\n", None)


@pytest.mark.skipif(Path("/sys/class/infiniband").exists(), reason="this machine may have the device")
def test_a_node_without_the_device_that_is_named_says_so(user_host: AgentHost) -> None:
    record = user_host.run("true", network="efa", env=TOWARDS).record
    assert record["exit_code"] is None
    assert "could not be started: network: efa, and this node has no EFA device" in record["error"]

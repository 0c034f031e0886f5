"""The network presets. No such device is here: /sys is made of folders, links and files like those of real nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from airlane.launch.interface import interface_towards
from airlane.launch.network import Devices, choose, detect, network_variables, settle, words

HERE = "127.0.0.1"
ELSEWHERE = "192.0.2.1"  # reserved for examples


class MadeSys:
    """Devices below a made root folder."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._root = root
        self._devices = root / "sys/class/infiniband"

    def add(self, name: str, driver: str, *, state: str = "4: ACTIVE", layer: str = "InfiniBand") -> None:
        hardware = self._devices / name / "device"
        hardware.mkdir(parents=True)
        (hardware / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
        port = self._devices / name / "ports/1"
        port.mkdir(parents=True)
        (port / "state").write_text(f"{state}\n")
        (port / "link_layer").write_text(f"{layer}\n")

    def add_software(self, name: str) -> None:
        """A device of the kernel's own, as soft-RoCE makes them: no hardware below it."""
        self.add(name, "none", layer="Ethernet")
        for file in (self._devices / name / "device").iterdir():
            file.unlink()
        (self._devices / name / "device").rmdir()

    def name_machine(self, product: str) -> None:
        folder = self._root / "sys/class/dmi/id"
        folder.mkdir(parents=True)
        (folder / "product_name").write_text(f"{product}\n")

    def detect(self) -> Devices:
        return detect(HERE, self.root)


@pytest.fixture
def sys_files(tmp_path: Path) -> MadeSys:
    return MadeSys(tmp_path / 'it\'s a "root" é')


def test_a_made_sys_without_devices_means_ethernet(sys_files: MadeSys) -> None:
    found = sys_files.detect()
    assert (found.efa, found.ports) == ((), ())
    assert choose("auto", found) == "ethernet"


def test_active_infiniband_ports_of_a_made_sys_are_found_in_order(sys_files: MadeSys) -> None:
    for number in (10, 2, 0):
        sys_files.add(f"mlx5_{number}", "mlx5_core")
    sys_files.add("mlx5_1", "mlx5_core", state="1: DOWN")
    found = sys_files.detect()
    assert found.ports == ("mlx5_0:1", "mlx5_2:1", "mlx5_10:1")
    assert choose("auto", found) == "infiniband"


def test_ethernet_ports_of_a_made_sys_are_left_out_beside_infiniband(sys_files: MadeSys) -> None:
    sys_files.add("mlx5_0", "mlx5_core")
    sys_files.add("mlx5_bond_0", "mlx5_core", layer="Ethernet")
    assert sys_files.detect().ports == ("mlx5_0:1",)


def test_roce_ports_of_a_made_sys_are_used_where_there_is_no_infiniband(sys_files: MadeSys) -> None:
    sys_files.add("mlx5_0", "mlx5_core", layer="Ethernet")
    sys_files.add_software("rxe0")
    assert sys_files.detect().ports == ("mlx5_0:1",)


def test_efa_devices_of_a_made_sys_are_known_by_their_driver(sys_files: MadeSys) -> None:
    sys_files.add("rdmap16s27", "efa", layer="Unspecified")
    sys_files.add("rdmap32s27", "efa", layer="Unspecified")
    found = sys_files.detect()
    assert (found.efa, found.ports) == (("rdmap16s27", "rdmap32s27"), ())
    assert choose("auto", found) == "efa"


@pytest.mark.parametrize(
    ("machine", "asked"), [("p4d.24xlarge", True), ("p5en.48xlarge", True), ("g5.48xlarge", False)]
)
def test_efa_is_asked_for_rdma_only_on_a_made_machine_that_has_it(
    sys_files: MadeSys, machine: str, asked: bool
) -> None:
    sys_files.add("efa_0", "efa", layer="Unspecified")
    sys_files.name_machine(machine)
    assert ("FI_EFA_USE_DEVICE_RDMA" in network_variables("efa", sys_files.detect())) is asked


def test_the_interface_is_the_one_that_has_the_address() -> None:
    assert interface_towards(HERE) == "lo"


def test_an_address_that_no_interface_has_leaves_the_choice_to_nccl_and_gloo(sys_files: MadeSys) -> None:
    assert detect("127.0.1.1", sys_files.root).interface is None  # a machine's own name on many, and no way to others
    assert detect("no-such-host.invalid", sys_files.root).interface is None
    assert "NCCL_SOCKET_IFNAME" not in network_variables("ethernet", Devices())


def test_efa_sets_what_aws_recommends() -> None:
    assert network_variables("efa", Devices(efa=("rdmap16s27",), efa_rdma=True, interface="enp39s0")) == {
        "FI_PROVIDER": "efa",
        "FI_EFA_USE_DEVICE_RDMA": "1",
        "FI_EFA_USE_HUGE_PAGE": "0",
        "NCCL_P2P_NET_CHUNKSIZE": "524288",
        "NCCL_SOCKET_IFNAME": "=enp39s0",
        "GLOO_SOCKET_IFNAME": "enp39s0",
    }


def test_infiniband_names_the_ports_exactly() -> None:
    assert network_variables("infiniband", Devices(ports=("mlx5_0:1", "mlx5_1:1"), interface="ib0")) == {
        "NCCL_IB_DISABLE": "0",
        "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
        "NCCL_SOCKET_IFNAME": "=ib0",
        "GLOO_SOCKET_IFNAME": "ib0",
    }


def test_ethernet_uses_sockets_whatever_else_there_is() -> None:
    assert network_variables("ethernet", Devices(efa=("efa_0",), ports=("mlx5_0:1",), interface="eth0")) == {
        "NCCL_IB_DISABLE": "1",
        "NCCL_NET": "Socket",
        "NCCL_SOCKET_IFNAME": "=eth0",
        "GLOO_SOCKET_IFNAME": "eth0",
    }


@pytest.mark.parametrize(("preset", "wanted"), [("efa", "EFA device"), ("infiniband", "active port")])
def test_a_named_network_that_the_node_lacks_is_refused_with_the_next_step(preset: str, wanted: str) -> None:
    with pytest.raises(ValueError, match=rf"network: {preset}.* no {wanted} .*; network: auto"):
        choose(preset, Devices(interface="eth0"))


def test_a_named_preset_wins_over_the_node_and_auto_leaves_the_node_alone(sys_files: MadeSys) -> None:
    node = {"NCCL_IB_DISABLE": "0", "NCCL_DEBUG": "INFO"}
    named, _ = settle("ethernet", node, towards=ELSEWHERE, root=sys_files.root)
    assert (named["NCCL_IB_DISABLE"], named["NCCL_DEBUG"]) == ("1", "INFO")
    left, _ = settle("auto", node, towards=ELSEWHERE, root=sys_files.root)
    assert (left["NCCL_IB_DISABLE"], left["NCCL_NET"]) == ("0", "Socket")


@pytest.mark.parametrize("towards", ["127.0.0.1", "localhost"])
def test_nodes_that_share_a_machine_need_no_network(sys_files: MadeSys, towards: str) -> None:
    node = {"NCCL_DEBUG": "INFO"}
    assert settle("efa", node, towards=towards, root=sys_files.root) == (node, "none: all nodes are on this machine")


def test_what_was_chosen_is_said_in_words() -> None:
    both = Devices(ports=("mlx5_0:1", "mlx5_1:1"), interface="eth0")
    assert words("infiniband", both) == "infiniband: mlx5_0:1, mlx5_1:1; sockets: eth0"
    assert words("ethernet", both) == "ethernet; sockets: eth0"
    assert words("ethernet", Devices()) == "ethernet"

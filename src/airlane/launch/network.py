"""The variables that tell NCCL, libfabric and gloo which network to use between the nodes of a run.

Made on each node, from the devices it has. Where each value comes from: docs/guides/network.md.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

PRESETS = ("efa", "infiniband", "ethernet", "auto")
_DEVICES = "sys/class/infiniband"
_MACHINE = "sys/class/dmi/id/product_name"
# Where AWS asks for it. libfabric from 1.18 on needs no asking, and aborts where the device cannot (g5).
_EFA_WITH_RDMA = ("p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge")


class Devices:
    """What a node has: its EFA devices, its InfiniBand or RoCE ports ("mlx5_0:1"), its interface towards the others."""

    def __init__(
        self,
        *,
        efa: tuple[str, ...] = (),
        efa_rdma: bool = False,
        ports: tuple[str, ...] = (),
        interface: Optional[str] = None,
    ) -> None:
        self.efa = efa
        self.efa_rdma = efa_rdma
        self.ports = ports
        self.interface = interface


def settle(
    preset: str, inherited: dict[str, str], *, towards: str, root: str = "/"
) -> tuple[dict[str, str], Optional[str]]:
    """The node's environment with the preset's variables, and in words what was chosen.

    A preset that is named wins over what the node has set itself; `auto` leaves that alone. `towards` is the first
    node; `root` is where /sys stands. Raises ValueError where the node has no such network.
    """
    if towards == "localhost" or towards.startswith("127."):
        return inherited, "none: all nodes are on this machine"
    devices = detect(towards, root)
    chosen = choose(preset, devices)
    variables = network_variables(chosen, devices)
    if preset == "auto":
        return {**variables, **inherited}, words(chosen, devices)
    return {**inherited, **variables}, words(chosen, devices)


def choose(preset: str, devices: Devices) -> str:
    """The network to use. Raises ValueError where the node lacks what the preset names."""
    if preset == "auto":
        return "efa" if devices.efa else "infiniband" if devices.ports else "ethernet"
    if preset == "efa" and not devices.efa:
        raise ValueError(
            f"network: efa, and this node has no EFA device in /{_DEVICES}; network: auto takes what it has"
        )
    if preset == "infiniband" and not devices.ports:
        raise ValueError(
            f"network: infiniband, and this node has no active port in /{_DEVICES}; network: auto takes what it has"
        )
    return preset


def network_variables(network: str, devices: Devices) -> dict[str, str]:
    """What is set for a network ("efa", "infiniband" or "ethernet") on a node with these devices."""
    variables = {}
    if network == "efa":
        # Data loaders fork, which fails where libfabric has taken the huge pages.
        variables = {"FI_PROVIDER": "efa", "FI_EFA_USE_HUGE_PAGE": "0", "NCCL_P2P_NET_CHUNKSIZE": "524288"}
        if devices.efa_rdma:
            variables["FI_EFA_USE_DEVICE_RDMA"] = "1"
    elif network == "infiniband":
        variables = {"NCCL_IB_DISABLE": "0", "NCCL_IB_HCA": f"={','.join(devices.ports)}"}
    else:
        variables = {"NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"}
    if devices.interface is not None:
        # "=": without it, eth1 would match eth10, too.
        variables.update(NCCL_SOCKET_IFNAME=f"={devices.interface}", GLOO_SOCKET_IFNAME=devices.interface)
    return variables


def words(network: str, devices: Devices) -> str:
    """What a node uses, for its record: "infiniband: mlx5_0:1, mlx5_1:1; sockets: eth0"."""
    used = {"efa": devices.efa, "infiniband": devices.ports}.get(network, ())
    first = f"{network}: {', '.join(used)}" if used else network
    return f"{first}; sockets: {devices.interface}" if devices.interface is not None else first


def detect(towards: str, root: str = "/") -> Devices:
    """The devices of this node, from /sys below `root`, and its interface towards a host."""
    folder = os.path.join(root, _DEVICES)
    # A device without hardware below it (soft-RoCE) is slower than the sockets it stands on.
    names = [name for name in _listed(folder) if os.path.exists(os.path.join(folder, name, "device"))]
    efa = tuple(name for name in names if _driver(folder, name) == "efa")
    return Devices(
        efa=efa,
        efa_rdma=bool(efa) and _read(os.path.join(root, _MACHINE)) in _EFA_WITH_RDMA,
        ports=_active_ports(folder, [name for name in names if name not in efa]),
        interface=_interface(towards),
    )


def _active_ports(folder: str, names: list[str]) -> tuple[str, ...]:
    """InfiniBand ports that have a link; where there are none, those of RoCE, which is the same over Ethernet."""
    found: dict[str, list[str]] = {}
    for name in names:
        for port in _listed(os.path.join(folder, name, "ports")):
            place = os.path.join(folder, name, "ports", port)
            if "ACTIVE" in _read(os.path.join(place, "state")).split():
                found.setdefault(_read(os.path.join(place, "link_layer")), []).append(f"{name}:{port}")
    return tuple(found.get("InfiniBand") or found.get("Ethernet") or ())


def _interface(towards: str) -> Optional[str]:
    from airlane.launch.interface import interface_towards

    try:
        return interface_towards(towards)
    except OSError:
        return None  # NCCL and gloo then choose for themselves


def _driver(folder: str, name: str) -> str:
    return os.path.basename(os.path.realpath(os.path.join(folder, name, "device", "driver")))


def _listed(folder: str) -> list[str]:
    """In the order that people count in: mlx5_2 before mlx5_10."""
    try:
        return sorted(os.listdir(folder), key=lambda name: (len(name), name))
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""

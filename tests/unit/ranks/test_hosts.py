from __future__ import annotations

from airlane.ranks.hosts import in_order, read_hosts, read_topology

from .made import host


def order(*addresses: str, topology: tuple[str, ...] = ()) -> list[str]:
    return [one.address for one in in_order([host(address) for address in addresses], topology)]


def test_addresses_are_ordered_as_numbers_and_not_as_text() -> None:
    assert order("10.0.0.10", "10.0.0.9", "9.255.0.1") == ["9.255.0.1", "10.0.0.9", "10.0.0.10"]


def test_addresses_of_both_versions_and_names_have_an_order_too() -> None:
    assert order("node-b", "::1", "10.0.0.9", "node-a") == ["10.0.0.9", "::1", "node-a", "node-b"]


def test_nodes_of_one_machine_are_ordered_by_the_port_of_their_raylet() -> None:
    hosts = [host("10.0.0.1", port=9), host("10.0.0.1", port=10), host("10.0.0.1", port=2)]
    assert [one.port for one in in_order(hosts)] == [2, 9, 10]


def test_nodes_that_a_topology_names_come_first_and_in_its_order() -> None:
    assert order("10.0.0.1", "10.0.0.2", "10.0.0.3", topology=("10.0.0.3", "10.0.0.2")) == [
        "10.0.0.3",
        "10.0.0.2",
        "10.0.0.1",
    ]


def test_a_topology_knows_nodes_by_name_or_id_and_passes_over_nodes_that_are_not_there() -> None:
    hosts = [host("10.0.0.1", name="gpu-a"), host("10.0.0.2", name="gpu-b")]
    assert in_order(hosts, ("gone", "gpu-b", "gpu-a"))[0].name == "gpu-b"
    assert in_order(hosts, (hosts[1].node_id,))[0].name == "gpu-b"


def test_a_topology_is_read_with_commas_lines_and_comments() -> None:
    assert read_topology("10.0.0.2, gpu-a # rack 1\n\n# all of rack 2\ngpu-b gpu-a\n") == ("10.0.0.2", "gpu-a", "gpu-b")


def test_dead_nodes_are_left_out_and_what_is_free_is_told_apart_from_what_is_there() -> None:
    rows = [
        {"NodeID": "a", "Alive": True, "NodeManagerAddress": "10.0.0.2", "Resources": {"CPU": 4.0, "GPU": 2.0}},
        {"NodeID": "b", "Alive": False, "NodeManagerAddress": "10.0.0.1", "Resources": {}},
        {"NodeID": "c", "Alive": True, "NodeManagerAddress": "10.0.0.3", "Resources": {"CPU": 1.0}},
    ]
    found = read_hosts(rows, {"a": {"CPU": 1.0}})
    assert [(one.node_id, one.cpus, one.free_cpus, one.gpus, one.free_gpus) for one in found] == [
        ("a", 4, 1, 2, 0),
        ("c", 1, 1, 0, 0),
    ]

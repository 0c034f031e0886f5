from __future__ import annotations

import pytest

from airlane.backends.slurm.hostlist import hostnames
from airlane.errors import BackendError


@pytest.mark.parametrize(
    ("expression", "hosts"),
    [
        ("gpu1", ["gpu1"]),
        ("gpu[1-3]", ["gpu1", "gpu2", "gpu3"]),
        ("gpu[1-3,7]-x", ["gpu1-x", "gpu2-x", "gpu3-x", "gpu7-x"]),
        ("gpu[08-10]", ["gpu08", "gpu09", "gpu10"]),
        ("gpu[098-101]", ["gpu098", "gpu099", "gpu100", "gpu101"]),
        ("a[1-2],b,c[3]", ["a1", "a2", "b", "c3"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("[1-2].lab", ["1.lab", "2.lab"]),
        ("a-b-[9-10]", ["a-b-9", "a-b-10"]),
        ("", []),
        ("(null)", []),
        ("n/a", []),
    ],
)
def test_a_node_list_names_its_hosts_in_order(expression: str, hosts: list[str]) -> None:
    assert list(hostnames(expression)) == hosts


@pytest.mark.parametrize(
    "expression", ["gpu[1-3", "gpu1-3]", "gpu[3-1]", "gpu[]", "gpu[a-b]", "gpu[1-9999999]", "a,,b"]
)
def test_what_is_no_node_list_is_refused(expression: str) -> None:
    with pytest.raises(BackendError, match="no list of Slurm nodes"):
        hostnames(expression)

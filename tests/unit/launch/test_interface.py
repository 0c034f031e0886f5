from __future__ import annotations

import socket

import pytest

from airlane.launch import interface


def test_the_address_that_leads_out_is_one_of_this_machine() -> None:
    address = interface.reachable_address()
    if address is None:
        pytest.skip("this machine has no interface but loopback")
    assert interface.is_own(address)
    assert not address.startswith("127.")


def test_a_host_that_is_this_machine_leads_out_too() -> None:
    assert interface.reachable_address("localhost") == interface.reachable_address()


def test_an_interface_without_any_route_out_is_found_by_asking_each(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = interface.reachable_address()
    monkeypatch.setattr(interface, "_OUTSIDE", ())
    addresses = [a for _, a in interface._interface_addresses() if not a.startswith("127.")]
    assert (expected in addresses) == bool(addresses)
    assert interface.reachable_address() == (addresses[0] if addresses else None)


def test_a_machine_with_loopback_alone_has_no_reachable_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "_candidates", lambda: iter(["127.0.0.1", "127.0.1.1"]))
    assert interface.reachable_address() is None


def test_an_address_of_another_machine_is_not_own() -> None:
    assert interface.is_own("127.0.0.1")
    assert not interface.is_own("203.0.113.9")


def test_a_host_without_an_address_is_an_error() -> None:
    with pytest.raises(socket.gaierror):
        interface.reachable_address("no-such-host.invalid")

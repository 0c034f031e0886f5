"""Which of this machine's addresses other machines reach it by. IPv4, as Ray and MLflow listen."""

from __future__ import annotations

import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, Optional

# Addresses that lead out of most machines; nothing is ever sent to them. Source: RFC 5737 and RFC 1918.
_OUTSIDE = ("192.0.2.1", "10.255.255.255", "172.31.255.255", "192.168.255.255")
_SIOCGIFADDR = 0x8915  # netdevice(7)


def reachable_address(towards: Optional[str] = None) -> Optional[str]:
    """The address of the interface that leads to a host, or out of this machine; None where there is but loopback.

    Never 127.0.1.1, which is what the machine's own name stands for on many. Raises OSError for a host without address.
    """
    if towards is not None:
        found = _source_towards(resolve(towards))
        if found is not None:
            return found
    for candidate in _candidates():
        if not candidate.startswith("127."):
            return candidate
    return None


def interface_towards(host: str) -> Optional[str]:
    """The name of the interface that leads to a host; None where it is not plain. Raises OSError for no such host."""
    address = resolve(host)
    wanted = _source_towards(address) or address
    return next((name for name, found in _interface_addresses() if found == wanted), None)


def resolve(host: str) -> str:
    """The IPv4 address of a host. Raises OSError where it has none."""
    return str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])


def is_own(address: str) -> bool:
    """Whether an interface of this machine has the address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _candidates() -> Iterator[str]:
    for outside in _OUTSIDE:
        found = _source_towards(outside)
        if found is not None:
            yield found
    yield from (address for _, address in _interface_addresses())


def _source_towards(address: str) -> Optional[str]:
    """Where packets to an address would come from; the kernel answers without sending any."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
            source = str(probe.getsockname()[0])
        except OSError:
            return None
    return None if source.startswith("127.") or source == "0.0.0.0" else source  # noqa: S104 - compared, not bound


def _interface_addresses() -> Iterator[tuple[str, str]]:
    """Every interface with its first address (Linux; elsewhere an interface that is asked so has none)."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            yield name, socket.inet_ntoa(answer[20:24])

"""Addresses to listen at, and which names mean this machine."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from streameval.errors import ConfigError, shown

__all__ = ["Address", "client_of", "is_loopback", "parse_address"]


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """``host:port``; port 0 has the system choose one; no host is every address.

    Raises:
        ConfigError: Anything else.

    >>> parse_address("127.0.0.1:8642"), parse_address("[::1]:0").loopback
    (Address(host='127.0.0.1', port=8642), True)
    >>> parse_address("localhost")
    Traceback (most recent call last):
    streameval.errors.ConfigError: serve.listen: expected HOST:PORT such as 127.0.0.1:8642, ...
    """
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    sound = colon and port.isascii() and port.isdigit() and int(port) < 65536
    if not sound or (":" in bare and bare == host):
        raise ConfigError(
            f"serve.listen: expected HOST:PORT such as 127.0.0.1:8642, got {shown(text)}; "
            "an IPv6 address stands in brackets"
        )
    return Address(bare or "0.0.0.0", int(port))


def is_loopback(host: str) -> bool:
    """Whether a name or address, without port, always means this machine.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "localhost.evil.com")]
    [True, True, True, False]
    """
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def client_of(host: str) -> str:
    """The client that an address belongs to: itself, or its IPv6 network of 64 bits.

    >>> client_of("192.0.2.1"), client_of("::ffff:192.0.2.1"), client_of("2001:db8::1:2:3:4")
    ('192.0.2.1', '192.0.2.1', '2001:db8::/64')
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))

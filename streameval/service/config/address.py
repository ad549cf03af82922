"""Addresses to listen on, and the hosts that mean this machine."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from streameval.errors import InputError, shown


class Address(NamedTuple):
    """Host and port to listen on; the system chooses the port where it is 0."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str, key: str = "serve.listen") -> Address:
    """The address ``HOST:PORT`` of a key; an IPv6 address is written in brackets.

    Raises:
        InputError: The text is none.

    >>> parse_address("127.0.0.1:8642"), parse_address("[::1]:0").loopback
    (Address(host='127.0.0.1', port=8642), True)
    >>> parse_address("localhost")
    Traceback (most recent call last):
    streameval.errors.InputError: serve.listen: expected HOST:PORT, as 127.0.0.1:8642 or ...
    """
    host, _, port = text.rpartition(":")
    number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else -1
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""  # "::1:80" could be read in two ways
    if not host or not 0 <= number <= 65535 or any(letter.isspace() for letter in host):
        raise InputError(
            key, expected="HOST:PORT, as 127.0.0.1:8642 or [::1]:8642", got=shown(text)
        )
    return Address(host, number)


def is_loopback(host: str) -> bool:
    """Whether a host name or address always means this machine.

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

"""Addresses to listen on: ``127.0.0.1:8642``, ``[::1]:8642``, ``localhost:0``."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from streameval.errors import InputError, shown

__all__ = ["ListenAddress", "listen_address"]


class ListenAddress(NamedTuple):
    """Host and port; port 0 is whichever is free."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def listen_address(text: str) -> ListenAddress:
    """The address that a text names.

    Raises:
        InputError: It names none.

    >>> listen_address("[::1]:8642")
    ListenAddress(host='::1', port=8642)
    >>> listen_address("0.0.0.0:80").is_loopback
    False
    """
    host, _, port = text.rpartition(":")
    number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else -1
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""  # "::1:80" could be read in two ways
    if not host or not 0 <= number <= 65535 or any(letter.isspace() for letter in host):
        raise InputError(
            "listen", expected="HOST:PORT, as 127.0.0.1:8642 or [::1]:8642", got=shown(text)
        )
    return ListenAddress(host, number)

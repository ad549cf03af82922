"""Addresses of a configuration: where a server listens, and a store on PostgreSQL."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from streameval.errors import InputError, shown

SCHEMES = ("postgresql://", "postgres://")
_DEFAULT_SCHEMA = "streameval"
_SCHEMA_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,47}")


class Address(str):
    """``HOST:PORT`` to listen on; an IPv6 host is in brackets, and port 0 is any free one."""

    __slots__ = ("host", "port")
    host: str
    port: int

    def __new__(cls, text: str) -> Self:
        """Parse a text; raises InputError."""
        host, _, port = text.rpartition(":")
        number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else -1
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            host = ""  # "::1:80" could be read in two ways
        if not host or not 0 <= number <= 65535 or any(letter.isspace() for letter in host):
            raise InputError(
                "address", expected="HOST:PORT, as 127.0.0.1:8642 or [::1]:8642", got=shown(text)
            )
        address = super().__new__(cls, text)
        address.host, address.port = host, number
        return address

    @classmethod
    def of(cls, host: str, port: int) -> Self:
        """The address of a host, whose IPv6 address has no brackets, and a port."""
        return cls(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


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


def is_postgres(store: str) -> bool:
    """Whether a store is in a PostgreSQL database; else it is a file."""
    return store.startswith(SCHEMES)


class StoreAddress(NamedTuple):
    """The address of a store on PostgreSQL."""

    conninfo: str
    """For the server, without ``schema``."""
    schema: str
    shown: str
    """As it may be shown: without a password."""
    password: str | None

    @property
    def name(self) -> str:
        """Database and schema, without the host, which may have several names."""
        return f"{urlsplit(self.conninfo).path[1:] or 'the default database'}, schema {self.schema}"


def parse_address(text: str) -> StoreAddress:
    """The parts of an address of a store; raises InputError, without any part of a password.

    >>> address = parse_address("postgresql://me:s3cret@db.example/prod?schema=fraud")
    >>> address.conninfo, address.schema
    ('postgresql://me:s3cret@db.example/prod', 'fraud')
    >>> address.shown
    'postgresql://me:***@db.example/prod?schema=fraud'
    """
    try:
        parts = urlsplit(text)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise no_store_address("postgresql://…") from None
    user, _, hosts = parts.netloc.rpartition("@")
    name, colon, password = user.partition(":")
    if "@" in user or parts.fragment or any(c in parts.path[1:] for c in "@/"):
        # A part of it may be one of a password.
        raise no_store_address(f"postgresql://{quote(name)}:***…")
    schema = dict(query).get("schema", _DEFAULT_SCHEMA)
    if not _SCHEMA_NAME.fullmatch(schema):
        raise InputError(
            "store",
            expected="?schema= of 1 to 48 lower-case letters, digits or _, not beginning with pg_ "
            "or a digit",
            got=shown(schema),
        )
    options = [(key, value) for key, value in query if key != "schema"]
    shown_query = [(key, "***" if "password" in key else value) for key, value in query]
    secret = next((value for key, value in query if key == "password"), None)
    netloc = f"{name}:***@{hosts}" if colon else parts.netloc

    def joined(netloc: str, query: list[tuple[str, str]]) -> str:
        text = urlencode(query, safe="*/", quote_via=quote)
        return f"postgresql://{netloc}{parts.path}" + (f"?{text}" if text else "")

    whole, hidden = joined(parts.netloc, options), joined(netloc, shown_query)
    return StoreAddress(whole, schema, hidden, unquote(password) or secret)


def no_store_address(got: str) -> InputError:
    """The error of an address of a store, of which only a part without secrets is shown."""
    return InputError(
        "store",
        expected="postgresql://user:password@host:port/database?schema=name",
        got=got,
        remedy="write @ : / ? # and % of a password as %40 %3A %2F %3F %23 and %25",
    )

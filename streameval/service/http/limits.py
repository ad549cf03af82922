"""Limits of what clients can consume."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Seconds, bytes and counts; the sizes of bodies and lines are settings of a run."""

    body_seconds: float = 30
    """For a posted body to arrive."""
    header_seconds: float = 20
    """For a request's headers to arrive, and for the rest of a body that was refused."""
    keep_alive_seconds: int = 15
    """Between two requests of a connection."""
    connections: int = 512
    """Of all clients; beyond, the one that waits the longest for its client is closed."""
    client_connections: int = 256
    """Of one client: an IPv4 address, or an IPv6 network of 64 bits."""
    reserve: int = 16
    """Further connections, answered at ``/healthz`` alone, while no other can be closed."""
    spare_handles: int = 4
    """File handles kept for connections when the process has no other left."""
    wrong_tokens: int = 10
    """Of one client at once, before it has to wait for each comparison."""
    wrong_token_seconds: float = 1
    """The wait; after ten times that without a wrong token one more is free."""
    body_bytes: int = 64 * 1024 * 1024
    """Of all bodies that are in memory at a time; at least one of the largest size fits."""
    listeners: int = 64
    """Of the stream of events."""
    event_seconds: float = 15
    """Silence on the stream of events, at most."""


LIMITS = Limits()
"""The limits of a run."""

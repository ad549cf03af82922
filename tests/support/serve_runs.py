"""A real server over a sample of snapshots, for the tests of serving."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx

from streameval.errors import StoreError
from streameval.service.config.address import Address
from streameval.service.config.settings import ServeSettings
from streameval.service.config.source_settings import HttpSettings
from streameval.service.http.guard import LIMITS, Limits
from streameval.service.http.server import Server
from streameval.service.progress import Progress
from streameval.service.publish.snapshot import Snapshot
from tests.support import run
from tests.support.published_sample import START, SamplePublisher, published_data

TOKEN = "a-token-of-twenty-two"
NOW = START.timestamp() + 5
"""Five seconds after the sample's checkpoint."""
fetch = partial(httpx.request, verify=False)
"""A request on a connection of its own; without TLS, so no certificates are loaded for it."""


class Clock(run.Clock):
    """A clock that the test sets."""

    @property
    def time(self) -> datetime:
        """As a datetime."""
        return datetime.fromtimestamp(self.now, UTC)


class Box:
    """An inbox in memory, which can be full, or slow."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, bytes]] = []
        self.full = False
        self.broken = False
        self.go_on = threading.Event()
        self.go_on.set()
        self.entered = threading.Semaphore(0)

    def append(self, kind: str, body: bytes) -> int:
        """Keep it."""
        self.entered.release()
        self.go_on.wait()
        if self.full:
            raise StoreError("the inbox is full")
        if self.broken:
            raise OSError(28, "No space left on device")
        self.posts.append((kind, body))
        return sum(1 for line in body.split(b"\n") if line.strip())

    @property
    def lines(self) -> list[bytes]:
        """Every line that was accepted."""
        return [line for _, body in self.posts for line in body.split(b"\n") if line.strip()]


@dataclass
class Running:
    """A server and its client."""

    server: Server
    client: httpx.Client
    publisher: SamplePublisher
    inbox: Any
    clock: Clock

    def json(self, path: str, expected: int = 200, **options: Any) -> Any:
        """The answer's JSON, after a look at its status."""
        response = self.client.get(path, **options)
        assert response.status_code == expected, response.text
        return response.json()


@contextmanager
def serving(
    data: dict[str, Any] | Snapshot | None = None,
    *,
    published: bool = True,
    http: HttpSettings | None = HttpSettings(),  # noqa: B008 - frozen
    inbox: Any = None,
    token: str | None = None,
    limits: Limits = LIMITS,
    listen: str = "127.0.0.1:0",
    progress: Progress | None = None,
    **settings: Any,
) -> Iterator[Running]:
    """A server for as long as the block lasts."""
    publisher = SamplePublisher((data or published_data()) if published else None)
    clock = Clock(NOW)
    box = Box() if inbox is None else inbox
    serve = ServeSettings(listen=Address(listen), **settings)
    server = Server(
        serve, http, publisher, box, clock=clock, token=token, limits=limits, progress=progress
    )
    headers = {"authorization": f"Bearer {token}"} if token else {}
    # The default allows for keep-alives that the server ends meanwhile.
    transport = httpx.HTTPTransport(retries=1, verify=False)
    try:
        with httpx.Client(
            base_url=server.url.replace("//0.0.0.0:", "//127.0.0.1:"),
            headers=headers,
            timeout=20,
            transport=transport,
        ) as client:
            yield Running(server, client, publisher, box, clock)
    finally:
        if isinstance(box, Box):
            box.go_on.set()
        server.stop()


def connected(running: Running, source: str = "127.0.0.1") -> socket.socket:
    """A connection of a client at an address of its own, for bytes as they are."""
    where = running.server.address
    return socket.create_connection((where.host, where.port), 30, (source, 0))


def raw(url: str, request: bytes, *, close: bool = False) -> bytes:
    """Send bytes as they are and read until the server closes or is silent for 10 s.

    With ``close`` the sending side ends at once, as a client that breaks off.
    """
    where = urlsplit(url)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=10) as wire:
        wire.sendall(request)
        if close:
            wire.shutdown(socket.SHUT_WR)
        return received(wire)


def received(wire: socket.socket) -> bytes:
    """Everything until the server closes."""
    found = b""
    with suppress(ConnectionResetError):
        while chunk := wire.recv(65536):
            found += chunk
    return found

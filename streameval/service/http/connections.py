"""Open connections within the limits: one too many replaces the one that waits for its client."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import select
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from streameval.service.config.address import client_of
from streameval.service.http.asgi import App, Message, Receive, Scope, Send, header
from streameval.service.http.guard import Limits

_LOG = logging.getLogger("streameval.service.http")
_NO_HANDLE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Connection(asyncio.Protocol):
    """Passes a connection to the HTTP protocol, and notes whether it waits for its client."""

    transport: asyncio.Transport

    def __init__(self, connections: Connections, http: Any) -> None:
        self._connections = connections
        self._http = http
        self.peer = "", 0
        """The address of its client, by which its requests are known."""
        self.client = ""
        """The network of its client."""
        self.full = False
        """Accepted beyond the limits: only ``/healthz`` is answered."""
        self.since = self.read = time.monotonic()
        """When the last request began or ended; when the client was last known to read."""
        self.unsent = 0
        """Bytes of responses that the client had not read at the last check."""
        self.requests = 0
        """Requests that are being processed."""
        self.body_left = False
        """Whether the rest of the request's body is still to arrive."""
        self._is_paused = False

    @property
    def waits(self) -> bool:
        """Whether the next step is the client's: to send the rest of a request, or to read."""
        return not self.requests or self.body_left or self._is_paused

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        # A client that has gone already may have no address.
        host, port = (transport.get_extra_info("peername") or ("", id(self)))[:2]
        self.peer, self.client = (host, port), client_of(host)
        self._connections.add(self)
        if not host:
            transport.abort()
        self._http.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._http.data_received(data)

    def eof_received(self) -> bool | None:
        found: bool | None = self._http.eof_received()
        return found

    def pause_writing(self) -> None:
        self._is_paused = True
        self._http.pause_writing()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._http.resume_writing()


class Connections:
    """The open connections, within the limits."""

    # At a limit the connection that has waited the longest for its client is closed for the new
    # one: of the same client at the client's limit, of the client with the most connections at the
    # limit of all. A connection whose request is being processed is never closed. If no connection
    # can be closed, some more are accepted from a reserve, and answered at /healthz alone.

    def __init__(
        self, app: App, limits: Limits, listening: socket.socket, http: Callable[..., Any]
    ) -> None:
        self._app = app
        self._listening = listening
        self._limits = limits
        self._http = http
        """Makes the HTTP protocol of a connection."""
        self._given: dict[str, Any] = {}
        """The arguments that the server last gave it."""
        self._accepting: asyncio.Task[None] | None = None
        self._open: dict[tuple[str, int], Connection] = {}
        self._spare: list[int] = []
        self.ending = False
        """Whether further connections are closed at once."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application: notes when each connection's requests begin and end."""
        connection = self._open.get(tuple(scope["client"]))
        if connection is None:  # the client has disconnected before its request is begun
            return

        async def noted() -> Message:
            message = await receive()
            connection.body_left &= bool(message.get("more_body", False))
            return message

        length = header(scope, "content-length") or "0"
        connection.body_left = length != "0" or header(scope, "transfer-encoding") is not None
        connection.requests += 1
        connection.since = time.monotonic()
        scope["streameval.full"] = connection.full
        try:
            await self._app(scope, noted, send)
        finally:
            connection.requests -= 1
            connection.since = time.monotonic()

    def new(self, **given: Any) -> Connection:
        """The protocol of a connection, which the server makes with these arguments."""
        self._given = given
        return Connection(self, self._http(**given))

    def add(self, connection: Connection) -> None:
        """Note a new connection: closes another, or the new one, if there are too many."""
        at_most = self._limits.connections + self._limits.reserve
        connection.full = not self._make_room(connection.client)
        if self.ending or (connection.full and len(self._open) >= at_most):
            connection.transport.abort()
        self._open[connection.peer] = connection

    def discard(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        if self._open.get(connection.peer) is connection:
            del self._open[connection.peer]
        self._keep_spare()

    def close(self) -> None:
        """Close every connection and the spare handles."""
        for connection in self._open.values():
            connection.transport.abort()
        self._free_spare()

    def _make_room(self, client: str) -> bool:
        """Close a connection if there are too many for another; whether that was possible."""
        connections = list(self._open.values())
        counts = Counter(one.client for one in connections)
        if counts[client] >= self._limits.client_connections:
            return self._evict([one for one in connections if one.client == client])
        if len(connections) < self._limits.connections:
            return True
        most, _ = counts.most_common(1)[0]
        return self._evict([one for one in connections if one.client == most]) or self._evict(
            connections
        )

    def _evict(self, connections: list[Connection]) -> bool:
        """Close the connection that has waited the longest for its client, if one waits."""
        waiting = [one for one in connections if one.waits]
        if not waiting:
            return False
        longest = min(waiting, key=lambda one: one.since)
        _LOG.warning(
            "connection limit reached: closed one of %s, which sent or read nothing",
            longest.client,
        )
        longest.transport.abort()
        # Its protocol learns of it a moment later; until then no other may be closed instead.
        del self._open[longest.peer]
        return True

    def on_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The loop's handler of errors: frees handles if it had none for a client."""
        error = context.get("exception")
        if isinstance(error, ValueError) and self._listening.fileno() == -1:
            return  # asyncio tries again, a second later, to accept at a socket that is closed
        if not (isinstance(error, OSError) and error.errno in _NO_HANDLE):
            loop.default_exception_handler(context)
            return
        _LOG.error("cannot accept connections: %s", error.strerror)
        if self._given and (self._accepting is None or self._accepting.done()):
            self._accepting = loop.create_task(self._accept())

    async def _accept(self) -> None:
        """Accept clients for the second for which the loop does not, each with a freed handle."""
        loop = asyncio.get_running_loop()
        end = loop.time() + 1
        pending = select.poll()
        pending.register(self._listening, select.POLLIN)
        while loop.time() < end and not self.ending:
            # Without a handle an accept fails also where no client is pending.
            if not pending.poll(0):
                await asyncio.sleep(0.01)
                continue
            try:
                wire, _ = self._listening.accept()
            except OSError as error:
                if error.errno not in _NO_HANDLE:
                    return
                if not self._evict(list(self._open.values())):
                    self._free_spare()
                await asyncio.sleep(0.001)
            else:
                await loop.connect_accepted_socket(lambda: self.new(**self._given), wire)

    def _free_spare(self) -> None:
        while self._spare:
            os.close(self._spare.pop())

    def _keep_spare(self) -> None:
        """Handles that are closed for a connection when the process has no other left."""
        with contextlib.suppress(OSError):
            while len(self._spare) < self._limits.spare_handles:
                self._spare.append(os.open(os.devnull, os.O_RDONLY))

    async def sweep(self) -> None:
        """Close connections whose clients neither send a whole request nor read for too long."""
        # The server bounds the time between requests, and the guard the time of a request; headers
        # that arrive a byte a minute and responses that are never read are bounded here.
        most = self._limits.header_seconds
        while True:
            self._keep_spare()
            await asyncio.sleep(most / 4)
            now = time.monotonic()
            for one in list(self._open.values()):
                unsent = one.transport.get_write_buffer_size()
                # A response in parts refills what was read: any change shows that the client reads.
                if unsent != one.unsent or not unsent:
                    one.read = now
                one.unsent = unsent
                since = one.read if unsent else now if one.requests else one.since
                if now - since > most:
                    one.transport.abort()

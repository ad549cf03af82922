"""The server: uvicorn with a thread and an event loop of its own.

The only module that imports uvicorn.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from streameval.errors import ConfigError, MissingExtraError
from streameval.service.config.address import Address, client_of
from streameval.service.config.settings import ServeSettings
from streameval.service.config.source_settings import HttpSettings
from streameval.service.http.app import application
from streameval.service.http.asgi import App, Receive, Scope, Send
from streameval.service.http.bodies import Postbox
from streameval.service.http.guard import LIMITS, Access, Guard, Limits
from streameval.service.http.live import Live
from streameval.service.progress import Progress
from streameval.service.snapshot import Publisher

try:
    import uvicorn
except ImportError:
    raise MissingExtraError("serving", package="uvicorn", extra="serve") from None

_LOG = logging.getLogger("streameval.service.http")
_STORING_THREADS = 16
_STOP_SECONDS = 5
_NO_HANDLE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_SEND_BYTES = 256 * 1024
_RETRY_SECONDS = 0.1, 1.0
"""The first and the longest wait after the system has refused to open another connection."""


class Server:
    """A running server, from its creation until :meth:`stop`.

    Args:
        serve: Where to listen, and the bounds of what is shown.
        http: None: events cannot be posted.
        publisher: Holds the snapshots; read by several threads.
        inbox: Stores posts; called by several threads. None with `http` None.
        clock: Seconds since 1970.
        token: The secret itself, not a reference to it. Required for any address but
            loopback; where it is given, every address requires it.
        limits: What clients may cost.
        progress: Of the loop that publishes; None: none, which counts as alive.
        following: Whether other processes count, and this one only reads their store.

    Raises:
        ConfigError: The server cannot listen at the address, or the address requires a token.
        MissingExtraError: A package of the extra ``serve`` is not installed.

    Attributes:
        address: Where it listens, with the port that the system chose.
    """

    def __init__(
        self,
        serve: ServeSettings,
        http: HttpSettings | None,
        publisher: Publisher,
        inbox: Postbox | None,
        *,
        clock: Callable[[], float] = time.time,
        token: str | None = None,
        limits: Limits = LIMITS,
        progress: Progress | None = None,
        following: bool = False,
    ) -> None:
        self._listening = _listen(serve.listen, token)
        try:
            self.address = Address.of(*self._listening.getsockname()[:2])
            self._live = Live(publisher, most=limits.listeners, keep_alive=limits.event_seconds)
            self._threads = ThreadPoolExecutor(_STORING_THREADS, "streameval-inbox")
            self._application = partial(
                application,
                publisher=publisher,
                inbox=inbox,
                live=self._live,
                threads=self._threads,
                clock=clock,
                started=clock(),
                limits=limits,
                progress=progress or Progress(),
                following=following,
            )
            self._guard = Guard(self._application(serve, http), Access(token, self.address), limits)
        except BaseException:
            self._listening.close()
            raise
        self._connections = _Connections(self._guard, self._listening, limits)
        self._uvicorn = uvicorn.Server(
            uvicorn.Config(
                self._connections,
                # The plain protocol everywhere, whatever else is installed: its limits are known.
                http="h11",
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=limits.keep_alive_seconds,
                timeout_graceful_shutdown=_STOP_SECONDS,
            )
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running = threading.Event()
        self._thread = threading.Thread(target=self._run, name="streameval-serve", daemon=True)
        self._thread.start()
        self._running.wait()

    @property
    def url(self) -> str:
        """The URL for a browser."""
        return f"http://{self.address}/"

    def reload(self, serve: ServeSettings, http: HttpSettings | None) -> None:
        """Apply the limits of other settings; the address and the token stay."""
        self._guard.app = self._application(serve, http)

    def stop(self) -> None:
        """Finish the current requests, for some seconds at most, and end; can be repeated."""
        if self._thread.is_alive() and self._loop is not None:
            # An error means that the loop has just ended.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end)
            self._thread.join()
        self._live.join()
        self._threads.shutdown()
        self._listening.close()

    def _end(self) -> None:
        self._live.close()
        self._connections.close()
        self._uvicorn.should_exit = True

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._running.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._live.start(self._loop)
        self._uvicorn.config.load()
        self._connections.start(self._uvicorn)
        self._running.set()
        try:
            # uvicorn speaks the protocol and ends it in order; connections are accepted here.
            await self._uvicorn.serve(sockets=[])
        finally:
            self._connections.close()
            self._live.close()
            # A client that has not read its response in the time given is disconnected.
            for protocol in list(self._uvicorn.server_state.connections):
                protocol.transport.abort()
            await asyncio.sleep(0)


@dataclass(slots=True, eq=False)
class _Connection:
    """An accepted connection."""

    protocol: Any
    client: str
    """The network of its client."""
    full: bool
    """Accepted beyond the limits: only ``/healthz`` is answered."""
    since: float = field(default_factory=time.monotonic)
    """When it was accepted, or its last request began or ended."""
    read: float = field(default_factory=time.monotonic)
    """When the client was last known to read, or to have nothing to read."""
    unsent: int = 0
    """Bytes of responses that the client had not read at the last check."""

    @property
    def idle(self) -> bool:
        """Whether no request has arrived in full, or none after the last response."""
        request = self.protocol.cycle
        return request is None or request.response_complete

    @property
    def waits(self) -> bool:
        """Whether the next step is the client's: to send the rest of a request, or to read."""
        return self.idle or self.protocol.cycle.more_body or self.protocol.flow.write_paused


class _Connections:
    """Accepts connections within the limits, and closes those whose clients are too slow.

    At a limit the connection that has waited the longest for its client is closed for the
    new one: of the same client at the client's limit, of the client with the most
    connections at the limit of all. A connection whose request is being processed is
    never closed. Where no connection can be closed, some more are accepted from a
    reserve, and answered at ``/healthz`` alone.

    Args:
        app: What answers requests.
        listening: Bound, and in the state of listening.
        limits: What clients may cost.
    """

    def __init__(self, app: App, listening: socket.socket, limits: Limits) -> None:
        self._app = app
        self._listening = listening
        self._limits = limits
        self._known: dict[tuple[str, int], _Connection] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._spare: list[int] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application: notes when each connection's requests begin and end."""
        # The client may have disconnected before its request is begun.
        connection = self._known.get(scope["client"])
        if connection is None:
            return
        connection.since = time.monotonic()
        scope["streameval.full"] = connection.full
        try:
            await self._app(scope, receive, send)
        finally:
            connection.since = time.monotonic()

    def start(self, server: uvicorn.Server) -> None:
        """Accept from now on; called in the event loop."""
        self._server = server
        self._listening.setblocking(False)
        self._keep_spare()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._accept()), loop.create_task(self._sweep())]

    def close(self) -> None:
        """Accept no more; called in the event loop."""
        for task in self._tasks:
            task.cancel()
        for handle in self._spare:
            os.close(handle)
        self._spare = []

    async def _accept(self) -> None:
        wait, longest = _RETRY_SECONDS
        # Whether the next connection takes a handle of the reserve.
        last = False
        while True:
            await self._pending()
            try:
                wire, peer = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                continue
            except OSError as error:
                freed = False
                if error.errno in _NO_HANDLE:
                    if self._evict(self._open()):
                        freed = True
                        await asyncio.sleep(0)
                    elif self._spare:
                        os.close(self._spare.pop())
                        freed = last = True
                if not freed:
                    _LOG.error("cannot accept connections: %s", error.strerror)
                    await asyncio.sleep(wait)
                    wait = min(longest, 2 * wait)
                continue
            wait = _RETRY_SECONDS[0]
            await self._begin(wire, peer[:2], last)
            last = False
            self._keep_spare()

    async def _pending(self) -> None:
        """Wait until a client waits to be accepted.

        The loop's own ``sock_accept`` accepts a client also when its caller has just been
        cancelled, and then raises in the loop.
        """
        loop = asyncio.get_running_loop()
        pending: asyncio.Future[None] = loop.create_future()

        def woken() -> None:
            if not pending.done():
                pending.set_result(None)

        loop.add_reader(self._listening, woken)
        try:
            await pending
        finally:
            loop.remove_reader(self._listening)

    async def _begin(self, wire: socket.socket, peer: tuple[str, int], last: bool) -> None:
        client = client_of(peer[0])
        full = last or not self._make_room(client)
        if full and len(self._open()) >= self._limits.connections + self._limits.reserve:
            wire.close()
            return
        config = self._server.config
        protocol = config.http_protocol_class(  # type: ignore[call-arg]
            config=config, server_state=self._server.server_state, app_state={}
        )
        self._known[peer] = _Connection(protocol, client, full)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, wire)
        except OSError:
            del self._known[peer]
            wire.close()

    def _open(self) -> list[_Connection]:
        """The connections that are open; forgets the others."""
        there = self._server.server_state.connections
        # One may be about to be handed to its protocol.
        self._known = {
            peer: one
            for peer, one in self._known.items()
            if one.protocol in there or one.protocol.transport is None
        }
        return [one for one in self._known.values() if one.protocol in there]

    def _make_room(self, client: str) -> bool:
        """Close a connection if there are too many for another; whether that was possible."""
        connections = self._open()
        counts = Counter(one.client for one in connections)
        if counts[client] >= self._limits.client_connections:
            most = client
        elif len(connections) >= self._limits.connections:
            most, _ = counts.most_common(1)[0]
        else:
            return True
        return self._evict([one for one in connections if one.client == most]) or self._evict(
            connections if most != client else []
        )

    def _evict(self, connections: list[_Connection]) -> bool:
        """Close the connection that has waited the longest for its client, if one waits."""
        waiting = [one for one in connections if one.waits]
        if not waiting:
            return False
        longest = min(waiting, key=lambda one: one.since)
        _LOG.warning(
            "connection limit reached: closed one of %s, which sent or read nothing",
            longest.client,
        )
        longest.protocol.transport.abort()
        # uvicorn discards it a moment later; until then no other may be closed instead.
        self._server.server_state.connections.discard(longest.protocol)
        return True

    def _keep_spare(self) -> None:
        """Handles that are closed for a connection when the process has no other left."""
        with contextlib.suppress(OSError):
            while len(self._spare) < self._limits.spare_handles:
                self._spare.append(os.open(os.devnull, os.O_RDONLY))

    async def _sweep(self) -> None:
        """Close connections whose clients neither send a whole request nor read for too long.

        uvicorn bounds the time between requests, and the guard that of a request; headers
        that arrive a byte a minute and responses that are never read are bounded here.
        """
        most = self._limits.header_seconds
        while True:
            await asyncio.sleep(most / 4)
            now = time.monotonic()
            for one in self._open():
                unsent = one.protocol.transport.get_write_buffer_size()
                # A response in parts refills what was read: any change shows that the client reads.
                if unsent != one.unsent or not unsent:
                    one.read = now
                one.unsent = unsent
                if now - (one.read if unsent else one.since if one.idle else now) > most:
                    one.protocol.transport.abort()
            self._keep_spare()


def _listen(wanted: Address, token: str | None) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            wanted.host, wanted.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, where = found[0]
        # The resolved address, not the name, decides which machines can reach it.
        Access(token, Address.of(str(where[0]), wanted.port))
        # The protocol is named because asyncio turns off Nagle's delay (40 ms an answer)
        # only on sockets of that protocol.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Of each connection: with the system's megabytes a slow reader seems to stand still.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
            listening.bind(where[:2])
            listening.listen(512)
        except OSError:
            listening.close()
            raise
        return listening
    except OSError as error:
        raise ConfigError(
            f"serve.listen: cannot listen at {wanted}: {error.strerror or error}"
        ) from None

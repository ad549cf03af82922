"""The server: uvicorn with a thread and an event loop of its own.

The only module that imports uvicorn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

from streameval.errors import ConfigError, MissingExtraError
from streameval.service.closing import closed_on_error
from streameval.service.config.address import Address
from streameval.service.config.settings import ServeSettings
from streameval.service.config.source_settings import HttpSettings
from streameval.service.http.app import application
from streameval.service.http.connections import Connections
from streameval.service.http.guard import LIMITS, Access, Guard, Limits
from streameval.service.http.live import EventStream
from streameval.service.progress import Progress
from streameval.service.publish.snapshot import Publisher
from streameval.service.sources.inbox import Inbox

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError:
    raise MissingExtraError("serving", package="uvicorn", extra="serve") from None

_LOG = logging.getLogger("streameval.service.http")
_STORING_THREADS = 16
_STOP_SECONDS = 5
_BACKLOG = 512
_SEND_BYTES = 256 * 1024


class Server:
    """A running server, from its creation until :meth:`stop`; raises ConfigError.

    Without an inbox and its settings events cannot be posted.
    """

    def __init__(
        self,
        serve: ServeSettings,
        http: HttpSettings | None,
        publisher: Publisher,
        inbox: Inbox | None,
        *,
        clock: Callable[[], float] = time.time,
        token: str | None = None,
        limits: Limits = LIMITS,
        progress: Progress | None = None,
        following: bool = False,
    ) -> None:
        self._listening = _listen(serve.listen, token)
        with closed_on_error(self._listening):
            self.address = Address.of(*self._listening.getsockname()[:2])
            """The address that it listens at, with the port that the system chose."""
            self._events = EventStream(
                publisher, most=limits.listeners, keep_alive=limits.event_seconds
            )
            self._threads = ThreadPoolExecutor(_STORING_THREADS, "streameval-inbox")
            self._application = partial(
                application,
                publisher=publisher,
                inbox=inbox,
                events=self._events,
                threads=self._threads,
                clock=clock,
                started=clock(),
                limits=limits,
                progress=progress or Progress(),
                following=following,
            )
            self._guard = Guard(self._application(serve, http), Access(token, self.address), limits)
        self._connections = connections = Connections(
            self._guard, limits, self._listening, H11Protocol
        )
        self._uvicorn = uvicorn.Server(
            uvicorn.Config(
                connections,
                http=cast(Any, connections.new),
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
                backlog=_BACKLOG,
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
        self._events.join()
        self._threads.shutdown()
        self._listening.close()

    def _end(self) -> None:
        self._events.close()
        self._connections.ending = True
        self._uvicorn.should_exit = True

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._running.set()

    async def _serve(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._connections.on_error)
        self._events.start(loop)
        sweeping = loop.create_task(self._connections.sweep())
        self._running.set()
        try:
            await self._uvicorn.serve(sockets=[self._listening])
        finally:
            sweeping.cancel()
            self._events.close()
            # A client that has not read its response in the time given is disconnected.
            self._connections.close()
            await asyncio.sleep(0)


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
        with closed_on_error(listening):
            if os.name == "posix":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Of each connection: with the system's megabytes a slow reader seems to stand still.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
            listening.bind(where[:2])
            listening.listen(_BACKLOG)
        return listening
    except OSError as error:
        raise ConfigError(
            f"serve.listen: cannot listen at {wanted}: {error.strerror or error}"
        ) from None

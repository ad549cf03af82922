"""The server: uvicorn with a thread and an event loop of its own.

The only module that imports uvicorn.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from streameval.errors import ConfigError, MissingExtraError
from streameval.serve.access import Access
from streameval.serve.address import Address, parse_address
from streameval.serve.app import application
from streameval.serve.asgi import App, Receive, Scope, Send
from streameval.serve.guard import Guard
from streameval.serve.limits import LIMITS, Limits
from streameval.serve.live import Live
from streameval.serve.seams import Postbox, Publisher
from streameval.stream.settings import HttpSettings, ServeSettings

try:
    import uvicorn
except ImportError:
    raise MissingExtraError("serving", package="uvicorn", extra="serve") from None

__all__ = ["Server", "start"]

_STORING_THREADS = 16
_STOP_SECONDS = 5


def start(
    serve: ServeSettings,
    http: HttpSettings | None,
    publisher: Publisher,
    inbox: Postbox | None,
    *,
    clock: Callable[[], float] = time.time,
    token: str | None = None,
    limits: Limits = LIMITS,
) -> Server:
    """Serve from now on, until :meth:`Server.stop`.

    Args:
        serve: Where to listen, and the bounds of what is shown.
        http: None: events cannot be posted.
        publisher: Has the snapshots; asked by several threads.
        inbox: Keeps posts; called by several threads. None with `http` None.
        clock: Seconds since 1970.
        token: The secret itself, not where it is kept. Needed for any address
            but loopback; where it is given, it is asked for everywhere.
        limits: What clients may cost.

    Raises:
        ConfigError: The address cannot be listened at, or needs a token.
        MissingExtraError: A package of the extra ``serve`` is not installed.
    """
    listening = _listen(parse_address(serve.listen), token)
    try:
        address = Address(*listening.getsockname()[:2])
        live = Live(publisher, most=limits.listeners, keep_alive=limits.event_seconds)
        threads = ThreadPoolExecutor(_STORING_THREADS, "streameval-inbox")
        make = partial(
            application,
            publisher=publisher,
            inbox=inbox,
            live=live,
            threads=threads,
            clock=clock,
            started=clock(),
            limits=limits,
        )
        app = _Replaceable(make(serve, http))
    except BaseException:
        listening.close()
        raise
    guard = Guard(app, Access(token, address))

    def reload(serve: ServeSettings, http: HttpSettings | None) -> None:
        app.current = make(serve, http)

    return Server(guard, listening, address, live, threads, limits, reload)


class _Replaceable:
    """The application of the newest settings; a request ends in the one that it began in."""

    def __init__(self, app: App) -> None:
        self.current = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.current(scope, receive, send)


class Server:
    """A server that runs; made by :func:`start`.

    Attributes:
        address: Where it listens, with the port that the system chose.
        reload: Takes over the limits of other settings; the address and the token stay.
    """

    def __init__(
        self,
        app: App,
        listening: socket.socket,
        address: Address,
        live: Live,
        threads: ThreadPoolExecutor,
        limits: Limits,
        reload: Callable[[ServeSettings, HttpSettings | None], None],
    ) -> None:
        self.address = address
        self.reload = reload
        self._listening = listening
        self._live = live
        self._threads = threads
        self._limits = limits
        self._uvicorn = uvicorn.Server(
            uvicorn.Config(
                app,
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
                limit_concurrency=limits.connections,
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
        """Where a browser finds it."""
        return f"http://{self.address}/"

    def stop(self) -> None:
        """Answer what has been asked, for some seconds at most, and end; more than once is fine."""
        if self._thread.is_alive() and self._loop is not None:
            # An error says that it has just ended by itself.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end)
            self._thread.join()
        self._live.join()
        self._threads.shutdown()
        self._listening.close()

    def _end(self) -> None:
        self._live.close()
        self._uvicorn.should_exit = True

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._running.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._live.start(self._loop)
        sweeping = asyncio.create_task(self._sweep())
        self._running.set()
        try:
            await self._uvicorn.serve(sockets=[self._listening])
        finally:
            sweeping.cancel()
            self._live.close()
            # Who has not taken an answer in the time given for it is let go.
            for connection in list(self._uvicorn.server_state.connections):
                connection.transport.abort()
            await asyncio.sleep(0)

    async def _sweep(self) -> None:
        """Close connections on which no request has become whole for too long.

        uvicorn bounds the time between requests, and the guard that of a request, but
        nobody bounds headers that come a byte a minute.
        """
        most = self._limits.header_seconds
        since: dict[Any, tuple[object, float]] = {}
        while True:
            await asyncio.sleep(most / 4)
            now = time.monotonic()
            idle = {}
            for connection in list(self._uvicorn.server_state.connections):
                request = getattr(connection, "cycle", None)
                if request is None or request.response_complete:
                    known = since.get(connection)
                    idle[connection] = known if known and known[0] is request else (request, now)
                    if now - idle[connection][1] > most:
                        connection.transport.abort()
            since = idle


def _listen(wanted: Address, token: str | None) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            wanted.host, wanted.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, where = found[0]
        # What the name stands for, not the name, tells who can reach it.
        Access(token, Address(str(where[0]), wanted.port))
        # The protocol is named because asyncio turns off Nagle's delay (40 ms an answer)
        # only on sockets that say so.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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

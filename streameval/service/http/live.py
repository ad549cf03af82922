"""Server-sent events: each snapshot is sent to every listener."""

from __future__ import annotations

import asyncio
import threading

import msgspec

from streameval.service.http.api import compact
from streameval.service.http.asgi import Receive, Scope, Send, respond
from streameval.service.http.errors import RefusedError
from streameval.service.publish.snapshot import Publisher

_EVENT_STREAM = "text/event-stream; charset=utf-8"
_LOOK_SECONDS = 0.2
"""How often the thread checks whether it should end."""
_SEND_SECONDS = 30
"""A listener that reads nothing for this time is disconnected."""


class EventStream:
    """Sends the newest snapshot, shortened, to all listeners; a slow one skips some."""

    # After keep_alive seconds of silence a comment is sent, so that proxies keep the connection and
    # a lost reader is noticed.

    def __init__(self, publisher: Publisher, *, most: int = 64, keep_alive: float = 15) -> None:
        self._publisher = publisher
        self._most = most
        self._keep_alive = keep_alive
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._message: tuple[int, bytes] | None = None
        self._changed = asyncio.Event()
        self._closed = False
        self.listeners = 0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start waiting for snapshots; call it in the loop."""
        self._thread = threading.Thread(
            target=self._watch, args=(loop,), name="streameval-live", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Disconnect all listeners; call it in the loop."""
        self._closed = True
        self._ending.set()
        self._wake()

    def join(self) -> None:
        """Wait for the thread's end; call it in another thread."""
        if self._thread is not None:
            self._thread.join()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        seen: int | None = None
        while not self._ending.is_set():
            newest = self._publisher.current()
            if newest is None or newest.sequence == seen:
                # No snapshot has a number below 0.
                self._publisher.wait(-1 if seen is None else seen, _LOOK_SECONDS)
                continue
            seen = sequence = newest.sequence
            body = msgspec.json.encode(compact(newest))
            # JSON has no line break outside its texts, and escapes those inside.
            event = b"event: snapshot\nid: %d\ndata: %s\n\n" % (sequence, body)
            try:
                loop.call_soon_threadsafe(self._show, sequence, event)
            except RuntimeError:
                # The loop has ended, and with it every listener.
                return

    def _show(self, sequence: int, event: bytes) -> None:
        self._message = sequence, event
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application: serves one listener until it disconnects or the server ends."""
        if scope["method"] == "HEAD":
            await respond(send, 200, b"", _EVENT_STREAM)
            return
        if self.listeners >= self._most:
            raise RefusedError(
                503,
                expected=f"at most {self._most} listeners",
                got="one more",
                where="/api/events",
                remedy="close a page, or poll /api/report",
                retry_seconds=30,
            )
        self.listeners += 1
        closing = asyncio.create_task(_disconnected(receive))
        try:
            await self._send_all(closing, send)
        except TimeoutError:
            # The connection is closed by the server, because the answer has no end.
            pass
        finally:
            self.listeners -= 1
            closing.cancel()

    async def _send_all(self, closing: asyncio.Task[None], send: Send) -> None:
        headers = [
            (b"content-type", _EVENT_STREAM.encode()),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _bounded(send, b"retry: 2000\n\n")
        seen: int | None = None
        while not self._closed and not closing.done():
            changed = self._changed
            if self._message is not None and self._message[0] != seen:
                seen, event = self._message
                await _bounded(send, event)
                continue
            waiting = asyncio.create_task(changed.wait())
            try:
                done, _ = await asyncio.wait(
                    {waiting, closing},
                    timeout=self._keep_alive,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                waiting.cancel()
            if not done:
                await _bounded(send, b": still here\n\n")
        await _bounded(send, b"", more=False)


async def _bounded(send: Send, body: bytes, *, more: bool = True) -> None:
    async with asyncio.timeout(_SEND_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": more})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

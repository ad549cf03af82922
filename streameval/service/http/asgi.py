"""ASGI: its types, a request's header, a whole response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = "application/json"


def header(scope: Scope, name: str) -> str | None:
    """The first header of that name (in lower case); None where there is none.

    >>> header({"headers": [(b"host", b"localhost")]}, "host")
    'localhost'
    """
    wanted = name.encode("latin-1")
    for key, value in scope["headers"]:
        if key == wanted:
            text: str = value.decode("latin-1")
            return text
    return None


async def respond(
    send: Send,
    status: int,
    body: bytes,
    content_type: str = JSON,
    headers: tuple[tuple[str, str], ...] = (),
) -> None:
    """A whole answer."""
    lines = (
        ("content-type", content_type),
        ("content-length", str(len(body))),
        ("cache-control", "no-store"),
        *headers,
    )
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in lines]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})

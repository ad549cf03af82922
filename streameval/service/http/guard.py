"""Checks of every request, and the security headers of every response."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import urlsplit

from streameval.errors import shown
from streameval.service.config.address import client_of, is_loopback
from streameval.service.http.access import LOGIN_STYLE_HASH, Access, WrongTokens, login_page
from streameval.service.http.asgi import App, Message, Receive, Scope, Send, header, respond
from streameval.service.http.bodies import BodyMemory, read_body
from streameval.service.http.errors import RefusedError, failure
from streameval.service.http.limits import Limits

_LOG = logging.getLogger("streameval.service.http")
_MOST_HEADER_BYTES = 16 * 1024
_MOST_HEADERS = 100
_MOST_TARGET_BYTES = 8 * 1024
_MOST_SECONDS = 300
_MOST_DISCARDED_BYTES = 64 * 1024 * 1024
_DISCARDED_SILENCE_SECONDS = 0.5
_OPEN_PATHS = frozenset({"/healthz", "/readyz", "/login"})
"""Answered without the token, to probes and the login page: no more than yes or no."""
_HTML = "text/html; charset=utf-8"

# Plotly also uses inline styles; static/charts.js prevents that.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' 'sha256-{LOGIN_STYLE_HASH}'",
        # Plotly draws heat maps as generated images.
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS = (
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
)
_ENCODED = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS]


class Guard:
    """Passes a request to the application, or rejects it.

    Args:
        app: The application.
        access: The token. Without one, only names of this machine are accepted
            as Host, so that a page of another site, whose name was
            made to point here (DNS rebinding), reaches nothing.
        limits: How many wrong tokens a client may send before it has to wait.
    """

    def __init__(self, app: App, access: Access, limits: Limits) -> None:
        self._app = app
        self._access = access
        self._wrong = WrongTokens(limits)
        self._memory = BodyMemory(64 * 1024)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            raise RuntimeError(f"cannot speak {scope['type']}")
        started = False
        body = _Body(scope, receive)
        receive = body.receive

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                if message["status"] >= 400:
                    await body.discard()
                message["headers"] = [*message.get("headers", ()), *_ENCODED]
            await send(message)

        try:
            if not await self._answered(scope, receive, with_headers):
                # The stream of events has no end; it bounds each wait itself.
                limit = None if scope["path"] == "/api/events" else _MOST_SECONDS
                async with asyncio.timeout(limit):
                    await self._app(scope, receive, with_headers)
        except RefusedError as error:
            await respond(with_headers, error.status, error.body(), headers=error.headers)
        except Exception:
            _LOG.exception("%s %s failed", scope["method"], shown(scope["path"]))
            if started:
                # uvicorn closes the connection if the answer is not whole.
                return
            await respond(with_headers, 500, failure().body())

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Check the request; whether that has answered it."""
        _check_size(scope)
        self._check_host(scope)
        path, method = scope["path"], scope["method"]
        if path == "/healthz":
            return False
        if scope.get("streameval.full"):
            raise RefusedError(
                503,
                expected="fewer connections",
                got="as many as may be, each with a request that is being answered",
                where="the server",
                remedy="send it again a little later",
                retry_seconds=1,
                headers=(("connection", "close"),),
            )
        if path == "/login":
            await self._login(scope, receive, send)
            return True
        if method not in ("GET", "HEAD"):
            _check_origin(scope)
        if path == "/" and method == "GET" and not self._access.open:
            given = self._access.from_query(scope)
            if given is not None:
                await self._exchange(given, scope, send)
                return True
        scope["streameval.allowed"] = allowed = await self._allows(scope)
        if allowed or path in _OPEN_PATHS:
            return False
        if method == "GET" and "text/html" in (header(scope, "accept") or ""):
            await respond(send, 401, login_page(), _HTML)
            return True
        raise RefusedError(
            401,
            expected="the run's token",
            got="none that fits",
            where="the header Authorization",
            remedy="send Authorization: Bearer TOKEN, or open / in a browser and log in",
            headers=(("www-authenticate", "Bearer"),),
        )

    async def _login(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._access.open:
            await respond(send, 303, b"", headers=(("location", "/"),))
        elif scope["method"] == "POST":
            with self._memory.reserve() as reserved:
                body = await read_body(scope, receive, most=4096, seconds=10, reserved=reserved)
            await self._exchange(self._access.from_form(body), scope, send)
        elif scope["method"] in ("GET", "HEAD"):
            await respond(send, 200, login_page(), _HTML)
        else:
            raise RefusedError(
                405,
                expected="GET or POST",
                got=shown(scope["method"]),
                where="/login",
                headers=(("allow", "GET, HEAD, POST"),),
            )

    async def _exchange(self, given: str, scope: Scope, send: Send) -> None:
        claim = given.encode("utf-8", "replace")
        if await self._wrong.check(_client(scope), claim, lambda: self._access.is_token(given)):
            await respond(send, 303, b"", headers=self._access.session())
        else:
            await respond(send, 403, login_page("That is not the token of this run."), _HTML)

    async def _allows(self, scope: Scope) -> bool:
        claim = self._access.claim(scope)
        if self._access.open or not claim:
            return self._access.open
        try:
            return await self._wrong.check(
                _client(scope), claim, lambda: self._access.allows(scope)
            )
        except RefusedError:
            if scope["path"] in _OPEN_PATHS:
                return False
            raise

    def _check_host(self, scope: Scope) -> None:
        host = header(scope, "host") or ""
        if self._access.open and not is_loopback(_name_of(host)):
            raise RefusedError(
                421,
                expected="a name of this machine, such as localhost",
                got=shown(host),
                where="the header Host",
                remedy="to be reached under other names, set serve.token",
            )


def _client(scope: Scope) -> str:
    return client_of(scope["client"][0])


class _Body:
    """Reads a request's body, and tracks whether some of it is left.

    Where the connection is kept, uvicorn reads the rest of a refused body. Where the
    client wants it closed (as Python's urllib does), it is closed with the answer, and a
    client that is still sending receives "connection reset" instead of the error; so the
    rest is read and discarded first, within bounds.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        has_body = header(scope, "content-length") or header(scope, "transfer-encoding")
        closes = (header(scope, "connection") or "").lower() == "close"
        # A client that waits for "100 Continue" has not sent anything.
        waits = header(scope, "expect") is not None
        self._more = bool(has_body) and (closes or scope["http_version"] == "1.0") and not waits

    async def receive(self) -> Message:
        message = await self._receive()
        if not message.get("more_body", False):
            self._more = False
        return message

    async def discard(self) -> None:
        """Read the rest, for as long as it arrives."""
        size = 0
        try:
            while self._more and size < _MOST_DISCARDED_BYTES:
                async with asyncio.timeout(_DISCARDED_SILENCE_SECONDS):
                    size += len((await self.receive()).get("body", b""))
        except TimeoutError:
            self._more = False


def _name_of(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _check_size(scope: Scope) -> None:
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers)
    if size > _MOST_HEADER_BYTES or len(headers) > _MOST_HEADERS:
        raise RefusedError(
            431,
            expected=f"at most {_MOST_HEADERS} headers of {_MOST_HEADER_BYTES:,} bytes in all",
            got=f"{len(headers)} of {size:,} bytes",
            where="the headers",
        )
    target = len(scope["raw_path"]) + len(scope["query_string"])
    if target > _MOST_TARGET_BYTES:
        raise RefusedError(
            414,
            expected=f"at most {_MOST_TARGET_BYTES:,} bytes",
            got=f"{target:,}",
            where="the requested address",
        )


def _check_origin(scope: Scope) -> None:
    """Reject requests that another site's page makes a browser send (CSRF)."""
    site = header(scope, "sec-fetch-site")
    origin = header(scope, "origin")
    if site is not None:
        own = site in ("same-origin", "none")
    elif origin is not None:
        own = _netloc(origin) == (header(scope, "host") or "").lower()
    else:
        own = True
    if not own:
        raise RefusedError(
            403,
            expected="a request of this server's own pages, or of a program",
            got=shown(origin or site),
            where="the header Origin",
        )


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""

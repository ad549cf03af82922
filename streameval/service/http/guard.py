"""Limits, access control and checks of every request, and the security headers of responses."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import html
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from streameval.errors import ConfigError, shown
from streameval.service.config.address import Address, client_of, is_loopback
from streameval.service.config.secrets import check_token
from streameval.service.http.asgi import App, Message, Receive, Scope, Send, header, respond
from streameval.service.http.bodies import BodyMemory, read_body
from streameval.service.http.errors import RefusedError

_LOG = logging.getLogger("streameval.service.http")
COOKIE = "streameval_session"
_MOST_CLIENTS = 4096
_MOST_WAITING = 8
_MOST_HEADER_BYTES = 16 * 1024
_MOST_HEADERS = 100
_MOST_TARGET_BYTES = 8 * 1024
_MOST_SECONDS = 300
_MOST_DISCARDED_BYTES = 64 * 1024 * 1024
_DISCARDED_SILENCE_SECONDS = 0.5
_OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/caughtup", "/login"})
"""Answered without the token, to probes and the login page: no more than yes or no."""
_HTML = "text/html; charset=utf-8"

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:15vh auto;padding:0 1rem;"
    "color-scheme:light dark}input,button{font:inherit;padding:.4rem .6rem;width:100%;"
    "box-sizing:border-box;margin:.3rem 0}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
"""For the Content-Security-Policy: the only inline style that it allows."""

# Plotly also uses inline styles; static/charts.js prevents that.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' 'sha256-{_STYLE_HASH}'",
        # Plotly draws heat maps as generated images.
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_SECURITY_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class Limits(NamedTuple):
    """Limits of what clients can consume; the sizes of bodies and lines are settings of a run."""

    body_seconds: float = 30
    """For a posted body to arrive."""
    header_seconds: float = 20
    """For a request's headers to arrive, and for the rest of a body that was refused."""
    keep_alive_seconds: int = 15
    """Between two requests of a connection."""
    connections: int = 512
    """Open connections; a further one replaces the one that waits the longest for its client."""
    client_connections: int = 256
    """Open connections of a client: an IPv4 address, or an IPv6 network of 64 bits."""
    reserve: int = 16
    """Further connections, answered at ``/healthz`` alone, while no other can be closed."""
    spare_handles: int = 4
    """File handles kept for connections when the process has no other left."""
    wrong_tokens: int = 10
    """Attempts that a client has free before each comparison is delayed."""
    wrong_token_seconds: float = 1
    """The wait; after ten times that without a wrong token one more is free."""
    body_bytes: int = 64 * 1024 * 1024
    """Size of all bodies in memory; at least one of the largest size fits."""
    listeners: int = 64
    """Clients of the stream of events at a time."""
    event_seconds: float = 15
    """The longest silence on the stream of events."""


LIMITS = Limits()
"""The limits of a run."""


class Access:
    """Compares the token or cookie of a request with the run's token, if it has one."""

    def __init__(self, token: str | None, address: Address) -> None:
        if token is None and not address.loopback:
            raise ConfigError(
                f"serve.token: expected a token, because {address.host} can be reached from other "
                "machines; got none. Set token to env:NAME or file:PATH, or listen at 127.0.0.1"
            )
        if token is not None:
            check_token(token)
        self.open = token is None
        """Whether there is no token."""
        self._token = (token or "").encode()
        # A keyed hash, so that a browser's cookies do not give the token away.
        self._cookie = hmac.digest(self._token, b"streameval session", "sha256").hex().encode()

    def allows(self, scope: Scope) -> bool:
        """Whether the request has the token or the cookie, of a run with a token."""
        kind, _, given = (header(scope, "authorization") or "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(given.strip()):
            return True
        return any(
            hmac.compare_digest(cookie.encode("utf-8", "replace"), self._cookie)
            for cookie in _cookies(scope)
        )

    def claim(self, scope: Scope) -> bytes:
        """The token and the cookie of a request; empty without both."""
        claims = [header(scope, "authorization") or "", *_cookies(scope)]
        return "\n".join(claims).encode("utf-8", "replace") if any(claims) else b""

    def is_token(self, given: str) -> bool:
        """Whether a text is the token, compared in constant time."""
        same = hmac.compare_digest(given.encode("utf-8", "replace"), self._token)
        return same and not self.open

    def session(self) -> tuple[tuple[str, str], ...]:
        """The headers that send a browser to the page with its cookie."""
        cookie = f"{COOKIE}={self._cookie.decode()}; Path=/; HttpOnly; SameSite=Strict"
        return ("location", "/"), ("set-cookie", cookie)


@dataclass(slots=True)
class _Client:
    """The wrong tokens of a client: those that are still free, and when that was counted."""

    free: float
    at: float
    count: int = 0
    last: bytes = b""
    waiting: int = 0


class WrongTokens:
    """Slows the guessing of the token, for each client separately."""

    # When a client has spent its free attempts, each of its requests with a token waits before the
    # comparison, right or wrong. The same wrong token again is neither counted nor compared, so
    # that a program with an outdated token does not slow others at its address.

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._free = limits.wrong_tokens
        self._wait = limits.wrong_token_seconds
        self._clock = clock
        self._clients: OrderedDict[str, _Client] = OrderedDict()

    async def check(self, client: str, claim: bytes, is_right: Callable[[], bool]) -> bool:
        """Whether a client's claim is right; RefusedError 429 if too many of its claims wait."""
        known = self._clients.get(client)
        digest = hashlib.sha256(claim).digest()
        if known is not None:
            if digest == known.last:
                return False
            if self._free_now(known) < 1:
                await self._turn(known)
        if is_right():
            return True
        self._count(client, digest)
        return False

    async def _turn(self, known: _Client) -> None:
        if known.waiting >= _MOST_WAITING:
            raise RefusedError(
                429,
                expected="fewer wrong tokens",
                got="more than are compared at a time",
                where="this client's address",
                remedy="send the right token a little later",
                retry_seconds=5,
            )
        known.waiting += 1
        try:
            await asyncio.sleep(self._wait)
        finally:
            known.waiting -= 1

    def _free_now(self, known: _Client) -> float:
        now = self._clock()
        gained = (now - known.at) / (10 * self._wait)
        known.free = min(float(self._free), known.free + gained)
        known.at = now
        return known.free

    def _count(self, client: str, digest: bytes) -> None:
        known = self._clients.get(client)
        if known is None:
            known = self._clients[client] = _Client(self._free, self._clock())
            if len(self._clients) > _MOST_CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(client)
        known.free = max(0.0, self._free_now(known) - 1)
        known.last = digest
        known.count += 1
        _LOG.warning("wrong token from %s, %d so far", client, known.count)


def _token_of(text: str) -> str | None:
    """The token in a query or in the login page's form."""
    try:
        values = parse_qs(text, keep_blank_values=True, max_num_fields=8).get("token")
    except ValueError:
        return None
    return values[0] if values else None


def _cookies(scope: Scope) -> list[str]:
    pairs = (header(scope, "cookie") or "").split(";")
    split = (pair.strip().partition("=") for pair in pairs)
    return [value for name, _, value in split if name == COOKIE]


def login_page(problem: str = "") -> bytes:
    """The login page."""
    alert = f'<p role="alert">{html.escape(problem)}</p>' if problem else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>streameval</title>'
        '<link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style><h1>streameval</h1>{alert}"
        '<form method="post" action="/login"><label for="token">Token</label>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required '
        "autofocus><button>Show the dashboard</button></form></html>"
    ).encode()


class Guard:
    """Passes a request to the application, or rejects it."""

    def __init__(self, app: App, access: Access, limits: Limits) -> None:
        self.app = app
        """May be replaced; a request ends in the one that it began in."""
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
                message["headers"] = [*message.get("headers", ()), *_SECURITY_HEADERS]
            await send(message)

        try:
            if not await self._answered(scope, receive, with_headers):
                # The stream of events has no end; it bounds each wait itself.
                limit = None if scope["path"] == "/api/events" else _MOST_SECONDS
                async with asyncio.timeout(limit):
                    await self.app(scope, receive, with_headers)
        except RefusedError as error:
            await respond(with_headers, error.status, error.body(), headers=error.headers)
        except Exception:
            _LOG.exception("%s %s failed", scope["method"], shown(scope["path"]))
            if started:
                # uvicorn closes the connection if the answer is not whole.
                return
            failure = RefusedError(
                500,
                expected="an answer",
                got="a failure of streameval's own",
                where="the server",
                remedy="see its log",
            )
            await respond(with_headers, 500, failure.body())

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
            given = _token_of(scope["query_string"].decode("latin-1"))
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
            with self._memory.reserve() as reserve:
                body = await read_body(scope, receive, most=4096, seconds=10, reserve=reserve)
            await self._exchange(_token_of(body.decode("utf-8", "replace")) or "", scope, send)
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
        # Without a token, a site whose name was made to point here (DNS rebinding) gets nothing.
        host = header(scope, "host") or ""
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if self._access.open and not is_loopback(name):
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
    """Reads a request's body, and tracks whether some of it is left."""

    # A client that wants the connection closed (as Python's urllib does) while it is still sending
    # receives "connection reset" instead of an error; so the rest is read and discarded first.

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
    site, origin = header(scope, "sec-fetch-site"), header(scope, "origin")
    own = site in (None, "same-origin", "none")
    if site is None and origin is not None:
        own = False
        with suppress(ValueError):  # of a text that is no URL
            own = urlsplit(origin).netloc.lower() == (header(scope, "host") or "").lower()
    if not own:
        raise RefusedError(
            403,
            expected="a request of this server's own pages, or of a program",
            got=shown(origin or site),
            where="the header Origin",
        )

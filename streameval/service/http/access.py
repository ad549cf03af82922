"""Access control: a bearer token, or the cookie that a browser receives for it."""

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
from urllib.parse import parse_qs

from streameval.errors import ConfigError
from streameval.service.config.address import Address
from streameval.service.config.secrets import check_token
from streameval.service.http.asgi import Scope, header
from streameval.service.http.errors import RefusedError
from streameval.service.http.limits import Limits

_LOG = logging.getLogger("streameval.service.http")
COOKIE = "streameval_session"
_MOST_CLIENTS = 4096
_MOST_WAITING = 8

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:15vh auto;padding:0 1rem;"
    "color-scheme:light dark}input,button{font:inherit;padding:.4rem .6rem;width:100%;"
    "box-sizing:border-box;margin:.3rem 0}"
)
LOGIN_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
"""For the Content-Security-Policy: the only inline style that it lets through."""


class Access:
    """Compares the token or cookie of a request with the run's token.

    The cookie holds a keyed hash of the token, not the token, so that reading
    a browser's cookies does not give it away; a new token ends every session.

    Args:
        token: None: requests need none, which only a loopback address allows.
        address: Where the server listens.

    Raises:
        ConfigError: No token for an address that other machines can reach, or one too
            short to withstand guessing.
    """

    def __init__(self, token: str | None, address: Address) -> None:
        if token is None and not address.loopback:
            raise ConfigError(
                f"serve.token: expected a token, because {address.host} can be reached from other "
                "machines; got none. Set token to env:NAME or file:PATH, or listen at 127.0.0.1"
            )
        if token is not None:
            check_token(token)
        self._token = None if token is None else token.encode()
        self._cookie = (
            b""
            if self._token is None
            else hmac.digest(self._token, b"streameval session", "sha256").hex().encode()
        )

    @property
    def open(self) -> bool:
        """Whether there is no token."""
        return self._token is None

    def allows(self, scope: Scope) -> bool:
        """Whether the request brings the token or the cookie."""
        if self._token is None:
            return True
        kind, _, given = (header(scope, "authorization") or "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(given.strip()):
            return True
        return any(
            hmac.compare_digest(cookie.encode("utf-8", "replace"), self._cookie)
            for cookie in _cookies(scope)
        )

    def claim(self, scope: Scope) -> bytes:
        """What the request brings as token or cookie; empty where it brings neither."""
        claims = [header(scope, "authorization") or "", *_cookies(scope)]
        return "\n".join(claims).encode("utf-8", "replace") if any(claims) else b""

    def is_token(self, given: str) -> bool:
        """Whether it is the token, in a time that does not depend on how much of it is right."""
        expected = self._token if self._token is not None else b""
        same = hmac.compare_digest(given.encode("utf-8", "replace"), expected)
        return same and self._token is not None

    def session(self) -> tuple[tuple[str, str], ...]:
        """The headers that send a browser to the page with its cookie."""
        cookie = f"{COOKIE}={self._cookie.decode()}; Path=/; HttpOnly; SameSite=Strict"
        return ("location", "/"), ("set-cookie", cookie)

    def from_query(self, scope: Scope) -> str | None:
        """The token of ``/?token=``."""
        return _field(scope["query_string"].decode("latin-1"))

    def from_form(self, body: bytes) -> str:
        """The token that the login page's form sends; empty where there is none."""
        return _field(body.decode("utf-8", "replace")) or ""


class _Client:
    """The wrong tokens of a client."""

    __slots__ = ("at", "count", "free", "last", "waiting")

    def __init__(self, free: float, at: float) -> None:
        self.free = free
        self.at = at
        self.count = 0
        self.last = b""
        self.waiting = 0


class WrongTokens:
    """Slows the guessing of the token, for each client separately.

    A client has some wrong tokens free. When they are spent, each of its requests with a
    token waits before the token is compared, right or wrong, so that no answer
    is given earlier than the others; when too many of them wait, further ones are refused without a
    comparison. A right token of another client never waits. The same wrong token again
    is no guess: it is neither counted nor compared, so that a program with an outdated
    token does not slow others at its address.

    Args:
        limits: How many are free, and the wait.
        clock: Seconds, monotonic.

    Cost:
        O(1) time; memory for at most 4,096 clients, the latest that failed.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._free = limits.wrong_tokens
        self._wait = limits.wrong_token_seconds
        self._clock = clock
        self._clients: OrderedDict[str, _Client] = OrderedDict()

    async def check(self, client: str, claim: bytes, is_right: Callable[[], bool]) -> bool:
        """Whether a claim is right.

        Args:
            client: The client that makes it.
            claim: What is claimed, to recognise a repetition.
            is_right: Compares it.

        Raises:
            RefusedError: 429; too many claims of the client are waiting.
        """
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


def _field(text: str) -> str | None:
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

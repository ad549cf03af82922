"""The routes. The only module that imports Starlette."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import msgspec

from streameval.errors import MissingExtraError, StoreError, did_you_mean, shown
from streameval.service.config.settings import ServeSettings
from streameval.service.config.source_settings import HttpSettings
from streameval.service.http.api import (
    ENDPOINTS,
    Accepted,
    Alive,
    CaughtUp,
    Endpoint,
    QueryParameters,
    Ready,
    status,
)
from streameval.service.http.api_page import api_page
from streameval.service.http.asgi import JSON, App, Receive, Scope, Send, header
from streameval.service.http.bodies import BodyMemory, check_lines, one_line_each, read_body
from streameval.service.http.errors import RefusedError
from streameval.service.http.guard import Limits
from streameval.service.http.health import UNPUBLISHED, Readiness, is_alive
from streameval.service.http.live import EventStream
from streameval.service.http.openapi import openapi, openapi_text
from streameval.service.http.prometheus import CONTENT_TYPE, MetricsText
from streameval.service.progress import Progress
from streameval.service.publish.snapshot import Publisher
from streameval.service.sources.inbox import Inbox, InboxKind

try:
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route, Router
except ImportError:
    raise MissingExtraError("serving", package="starlette", extra="serve") from None

_HERE = Path(__file__).parent
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".yml": "text/plain; charset=utf-8",
}
_BESIDE = ("grafana_dashboard.json", "prometheus_rules.yml")
_GENERATED = {"openapi.json": openapi_text, "docs.html": api_page}
_PAGES = {"/": "index.html", "/openapi.json": "openapi.json", "/docs": "docs.html"}
_PLOTLY = "plotly.min.js"
_PART_BYTES = 64 * 1024


def application(
    settings: ServeSettings,
    http: HttpSettings | None,
    publisher: Publisher,
    inbox: Inbox | None,
    *,
    events: EventStream,
    threads: ThreadPoolExecutor,
    clock: Callable[[], float],
    started: float,
    limits: Limits,
    progress: Progress,
    following: bool,
) -> App:
    """The application, without the guard; ``threads`` store posts, beside those of queries."""
    readiness = Readiness(settings, following)
    files = _StaticFiles()
    metrics_text = MetricsText(
        publisher,
        most_slices=settings.max_slices_exposed,
        readiness=readiness,
        clock=clock,
    )

    def allowed(request: Request, reasons: list[str]) -> list[str]:
        # Reasons name partitions: they are shown with the token only.
        return reasons if request.scope.get("streameval.allowed") else []

    # Coroutines: they respond while every thread handles other requests.
    async def healthz(request: Request) -> Response:
        return _json(Alive(True))

    async def livez(request: Request) -> Response:
        alive = is_alive(settings, progress)
        return _json(Alive(alive), 200 if alive else 503)

    async def readyz(request: Request) -> Response:
        if publisher.current() is not None:
            return _json(Ready(True, []))
        return _json(Ready(False, allowed(request, [UNPUBLISHED])), 503)

    async def caughtup(request: Request) -> Response:
        reasons = readiness.reasons(publisher.current(), clock())
        texts = allowed(request, [reason.text for reason in reasons])
        return _json(CaughtUp(not reasons, texts), 503 if reasons else 200)

    def about(request: Request) -> Response:
        QueryParameters(request.query_params.multi_items())
        data, now = publisher.current(), clock()
        reasons = readiness.reasons(data, now)
        posts = inbox is not None and http is not None
        return _json(status(data, now=now, started=started, reasons=reasons, posts=posts))

    def metrics(request: Request) -> Response:
        return Response(metrics_text.text(), headers={"content-type": CONTENT_TYPE})

    routes = [Route(path, _answering(publisher, one)) for path, one in ENDPOINTS.items()]
    routes += [Route(path, files.respond) for path in ("/static/{name}", *_PAGES)]
    routes += [
        Route("/healthz", healthz),
        Route("/livez", livez),
        Route("/readyz", readyz),
        Route("/caughtup", caughtup),
        Route("/metrics", metrics),
        Route("/api/status", about),
        Route("/api/events", events, methods=["GET"]),
    ]
    memory = BodyMemory(max(limits.body_bytes, 0 if http is None else http.max_body_bytes))
    for kind in get_args(InboxKind):
        post = _no_posts(following)
        if inbox is not None and http is not None:
            post = _posting(kind, http, inbox, memory, threads, limits.body_seconds)
        # No pattern: it would answer every other path under /v1 with 405.
        routes.append(Route(f"/v1/{kind}", post, methods=["POST"]))
    # A redirect would be to whatever host the request named.
    router = Router(routes, redirect_slashes=False)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # Inside an application the router raises what it refuses itself.
        scope["app"] = app
        try:
            await router(scope, receive, send)
        except HTTPException as error:
            raise _refused(scope, error) from None

    return app


def _json(content: object, code: int = 200) -> Response:
    return Response(msgspec.json.encode(content), code, {"cache-control": "no-store"}, JSON)


def _answering(publisher: Publisher, described: Endpoint) -> Callable[[Request], Response]:
    # Not a coroutine: Starlette runs it in a thread, so that sorting ten thousand
    # slices does not delay the posts.
    def endpoint(request: Request) -> Response:
        data = publisher.current()
        if data is None:
            raise RefusedError(
                503,
                expected="a snapshot",
                got="none yet",
                where="the run",
                remedy="repeat the request in a second",
                retry_seconds=1,
            )
        query = request.query_params.multi_items()
        path = request.path_params.values()
        return _json(described.answer(data, query, *path, open_slice=publisher.open_slice))

    return endpoint


def _posting(
    kind: InboxKind,
    http: HttpSettings,
    inbox: Inbox,
    memory: BodyMemory,
    threads: ThreadPoolExecutor,
    seconds: float,
) -> Callable[[Request], Awaitable[Response]]:
    async def post(request: Request) -> Response:
        with memory.reserve() as reserve:
            body = await read_body(
                request.scope,
                request.receive,
                most=http.max_body_bytes,
                seconds=seconds,
                reserve=reserve,
            )
            body = one_line_each(body, header(request.scope, "content-type"))
            check_lines(body, http.max_line_bytes)
            loop = asyncio.get_running_loop()
            try:
                accepted = await loop.run_in_executor(threads, inbox.append, kind, body)
            except (StoreError, OSError) as error:
                raise RefusedError(
                    503,
                    expected="free space in the inbox",
                    got=str(error) if isinstance(error, StoreError) else "an error of the disk",
                    where="the inbox",
                    remedy="nothing of this body was taken; send it again later",
                    retry_seconds=5,
                ) from None
        return _json(Accepted(accepted), 202)

    return post


def _no_posts(following: bool) -> Callable[[Request], Awaitable[Response]]:
    got, where = "one that does not", "the run's settings"
    remedy = "add the table [http] to them"
    if following:
        got, where = "a process that only serves what a store holds", "streameval serve"
        remedy = "post to the run itself"

    async def refuse(request: Request) -> Response:
        raise RefusedError(
            404, expected="a run that takes posts", got=got, where=where, remedy=remedy
        )

    return refuse


def _refused(scope: Scope, error: HTTPException) -> RefusedError:
    """Starlette's own errors: an unknown path, or a method that the path does not have."""
    headers = dict(error.headers or {})
    expected, got, where = "a path of /openapi.json", scope["path"], "the path"
    near = [one for one in openapi()["paths"] if did_you_mean(_subject(got), [_subject(one)])]
    remedy = did_you_mean(got, near)
    if error.status_code == 405:
        expected, got, where = headers.get("Allow", ""), scope["method"], "the method"
        remedy = ""
    return RefusedError(
        error.status_code,
        expected=expected,
        got=shown(got),
        where=where,
        remedy=remedy,
        headers=tuple(headers.items()),
    )


def _subject(path: str) -> str:
    """The first part of a path that says what it is about."""
    return next((part for part in path.split("/") if part not in ("", "api", "v1")), "")


class _StaticFiles:
    """Files by names of a table: of ``static/``, plotly's script, the rules and dashboard."""

    def __init__(self) -> None:
        self._paths = {path.name: path for path in sorted((_HERE / "static").iterdir())}
        self._paths.update({name: _HERE / name for name in _BESIDE})
        self._paths[_PLOTLY] = _plotly_script()
        self._read: dict[str, tuple[tuple[int, int], bytes, str]] = {}

    def respond(self, request: Request) -> Response:
        """The file that a path names; raises RefusedError 404."""
        name = _PAGES.get(request.scope["path"]) or request.path_params["name"]
        body, etag = self._content(name)
        # The script changes with plotly's version only, and is large. The pages' own
        # files are requested again each time, at no cost where they did not change.
        cache = "private, max-age=2592000" if name == _PLOTLY else "no-cache"
        headers = {"etag": etag, "cache-control": cache}
        if etag in (header(request.scope, "if-none-match") or ""):
            return Response(status_code=304, headers=headers)
        # In parts, each when the client has read those before: a whole one would be copied for
        # every client, and stay as long as one reads nothing.
        headers |= {"content-length": str(len(body)), "content-type": _TYPES[Path(name).suffix]}
        return StreamingResponse(_parts(body), headers=headers)

    def _content(self, name: str) -> tuple[bytes, str]:
        """The content of a file and its entity tag; raises RefusedError 404."""
        path = self._paths.get(name)
        if name in _GENERATED:
            return (body := _GENERATED[name]()), _etag(body)
        if path is None or path.suffix not in _TYPES:
            raise RefusedError(
                404, expected="a file that is served", got="another name", where="/static/"
            )
        stat = path.stat()
        version = stat.st_mtime_ns, stat.st_size
        known = self._read.get(name)
        if known is None or known[0] != version:
            body = path.read_bytes()
            known = self._read[name] = version, body, _etag(body)
        return known[1:]


def _etag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


async def _parts(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _PART_BYTES):
        yield body[start : start + _PART_BYTES]


def _plotly_script() -> Path:
    # Not imported, because that takes a second.
    found = importlib.util.find_spec("plotly")
    if found is None or found.origin is None:
        raise MissingExtraError("the dashboard", package="plotly", extra="serve")
    return Path(found.origin).parent / "package_data" / _PLOTLY

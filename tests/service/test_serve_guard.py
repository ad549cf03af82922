"""Access to the server, and the headers of every response."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from streameval.errors import ConfigError
from streameval.service.config.address import Address
from streameval.service.config.settings import ServeSettings
from streameval.service.http.guard import COOKIE, LIMITS, Access
from streameval.service.http.server import Server
from tests.support.published_sample import SamplePublisher, published_data
from tests.support.serve_runs import TOKEN, Running, fetch, raw, serving

PATHS = [
    "/",
    "/metrics",
    "/api/report",
    "/api/events",
    "/api/status",
    "/openapi.json",
    "/docs",
    "/static/plotly.min.js",
    "/nothing",
]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    """Reachable from everywhere, therefore with a token."""
    # So many wrong tokens as these tests send are slowed elsewhere.
    limits = LIMITS._replace(wrong_tokens=1000)
    with serving(token=TOKEN, listen="0.0.0.0:0", limits=limits) as it:
        yield it


@pytest.fixture(scope="module")
def local() -> Iterator[Running]:
    with serving() as it:
        yield it


def url(running: Running, path: str = "/") -> str:
    return str(running.client.base_url).rstrip("/") + path


def test_ipv6_loopback_and_an_address_in_use() -> None:
    with serving(listen="[::1]:0") as running:
        assert running.server.url.startswith("http://[::1]:")
        assert running.json("/healthz") == {"alive": True}
        listen = str(running.server.address)
        with pytest.raises(ConfigError, match=re.escape(f"cannot listen at {listen}")):
            Server(ServeSettings(listen=Address(listen)), None, SamplePublisher(), None)


NOT_THE_TOKEN: list[dict[str, Any]] = [
    {"authorization": "Bearer"},
    {"authorization": f"Bearer {TOKEN}x"},
    {"authorization": f"Bearer {TOKEN[:-1]}"},
    {"authorization": f"Basic {TOKEN}"},
    {"authorization": b"Bearer \xff\xfe"},
    {"cookie": f"{COOKIE}={TOKEN}"},
    {"cookie": f"{COOKIE}="},
]


def test_nothing_is_shown_or_taken_without_the_token(guarded: Running) -> None:
    requests = [(path, {}) for path in PATHS]
    requests += [("/api/report", headers) for headers in NOT_THE_TOKEN]
    for path, headers in requests:
        response = fetch("GET", url(guarded, path), headers=headers)
        assert response.status_code == 401, (path, headers)
        assert response.headers["www-authenticate"] == "Bearer"
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert TOKEN not in response.text
    assert fetch("POST", url(guarded, "/v1/labels"), content=b"{}").status_code == 401
    assert guarded.inbox.posts == []
    assert guarded.client.post("/v1/labels", content=b"{}").status_code == 202
    given = {"authorization": f"bearer  {TOKEN}"}
    assert fetch("GET", url(guarded, "/metrics"), headers=given).status_code == 200


def test_with_a_token_any_name_will_do_and_it_counts_on_loopback_too(guarded: Running) -> None:
    # A proxy in front of it passes its own name on.
    headers = {"host": "metrics.example.org"}
    with serving(token=TOKEN) as running:
        for one in (guarded, running):
            assert one.json("/api/report", headers=headers)["sequence"] == 1
        assert fetch("GET", url(running, "/api/report")).status_code == 401


def test_probes_need_no_token_and_learn_no_names(guarded: Running) -> None:
    assert fetch("GET", url(guarded, "/healthz")).json() == {"alive": True}
    guarded.clock.now += 1000
    try:
        answer = fetch("GET", url(guarded, "/caughtup"))
        assert (answer.status_code, answer.json()) == (503, {"caught_up": False, "reasons": []})
        assert guarded.json("/caughtup", 503)["reasons"]
    finally:
        guarded.clock.now -= 1000


@pytest.mark.parametrize("way", ["form", "query"])
def test_a_browser_gets_a_cookie_for_the_token(guarded: Running, way: str) -> None:
    with httpx.Client(
        verify=False, base_url=url(guarded), headers={"accept": "text/html"}
    ) as browser:
        page = browser.get("/")
        assert page.status_code == 401
        assert 'type="password"' in page.text
        assert browser.get("/login").status_code == 200

        def log_in(token: str) -> httpx.Response:
            if way == "form":
                # As browsers do under the referrer policy no-referrer.
                return browser.post("/login", data={"token": token}, headers={"origin": "null"})
            return browser.get("/", params={"token": token})

        for wrong in ("", "nope", TOKEN + "x", "é" * 40):
            assert log_in(wrong).status_code == 403
        assert not browser.cookies
        right = log_in(TOKEN)
        assert (right.status_code, right.headers["location"]) == (303, "/")
        cookie = right.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie
        assert browser.get("/").status_code == 200
        assert browser.get("/api/report").json()["sequence"] == 1
        # The cookie is of this token only.
        other = Access("another token of 16", Address("0.0.0.0:0"))
        sent = [(b"cookie", f"{COOKIE}={browser.cookies[COOKIE]}".encode())]
        assert not other.allows({"headers": sent})
        assert Access(TOKEN, Address("0.0.0.0:0")).allows({"headers": sent})


def test_a_login_form_is_small_and_there_is_none_without_a_token(
    guarded: Running, local: Running
) -> None:
    response = fetch("POST", url(guarded, "/login"), content=b"token=" + b"x" * 5000)
    assert response.status_code == 413
    assert fetch("PUT", url(guarded, "/login")).status_code == 405
    assert local.client.get("/login").headers["location"] == "/"
    assert local.client.get("/?token=x").status_code == 200


def test_names_that_are_made_to_point_here_are_refused(local: Running) -> None:
    good = ["localhost", "LOCALHOST:80", "127.0.0.1:8642", "[::1]:8642", "[::1"]
    bad = ["evil.example", "localhost.evil.example", "192.168.1.7", ""]
    for path, status in (("/healthz", 200), ("/login", 303)):
        for host in good + bad:
            response = local.client.get(path, headers={"host": host})
            assert response.status_code == (421 if host in bad else status), host


def test_pages_of_other_sites_cannot_post(local: Running) -> None:
    before = len(local.inbox.posts)
    taken: list[dict[str, str]] = [
        *({}, {"origin": "http://localhost:1"}, {"sec-fetch-site": "none"}),
        {"sec-fetch-site": "same-origin", "origin": "null"},
    ]
    refused = [
        *({"origin": origin} for origin in ("http://evil.example", "null", "http://[")),
        {"sec-fetch-site": "cross-site", "origin": "http://localhost:1"},
        {"sec-fetch-site": "same-site"},
    ]
    for headers in taken + refused:
        sent = {"host": "localhost:1", "content-type": "text/plain", **headers}
        response = local.client.post("/v1/labels", content=b"{}", headers=sent)
        assert response.status_code == (202 if headers in taken else 403), headers
    assert len(local.inbox.posts) - before == len(taken)


def test_every_answer_is_locked_down(local: Running) -> None:
    for path in (*PATHS, "/login", "/healthz", "/v1/labels", "/api/series/x"):
        with local.client.stream("GET", path, headers={"host": "localhost"}) as response:
            policy = response.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self';" in policy
            assert "frame-ancestors 'none'" in policy
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["referrer-policy"] == "no-referrer"
            assert "server" not in response.headers


def test_large_headers_and_addresses(local: Running) -> None:
    assert local.client.get("/healthz", headers={"x": "y" * 16_384}).status_code == 431
    many = {f"x-{number}": "y" for number in range(101)}
    assert local.client.get("/healthz", headers=many).status_code == 431
    assert local.client.get("/healthz?" + "q" * 8192).status_code == 414
    assert local.client.get("/healthz", headers={"x": "y" * 10_000}).status_code == 200
    # Far beyond, the protocol itself gives up.
    answer = raw(local.server.url, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000)
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_methods(local: Running) -> None:
    paths = {"/", "/api/report", "/api/events", "/metrics", "/healthz", "/static/app.js"}
    for path in (*paths, "/v1/labels"):
        for method in {"PUT", "DELETE", "PATCH", "OPTIONS", "BREW", *("POST",) * (path in paths)}:
            response = local.client.request(method, path, content=b"{}")
            assert response.status_code == 405
            assert ("GET" if path in paths else "POST") in response.headers["allow"]
            assert response.json()["error"]["got"] == f"'{method}'"
        response = local.client.head(path)
        assert (response.status_code, response.content) == (200 if path in paths else 405, b"")


def test_only_the_files_that_are_meant(local: Running) -> None:
    for name in (
        *("../server.py", "..%2fserver.py", "%2e%2e/server.py", "..\\server.py", "/etc/passwd"),
        *("%00", "", "server.py"),
    ):
        request = f"GET /static/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert raw(local.server.url, request.encode()).startswith(b"HTTP/1.1 404 "), name


def test_files_are_cached_by_what_they_hold(local: Running) -> None:
    script = local.client.get("/static/plotly.min.js")
    assert "max-age=2592000" in script.headers["cache-control"]
    assert script.headers["content-type"].startswith("text/javascript")
    assert b"plotly.js v" in script.content[:200]
    for path in ("/static/plotly.min.js", "/", "/static/grafana_dashboard.json"):
        etag = local.client.get(path).headers["etag"]
        again = local.client.get(path, headers={"if-none-match": etag})
        assert (again.status_code, again.content) == (304, b"")
        other = local.client.get(path, headers={"if-none-match": '"0"'})
        assert other.status_code == 200
    assert local.client.get("/").headers["cache-control"] == "no-cache"
    assert local.client.get("/").headers["content-type"] == "text/html; charset=utf-8"


def test_headers_that_never_end_are_cut_off() -> None:
    with serving(limits=LIMITS._replace(header_seconds=0.2)) as running:
        url = running.server.url
        for start_of_request in (b"", b"GET / HTTP/1.1\r\nHost: local"):
            assert raw(url, start_of_request) == b""
        # Also after a whole request, in the rest of a body that was refused.
        request = b"POST /v1/labels HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
        assert b" 413 " in raw(url, request)
        assert running.json("/healthz") == {"alive": True}


def test_stopping_twice_and_with_open_connections() -> None:
    with serving(published_data()) as running:
        running.json("/healthz")
        running.server.stop()
        running.server.stop()
        with pytest.raises(httpx.TransportError):
            running.client.get("/healthz")

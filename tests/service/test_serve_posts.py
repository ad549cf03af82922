"""Posting events: what is accepted is durable, what is refused has no effect."""

from __future__ import annotations

import http.client
import json
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from streameval.service.config.source_settings import HttpSettings
from streameval.service.http.guard import LIMITS
from streameval.service.sources.inbox import Inbox, InboxSource
from tests.support.published_sample import HOSTILE
from tests.support.serve_runs import Box, fetch, raw, serving

SMALL = HttpSettings(max_body_bytes=2000, max_line_bytes=200)
NDJSON = {"content-type": "application/x-ndjson"}


def read_all(inbox: Inbox) -> dict[str, list[bytes]]:
    source = InboxSource(inbox, {})
    found: dict[str, list[bytes]] = {}
    while batches := source.read(1000, 0):
        for batch in batches:
            found.setdefault(batch.partition, []).extend(batch.messages)
    source.close()
    return found


def test_posts_reach_the_inbox(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "inbox")
    with serving(inbox=inbox) as running:
        lines = [json.dumps({"id": n, "score": 0.5}).encode() for n in range(100)]
        body = b"\n".join(lines) + b"\r\n\n"
        response = running.client.post("/v1/predictions", content=body, headers=NDJSON)
        assert (response.status_code, response.json()) == (202, {"accepted": 100})
        response = running.client.post("/v1/labels", json={"id": 1, "y_true": HOSTILE[1]})
        assert (response.status_code, response.json()) == (202, {"accepted": 1})
        # Durable when answered: another reader of the files sees it all.
        found = read_all(inbox)
    assert [line.strip() for line in found["http:predictions"]] == lines
    assert [json.loads(line) for line in found["http:labels"]] == [{"id": 1, "y_true": HOSTILE[1]}]
    inbox.close()


JSON = {"content-type": "application/json; charset=utf-8"}


def test_json_is_one_object_or_lines() -> None:
    bodies = {
        b'{\n  "id": 1,\n  "name": "a\\nb"\n}\n': 1,
        b'{"id": 1}\n\n  \n{"id": 2}': 2,
        b'{"id": 1}\n{broken': 2,
    }
    with serving() as running:
        for body, accepted in bodies.items():
            response = running.client.post("/v1/labels", content=body, headers=JSON)
            assert response.json() == {"accepted": accepted}
            assert len(running.inbox.lines) == accepted
            running.inbox.posts.clear()
        for body in (b'[{"id": 1}]', b"{\n" * 5, b'{\n"a": 1\n}\n}', b'{"a":\n' * 100_000):
            response = running.client.post("/v1/labels", content=body, headers=JSON)
            assert response.status_code == 400
        assert running.inbox.posts == []


def test_what_is_refused_leaves_nothing() -> None:
    refused = {
        b"": (400, "the body"),
        b" \n\r\n\t ": (400, "the body"),
        b'{"id": 1}\n{"id": "\xff"}': (400, "line 2"),
        '{"id": 1}'.encode("utf-16"): (400, "line 1"),
        b'{}\n{}\n{"id": "' + b"x" * 200 + b'"}': (413, "line 3"),
        b"{}\n" * 1000: (413, "the body"),
    }
    with serving(http=SMALL) as running:
        for body, wanted in refused.items():
            for content in (body, iter([body[:7], body[7:]])):
                response = running.client.post("/v1/predictions", content=content, headers=NDJSON)
                assert (response.status_code, response.json()["error"]["where"]) == wanted
        assert running.inbox.posts == []
        # The bounds themselves are fine: a line of 200 bytes, a body of 2,000.
        longest = b'{"id": "' + b"x" * 190 + b'"}'
        for body in (longest, b"{}\n" + longest, b"{}\n" * 666 + b"{}"):
            assert running.client.post("/v1/labels", content=body).status_code == 202


@pytest.mark.parametrize("fault", ["full", "broken"])
def test_a_full_inbox_or_disk_is_to_be_tried_again(fault: str) -> None:
    box = Box()
    setattr(box, fault, True)
    with serving(inbox=box) as running:
        response = running.client.post("/v1/labels", content=b"{}")
        assert (response.status_code, response.headers["retry-after"]) == (503, "5")
        assert "nothing of this body was taken" in response.json()["error"]["remedy"]
        setattr(box, fault, False)
        assert running.client.post("/v1/labels", content=b"{}").status_code == 202


def test_a_slow_disk_delays_no_other_request() -> None:
    box = Box()
    box.go_on.clear()
    limits = LIMITS._replace(body_bytes=3000)
    with serving(inbox=box, http=SMALL, limits=limits) as running:
        body = b"{}\n" * 400
        with ThreadPoolExecutor(2) as pool:
            posts = [
                pool.submit(fetch, "POST", running.server.url + "v1/labels", content=body)
                for _ in range(2)
            ]
            box.entered.acquire()
            box.entered.acquire()
            assert running.json("/api/report")["sequence"] == 1
            # Both bodies are in memory: a third has no room.
            response = running.client.post("/v1/labels", content=body)
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")
            box.go_on.set()
            assert [post.result().status_code for post in posts] == [202, 202]
        assert running.client.post("/v1/labels", content=body).status_code == 202


@pytest.mark.parametrize(
    ("token", "status", "chunked"), [(None, 413, True), ("a-token-of-twenty-two", 401, False)]
)
def test_a_client_that_sends_much_gets_the_reason_of_the_refusal(
    token: str | None, status: int, chunked: bool
) -> None:
    # More than sockets buffer: the client is still sending when it is refused.
    body = b'{"id": 1}\n' * 2_000_000
    with serving(http=SMALL, token=token) as running:
        # As Python's urllib sends it; the server closes with its answer.
        headers = {"Connection": "close", **({"Transfer-Encoding": "chunked"} if chunked else {})}
        place = urlsplit(running.server.url)
        with closing(http.client.HTTPConnection(place.netloc, timeout=20)) as connection:
            sent = iter([body]) if chunked else body
            connection.request("POST", "/v1/labels", sent, headers, encode_chunked=chunked)
            response = connection.getresponse()
            assert (response.status, "error" in json.load(response)) == (status, True)
        assert running.inbox.posts == []


def malformed(rng: random.Random) -> list[tuple[int, bytes]]:
    """A request that is wrong in each of many ways, and the status it deserves."""
    # Never UTF-8, whatever else it is.
    body = bytes(rng.randrange(256) for _ in range(rng.randrange(60))) + b"\xff"
    start = b"POST /v1/predictions HTTP/1.1\r\nConnection: close\r\n"
    host = b"Host: localhost\r\n"
    good = start + host
    length = b"Content-Length: %d\r\n" % len(body)
    rest = length + b"\r\n" + body
    deep = b'{"a":\n' * 1000
    return [
        (400, good + rest),
        (400, good + b"Transfer-Encoding: chunked\r\n\r\n1\r\n\xff\r\n0\r\n\r\n"),
        (400, good + b"Content-Type: application/json\r\n" + rest),
        (400, good + b"Content-Type: application/json\r\nContent-Length: 6000\r\n\r\n" + deep),
        (400, good + b"Content-Length: 0\r\n\r\n"),
        (413, good + b"Content-Length: 2000000\r\n\r\n" + body),
        (413, good + b"Content-Length: 1002\r\n\r\n" + b"{" * 1001 + b"\n"),
        (400, good + b"Content-Length: -1\r\n\r\n" + body),
        (400, good + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n"),
        (400, good + b"Content-Length: 61\r\n" + b"Content-Length: 62\r\n\r\n" + body),
        (400, good + b"Transfer-Encoding: gzip\r\n\r\n" + body),
        (408, good + b"Content-Length: 500\r\n\r\n" + body),
        (400, start + rest),
        (421, start + b"Host: evil.example\r\n" + rest),
        (431, good + b"X: " + b"y" * 20_000 + b"\r\n" + rest),
        (400, good + b"Bad Name: 1\r\n" + rest),
        (404, good.replace(b"predictions", b"nothing") + rest),
        (414, good.replace(b"v1", b"a" * 9000) + rest),
        (405, good.replace(b"POST", b"BREW") + rest),
        (403, good + b"Origin: http://evil.example\r\n" + rest),
        (415, good + b"Content-Encoding: br\r\n" + rest),
        (400, b"\xff" + body.replace(b"\n", b"") + b"\r\n\r\n"),
    ]


def test_malformed_requests() -> None:
    http = HttpSettings(max_body_bytes=1_000_000, max_line_bytes=1000)
    limits = LIMITS._replace(body_seconds=0.2)
    rng = random.Random(5)
    with serving(http=http, limits=limits) as running:
        url = running.server.url
        requests = [one for _ in range(4) for one in malformed(rng)]
        rng.shuffle(requests)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda request: raw(url, request[1]), requests))
        wrong = [
            (status, request[:200], answer[:200])
            for (status, request), answer in zip(requests, answers, strict=True)
            if not answer.startswith(b"HTTP/1.1 %d " % status)
        ]
        assert wrong == []
        # Clients that break off, too.
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda request: raw(url, request[1], close=True), requests[:44]))
        assert running.inbox.posts == []
        assert running.client.post("/v1/labels", content=b"{}").status_code == 202
        assert running.json("/api/report")["sequence"] == 1

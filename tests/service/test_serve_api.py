"""The JSON API and its stream of events: every response is as openapi.json says, and right."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from html import unescape
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from streameval.errors import ConfigError
from streameval.service.config.address import Address
from streameval.service.config.settings import ServeSettings
from streameval.service.http.api import ENDPOINTS
from streameval.service.http.guard import LIMITS
from streameval.service.http.openapi import openapi
from streameval.service.progress import Progress
from streameval.service.run.probes import probes
from tests.support.published_sample import HOSTILE, published, published_data
from tests.support.serve_runs import Running, connected, fetch, serving

OPENAPI = openapi()

ASKED = [
    *(path.format(name="roc", metric="accuracy") for path in ENDPOINTS),
    "/api/view?window=recent&metric=accuracy&slice=country%3DC13",
    "/api/report?slice=country%3DC13&window=1h",
    "/api/curves/precision_recall?window=recent",
    "/api/curves/calibration?slice=country%3DC13",
    "/api/series/log_loss?window=1h&slice=country%3DC13",
    "/api/confusion?limit=1&slice=country%3DC13",
    "/api/comparison?slice=country%3DC13&window=1h",
    "/api/slices?sort=accuracy&order=best&min_support=100&q=c&offset=1&limit=3",
    "/api/quarantine?reason=score&limit=1",
    *("/healthz", "/livez", "/readyz", "/caughtup"),
]
REFUSED = [
    ("/api/view?metric=nope", 400),
    *((f"/api/{part}?slice=nope", 404) for part in ("view", "report", "confusion", "comparison")),
    ("/api/curves/roc?slice=nope", 404),
    ("/api/series/accuracy?slice=nope", 404),
    ("/api/slices?slice=nope", 400),
    ("/api/report?window=nope", 400),
    ("/api/report?window=" + "w" * 201, 400),
    ("/api/curves/lift", 404),
    ("/api/series/nope", 404),
    ("/api/series/accuracy?window=all", 404),
    ("/api/slices?sort=support&order=worst", 400),
    ("/api/slices?order=sideways", 400),
    ("/api/slices?limit=-1", 400),
    ("/api/slices?limit=10001", 400),
    ("/api/slices?limit=%D9%A3", 400),
    ("/api/slices?offset=" + "9" * 100, 400),
    ("/api/status?verbose=1", 400),
    ("/api/slices/", 404),
]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(published_data(slices=60, classes=2, models=2)) as it:
        yield it


@pytest.fixture(scope="module")
def multiclass() -> Iterator[Running]:
    with serving(published_data(slices=300, classes=140, join=False)) as it:
        yield it


def schema_of(path: str, method: str, status: int) -> dict[str, Any]:
    """What openapi.json says of the answer; the template is found as a router would."""
    bare = path.partition("?")[0]
    wanted = bare.split("/")
    for template, operations in OPENAPI["paths"].items():
        pieces = template.split("/")
        fits = len(pieces) == len(wanted) and all(
            piece == want or piece.startswith("{")
            for piece, want in zip(pieces, wanted, strict=True)
        )
        if fits and method in operations:
            found = operations[method]["responses"][str(status)]
            if "$ref" in found:
                found = OPENAPI["components"]["responses"][found["$ref"].rpartition("/")[2]]
            content = found["content"]["application/json"]
            return {**OPENAPI, **content["schema"]}
    raise AssertionError(f"{method} {path} is not described")


def check(instance: object, schema: dict[str, Any]) -> None:
    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(
        instance
    )


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize("which", ["running", "multiclass"])
def test_answers_are_as_described(path: str, which: str, request: pytest.FixtureRequest) -> None:
    asked: Running = request.getfixturevalue(which)
    response = asked.client.get(path)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    check(response.json(), schema_of(path, "get", 200))


@pytest.mark.parametrize(("path", "status"), REFUSED)
def test_refusals_are_as_described(running: Running, path: str, status: int) -> None:
    response = running.client.get(path)
    assert response.status_code == status, response.text
    check(response.json(), {**OPENAPI, "$ref": "#/components/schemas/Error"})
    if path.startswith("/api/") and not path.endswith("/"):
        schema_of(path, "get", status)
    if status == 404 and "nope" in path:
        assert "'nope'" in response.json()["error"]["got"]


def test_every_route_is_described_and_the_other_way_round(running: Running) -> None:
    served = running.json("/openapi.json")
    assert served == OPENAPI
    for template, operations in OPENAPI["paths"].items():
        for method in operations:
            path = template.format_map({"name": "roc", "metric": "accuracy"})
            if path in ("/api/events", "/static/roc"):
                continue
            status = running.client.request(method, path, content=b"{}").status_code
            assert status in (200, 202), (method, path)


def test_an_unknown_path_names_a_near_one(running: Running) -> None:
    with serving(http=None) as without_posts:
        for method, path, near in (
            ("GET", "/api/sliecs", "/api/slices"),
            ("GET", "/api/curve/roc", "/api/curves/{name}"),
            ("POST", "/v1/prediction", "/v1/predictions"),
            ("GET", "/api/nothing", ""),
        ):
            for one in (running, without_posts):
                answer = one.client.request(method, path, content=b"{}")
                assert answer.status_code == 404
                wanted = f"did you mean '{near}'?" if near else ""
                assert answer.json()["error"]["remedy"] == wanted
        answer = without_posts.client.post("/v1/labels", content=b"{}")
        assert "[http]" in answer.json()["error"]["remedy"]


def test_the_page_of_the_api_has_every_path_and_type(running: Running) -> None:
    page = running.client.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    anchors = set(re.findall(r' id="([^"]+)"', page.text))
    assert set(re.findall(r'href="#([^"]+)"', page.text)) <= anchors
    for path, operations in OPENAPI["paths"].items():
        for method, operation in operations.items():
            assert f"<code>{method.upper()} {path}</code></h2>" in page.text
            assert operation["summary"] in unescape(page.text)
            assert (method == "post") == operation.get("requestBody", {}).get("required", False)
            for parameter in operation.get("parameters", ()):
                assert parameter["description"] in unescape(page.text)
    assert {f"type-{name}" for name in OPENAPI["components"]["schemas"]} <= anchors
    # Nothing from elsewhere, and nothing inline that the policy forbids.
    assert not re.search(r'(src|href)="(?![/#])|<style|style=|<script>| on\w+="', page.text)
    asked = re.findall(r"<pre[^>]*>curl '?http://127.0.0.1:8642([^ '<]+)", unescape(page.text))
    for command in asked:
        if not re.search("data-binary|/v1/|^/api/events$", command):
            assert running.client.get(command).status_code == 200, command


def test_what_there_is_not_is_null_with_its_reason(running: Running, multiclass: Running) -> None:
    row = running.json("/api/report")["report"]["metrics"]["matthews_corrcoef"]
    assert (row["value"], row["reason"]) == (None, "every event was predicted 'a'")
    curve = multiclass.json("/api/curves/roc")
    assert (curve["columns"], "multiclass" in curve["reason"]) == ({}, True)
    assert multiclass.json("/api/join")["join"] is None
    with serving({**published_data(), "series": {}}) as without_panes:
        assert without_panes.json("/api/view")["series"] is None


@pytest.mark.parametrize(
    ("metric", "order", "wanted"),
    [
        # The better end first decides, so that few events alone make no slice the worst.
        ("accuracy", "worst", ["sure", "high", "wide", "none", "also", "undefined"]),
        ("accuracy", "best", ["high", "sure", "wide", "none", "also", "undefined"]),
        ("accuracy", "asc", ["wide", "none", "sure", "high", "also", "undefined"]),
        ("accuracy", "desc", ["high", "sure", "none", "wide", "also", "undefined"]),
        ("log_loss", "worst", ["high", "sure", "wide", "none", "also", "undefined"]),
        ("log_loss", "best", ["sure", "high", "wide", "none", "also", "undefined"]),
    ],
)
def test_worst_and_best_slices_are_certainly_so(metric: str, order: str, wanted: list[str]) -> None:
    none = (None, None, None)
    rows = {"wide": (0.3, 0.1, 0.9), "sure": (0.5, 0.45, 0.55), "high": (0.7, 0.65, 0.75)}
    rows |= {"none": (0.4, None, None), "undefined": none, "also": none}
    data = published(slices=len(rows), hostile=False, undefined=False)
    for at, (name, given) in enumerate(rows.items()):
        value, low, high = ({metric: one} for one in given)
        ends = {} if given[1] is None else {"low": low, "high": high}
        row = replace(data.slices["all"][at], low={}, high={}, support=at + 1, metrics=value)
        data.slices["all"][at] = replace(row, name=name, **ends)
    query = [("sort", metric), ("order", order), ("min_support", "1")]
    found = ENDPOINTS["/api/slices"].answer(data, query)["slices"]
    assert [row.name for row in found] == wanted


def test_pages_of_slices_are_the_whole(multiclass: Running) -> None:
    every = multiclass.json("/api/slices?sort=f1_macro&limit=10000")
    pages: list[Any] = []
    for offset in range(0, 300, 70):
        pages += multiclass.json(f"/api/slices?sort=f1_macro&limit=70&offset={offset}")["slices"]
    assert pages == every["slices"]
    assert every["all"] == every["matching"] == len(pages) == 300
    assert set(HOSTILE) <= {row["slice"]["country"] for row in pages}


def test_the_largest_classes_of_a_confusion_matrix(multiclass: Running) -> None:
    whole = multiclass.json("/api/confusion")
    assert (len(whole["labels"]), whole["left_out"]) == (100, 40)
    part = multiclass.json("/api/confusion?limit=7")
    sums = sorted((sum(row) for row in whole["matrix"]), reverse=True)[:7]
    at = [whole["labels"].index(label) for label in part["labels"]]
    assert sorted((sum(whole["matrix"][row]) for row in at), reverse=True) == sums
    assert part["matrix"] == [[whole["matrix"][r][c] for c in at] for r in at]
    assert part["left_out"] == 133
    newest: Any = multiclass.publisher.current()
    assert [row["label"] for row in part["classes"]] == newest.labels  # all 140


def test_quarantine_by_reason(running: Running) -> None:
    answer = running.json("/api/quarantine?reason=score")
    assert {row["reason"] for row in answer["recent"]} == {"score"}
    assert answer["matching"] == len(answer["recent"]) > 0
    assert answer["total"] == 1000


def test_before_the_first_snapshot() -> None:
    with serving(published=False) as running:
        response = running.client.get("/api/report")
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert running.json("/healthz") == {"alive": True}
        assert running.json("/readyz", 503)["reasons"] == ["nothing has been published yet"]
        assert running.json("/api/status")["run"] is None
        assert "streameval_ready 0.0" in running.client.get("/metrics").text


def test_caught_up_only_while_read_and_checkpointing() -> None:
    with serving(published_data(lag=100)) as running:
        assert running.json("/caughtup") == {"caught_up": True, "reasons": []}
        running.clock.now += 24
        assert running.json("/caughtup")["caught_up"]
        running.clock.now += 2
        # What is behind can serve all the same.
        assert running.json("/readyz") == {"ready": True, "reasons": []}
        answer = running.json("/caughtup", 503)
        assert answer["reasons"] == ["the last checkpoint is 31 s old; expected at most 30 s"]
        for sequence, lag in enumerate((100, 100_001, None, 100_000), 2):
            data = published_data(sequence=sequence, at=running.clock.time, lag=lag)
            running.publisher.publish(data)
            if lag in (100, 100_000):
                assert running.json("/caughtup")["caught_up"]
            else:
                (reason,) = running.json("/caughtup", 503)["reasons"]
                assert reason.startswith("http:predictions: ")


def test_a_partition_with_a_problem_is_not_caught_up() -> None:
    data = published_data()
    data["partitions"] = [
        {**data["partitions"][0], "partition": f"p{number}", "problem": "no broker"}
        for number in range(50)
    ]
    with serving(data) as running:
        reasons = running.json("/caughtup", 503)["reasons"]
    assert reasons[0] == "p0: no broker"
    assert reasons[-1] == "and 30 more"
    assert len(reasons) == 21


def test_alive_while_the_loop_makes_steps() -> None:
    seconds = 0.0
    progress = Progress(lambda: seconds)
    with serving(published=False, progress=progress) as running:
        assert running.json("/livez") == {"alive": True}
        progress.step()
        for seconds, status in ((119.0, 200), (121.0, 503)):  # noqa: B007
            running.json("/livez", status)
        progress.step()
        running.json("/livez")


def test_probes_of_a_process_without_pages() -> None:
    seconds = 0.0
    progress = Progress(lambda: seconds)
    with probes(ServeSettings(probes=Address("127.0.0.1:0")), progress) as url:
        # A store that is being restored is no reason to be killed, and cannot serve.
        assert [fetch("GET", f"{url}{path}").status_code for path in PROBES] == [200, 503, 404]
        progress.step()
        assert [fetch("GET", f"{url}{path}").status_code for path in PROBES] == [200, 200, 404]
        seconds = 121.0
        assert [fetch("GET", f"{url}{path}").status_code for path in PROBES] == [503, 503, 404]
        taken = str(url).removeprefix("http://").removesuffix("/")
        with (
            pytest.raises(ConfigError, match=r"serve\.probes: cannot listen at "),
            probes(ServeSettings(probes=Address(taken)), progress),
        ):
            pass
    with probes(ServeSettings(), progress) as url:
        assert url is None


def test_probes_are_answered_on_ipv6_and_beside_silent_clients() -> None:
    with (
        probes(ServeSettings(probes=Address("[::1]:0")), Progress(lambda: 0.0)) as url,
        ExitStack() as stack,
    ):
        port = int(url.rpartition(":")[2].strip("/"))
        assert url == f"http://[::1]:{port}/"
        before = threading.active_count()
        for _ in range(30):
            wire = stack.enter_context(socket.create_connection(("::1", port), 30))
            wire.sendall(b"GET /live")
        assert fetch("GET", f"{url}livez").status_code == 200
        # The ends of the oldest ones are noticed by their threads.
        deadline = time.monotonic() + 30
        while threading.active_count() > before + 17:
            assert time.monotonic() < deadline
            time.sleep(0.01)


PROBES = ("livez", "readyz", "metrics")


def test_a_failure_of_its_own_is_reported_without_details(caplog: pytest.LogCaptureFixture) -> None:
    data = published()
    broken: dict[str, Any] = {**data.confusion, "all": None}
    with serving(msgspec.structs.replace(data, confusion=broken)) as running:
        error = running.json("/api/confusion", 500)["error"]
        assert error["remedy"] == "see its log"
        assert "NoneType" not in str(error)
        assert running.json("/api/report")["sequence"] == 1
    assert "AttributeError: 'NoneType' object has no attribute 'labels'" in caplog.text


# The stream of events


class Listener:
    """Reads events one by one."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def block(self) -> list[str]:
        """The lines up to an empty one."""
        found = []
        for line in self._lines:
            if not line:
                return found
            found.append(line)
        raise EOFError

    def snapshot(self) -> Any:
        """The next snapshot; comments are passed over."""
        while True:
            fields = dict(line.split(": ", 1) for line in self.block() if not line.startswith(":"))
            if fields.get("event") == "snapshot":
                data = json.loads(fields["data"])
                assert fields["id"] == str(data["sequence"])
                return data


@contextmanager
def listening(running: Running) -> Iterator[Listener]:
    with running.client.stream("GET", "/api/events") as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        listener = Listener(response.iter_lines())
        assert listener.block() == ["retry: 2000"]
        yield listener


def test_each_publish_is_sent_to_every_client() -> None:
    with serving() as running, listening(running) as one, listening(running) as two:
        for sequence in range(1, 6):
            for listener in (one, two):
                assert listener.snapshot()["sequence"] == sequence
            assert running.json("/api/report")["sequence"] == sequence
            running.publisher.publish(published_data(sequence=sequence + 1))


def test_an_event_is_as_described_and_hostile_texts_stay_inside_it() -> None:
    with serving(published_data(slices=1000, classes=50)) as running, listening(running) as it:
        data = it.snapshot()
        check(data, {**OPENAPI, "$ref": "#/components/schemas/SnapshotEvent"})
        # What grows with slices and classes is asked for apart.
        assert len(json.dumps(data)) < 20_000


def test_before_the_first_snapshot_there_is_silence_then_comments() -> None:
    limits = LIMITS._replace(event_seconds=0.05)
    with serving(published=False, limits=limits) as running, listening(running) as it:
        assert it.block() == [": still here"]
        assert it.block() == [": still here"]
        running.publisher.publish(published_data(sequence=7))
        assert it.snapshot()["sequence"] == 7


LARGE = published_data(slices=0)
LARGE["alerts"] = [{**LARGE["alerts"][0], "name": "x" * 100_000}]


def test_a_slow_reader_skips_to_the_newest() -> None:
    with serving() as running:
        with connected(running) as wire:
            wire.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            # It reads nothing, while the other one hears of 400 times 100 kB: more than
            # the system keeps for a connection.
            with listening(running) as attentive:
                for sequence in range(2, 402):
                    running.publisher.publish({**LARGE, "sequence": sequence})
                    while attentive.snapshot()["sequence"] != sequence:
                        pass
            heard = []
            tail = b""
            while heard[-1:] != [401]:
                tail += wire.recv(1 << 20)
                heard += [int(number) for number in re.findall(rb"\nid: (\d+)\n", tail)]
                # What is left may hold the beginning of an id.
                tail = tail[-20:] if not re.search(rb"\nid: \d+\n", tail[-20:]) else b""
        assert heard == sorted(set(heard))
        assert len(heard) < 350


def test_the_number_of_clients_is_bounded_and_falls_when_they_disconnect() -> None:
    limits = LIMITS._replace(listeners=2)
    with serving(limits=limits) as running:
        with listening(running), listening(running):
            response = running.client.get("/api/events")
            assert (response.status_code, response.headers["retry-after"]) == (503, "30")
            assert running.json("/api/report")["sequence"] == 1
        deadline = time.monotonic() + 10
        while running.server._events.listeners:
            assert time.monotonic() < deadline
        with listening(running) as it:
            assert it.snapshot()["sequence"] == 1


def test_the_end_of_the_server_ends_the_stream() -> None:
    with serving() as running, listening(running) as it:
        it.snapshot()
        running.server.stop()
        # In order, not broken off: that would be httpx.RemoteProtocolError.
        with pytest.raises(EOFError):
            list(iter(it.block, None))

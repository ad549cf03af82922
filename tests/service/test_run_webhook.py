"""Alerts are posted to a real server: repeated, authorised, without blocking the caller."""

from __future__ import annotations

import json
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from streameval.service.alerts.inputs import AlertInput
from streameval.service.alerts.rules import AlertBook
from streameval.service.alerts.transition import Transition
from streameval.service.alerts.webhook import Webhook
from streameval.service.config.settings import (
    AlertSettings,
    Duration,
    RunSettings,
    WebhookSettings,
)
from streameval.service.publish.snapshot import Value

LONG = 30.0
"""Seconds after which a test that hangs gives up."""


class Receiver:
    """A server that gives the answers it was told, then 204; what came is in a queue."""

    def __init__(self, *answers: int | str) -> None:
        self.came: queue.Queue[tuple[str, dict[str, str], Any]] = queue.Queue()
        self.answers = list(answers)
        self.hold = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.came.put((self.path, dict(self.headers), json.loads(body)))
                answer = receiver.answers.pop(0) if receiver.answers else 204
                if answer == "hold":
                    receiver.hold.wait(LONG)
                elif answer == "nonsense":
                    self.wfile.write(b"hunter2 \x00\n" * 3)
                elif isinstance(answer, int):
                    self.send_response(answer)
                    if 300 <= answer < 400:
                        self.send_header("Location", "/elsewhere")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                self.close_connection = True

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def next(self) -> tuple[str, dict[str, str], Any]:
        return self.came.get(timeout=LONG)

    def close(self) -> None:
        self.hold.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


Receive = Callable[..., Receiver]


@pytest.fixture
def receive() -> Iterator[Receive]:
    """Starts a server that gives these answers."""
    with ExitStack() as stack:

        def receive(*answers: int | str) -> Receiver:
            return stack.enter_context(closing(Receiver(*answers)))

        yield receive


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def transitions(count: int) -> list[Transition]:
    book = AlertBook(RunSettings(alert=[AlertSettings(name="low", metric="f1", below=0.8)]))
    for n in range(count):
        book.judge({"low": AlertInput(Value(0.9 if n % 2 else 0.7, 5))}, n)
    return book.unsent


def finished(hook: Webhook, count: int) -> list[int]:
    """What was posted or given up, once the thread has gone through all that was posted."""
    found: list[int] = []
    waited = threading.Event()
    for _ in range(int(LONG / 0.005)):
        found += hook.finished()
        if len(found) >= count:
            break
        waited.wait(0.005)
    hook.close(LONG)
    return found


def test_it_is_repeated_until_it_arrives(
    receive: Receive, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = receive(503, "hang up", "nonsense", 429, 204, 500)
    where = f"http://me:hunter2@{receiver.address}/hook?key=hunter2"
    caplog.set_level(logging.INFO)
    hook = Webhook(WebhookSettings(url=where, token="hunter2"), first_delay=0.001)
    for transition in transitions(2):
        assert hook.post(transition)
    for _ in range(5):
        path, headers, body = receiver.next()
        assert path == "/hook?key=hunter2"
        assert headers["Authorization"] == "Bearer hunter2"
        assert headers["Content-Type"] == "application/json"
        assert body["number"] == 1
    # The frozen run has whole bodies.
    assert body["text"] == "firing: low: f1 is 0.7 (below 0.8 fires) in window all, support 5"
    assert receiver.next()[2]["event"] == "resolved"
    assert finished(hook, 2) == [1, 2]
    assert (hook.sent, hook.failed, hook.problem) == (2, 0, "")
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in told] == ["WARNING", *["INFO"] * 3, "WARNING"]
    begin = f"alert low not posted to http://***@{receiver.address}/***, attempt "
    for number, wait in ((1, "0.001"), (4, "0.008")):
        status = (503, 429)[number > 1]
        text = f"{begin}{number} of 6: answered with status {status}; again in {wait} s"
        assert told[number - 1][1] == text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("answer", "problem", "times"),
    [
        (500, "answered with status 500", 3),
        ("hang up", "", 3),
        ("nonsense", "", 3),
        ("hold", "", 3),
        (None, "cannot be reached: ConnectionRefusedError (Connection refused)", 0),
        # What will not change is given up at once.
        *((status, f"answered with status {status}", 1) for status in (400, 401, 404, 301, 307)),
    ],
)
def test_it_is_given_up_after_so_many_times(
    receive: Receive, answer: Any, problem: str, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    receiver = receive(*[answer] * 10)
    if answer is None:
        receiver.close()
    timeout = Duration("50ms" if answer == "hold" else "30s")
    url = f"http://me:hunter2@{receiver.address}/hunter2?key=hunter2"
    settings = WebhookSettings(url=url, token="hunter2", timeout=timeout, retries=2)
    hook = Webhook(settings, first_delay=0.001 if times != 1 else LONG)
    hook.post(transitions(1)[0])
    assert finished(hook, 1) == [1]
    assert receiver.came.qsize() == times
    assert (hook.sent, hook.failed) == (0, 1)
    assert problem in hook.problem
    assert hook.problem
    assert f"alert low not posted to http://***@{receiver.address}/***: {problem}" in caplog.text
    assert "hunter2" not in caplog.text + hook.problem


def test_a_full_queue_does_not_block_the_caller(receive: Receive) -> None:
    receiver = receive("hold")
    hook = Webhook(WebhookSettings(url=f"http://{receiver.address}/"), first_delay=LONG)
    first = transitions(1)[0]
    hook.post(first)
    receiver.next()  # it is being posted now, and the server does not answer
    posted = [hook.post(first) for _ in range(1002)]
    assert posted == [True] * 1000 + [False] * 2
    assert hook.finished() == [1, 1]
    assert hook.problem == "1,000 posts wait already"
    receiver.hold.set()
    hook.close(LONG)
    assert hook.sent == 1001 - hook.failed + 2


def test_a_stop_cuts_repetitions_short_and_finishes_nothing(receive: Receive) -> None:
    receiver = receive(500, 500)
    hook = Webhook(WebhookSettings(url=f"http://{receiver.address}/"), first_delay=LONG)
    first, second, third = transitions(3)
    hook.post(first)
    receiver.next()
    hook.post(second)
    hook.post(third)
    hook.close(LONG)
    # The first two were refused and not tried again: a restart will. The third arrived.
    assert (hook.sent, hook.failed) == (1, 2)
    assert hook.finished() == [3]


@pytest.mark.parametrize(
    ("url", "token", "header"),
    [
        ("http://me:pa%40ss@{}/x", None, "Basic bWU6cGFAc3M="),
        ("env:URL", "env:TOKEN", "Bearer hunter2"),
    ],
)
def test_where_a_login_comes_from(
    receive: Receive, url: str, token: str | None, header: str
) -> None:
    receiver = receive()
    known = {"env:URL": f"http://{receiver.address}/x", "env:TOKEN": "hunter2"}
    settings = WebhookSettings(url=url.format(receiver.address), token=token)
    hook = Webhook(settings, resolve=lambda value, key: known.get(value, value))
    hook.post(transitions(1)[0])
    path, headers, _ = receiver.next()
    assert (path, headers["Authorization"]) == ("/x", header)
    assert finished(hook, 1) == [1]

"""A server under attack: it serves others, its log stays short, its memory is bounded."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.cli.logs import RepeatFilter, log_to_stderr
from streameval.service.http.errors import RefusedError
from streameval.service.http.guard import LIMITS, WrongTokens
from tests.support.command_runs import COMMAND
from tests.support.run import POSTED, configure
from tests.support.serve_runs import TOKEN, Box, Running, connected, fetch, received, serving

POST = b"POST /v1/labels HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
ATTACKS = {
    "idle": b"",
    "headers": b"GET / HTTP/1.1\r\nHost: local",
    "body": POST + b"{",
    "unread": b"GET /static/plotly.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "unread twice": 2 * b"GET /static/plotly.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


def get(running: Running, path: str, source: str = "127.0.0.1") -> int:
    """The status of a request on a connection of its own, soon; 0 where it was closed."""
    with connected(running, source) as wire:
        wire.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return int((wire.recv(65536) or b"- 0").split()[1])


@contextmanager
def attack(running: Running, count: int, sent: bytes, source: str = "127.0.0.1") -> Iterator[None]:
    """So many connections that send this and then nothing."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(connected(running, source)).sendall(sent)
        yield


@pytest.mark.parametrize("kind", ATTACKS)
def test_slow_clients_do_not_block_others(kind: str) -> None:
    with serving(limits=LIMITS._replace(connections=30)) as running:
        with attack(running, 45, ATTACKS[kind]):
            for path in ("/healthz", "/readyz", "/api/report", "/metrics"):
                assert get(running, path) == 200
            assert running.client.post("/v1/labels", content=b"{}").status_code == 202
        assert len(running.inbox.posts) == 1


def test_a_client_closes_its_own_connections_only() -> None:
    limits = LIMITS._replace(connections=30, client_connections=20)
    with serving(limits=limits) as running, connected(running, "127.0.0.9") as quiet:
        # The one that waits the longest, but of another client.
        for source in ("127.0.0.2", "127.0.0.3"):
            with attack(running, 60, b"", source), attack(running, 60, POST, source):
                assert get(running, "/healthz") == 200
        quiet.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in quiet.recv(65536)


def test_healthz_is_answered_while_every_connection_is_at_work() -> None:
    box = Box()
    box.go_on.clear()
    limits = LIMITS._replace(connections=5, reserve=3)
    whole = POST.replace(b"1000", b"2") + b"{}"
    with serving(inbox=box, limits=limits) as running:
        with attack(running, 5, whole):
            for _ in range(5):
                assert box.entered.acquire(timeout=30)
            # The reserve is not to be taken by idle connections either.
            with attack(running, 10, b""):
                for _ in range(20):
                    assert get(running, "/healthz") == 200
                assert get(running, "/api/report") == 503
            box.go_on.set()
            deadline = time.monotonic() + 5
            while len(box.posts) < 5:
                assert time.monotonic() < deadline
        assert running.json("/api/report")["sequence"] == 1


def test_healthz_needs_no_thread() -> None:
    entered, go_on = threading.Semaphore(0), threading.Event()

    with serving() as running:
        current = running.publisher.current

        def slow() -> Any:
            entered.release()
            go_on.wait(60)
            return current()

        running.publisher.current = slow  # type: ignore[method-assign]
        request = b"GET /api/report HTTP/1.1\r\nHost: localhost\r\n\r\n"
        # Starlette answers in 40 threads.
        with attack(running, 60, request):
            try:
                for _ in range(40):
                    assert entered.acquire(timeout=30)
                assert get(running, "/healthz") == 200
            finally:
                go_on.set()


def test_a_slow_reader_gets_all_and_one_that_reads_nothing_is_cut_off() -> None:
    limits = LIMITS._replace(header_seconds=1, keep_alive_seconds=60)
    with serving(limits=limits) as running, ExitStack() as stack:
        where = running.server.address
        # Three responses: the system itself keeps nearly one for the client.
        size = 3 * len(running.client.get("/static/plotly.min.js").content)
        wires = []
        for _ in range(2):
            wire = stack.enter_context(socket.socket())
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            wire.settimeout(5)
            wire.connect((where.host, where.port))
            wire.sendall(3 * ATTACKS["unread"])
            wires.append(wire)
        slow, never = wires
        begun, got = time.monotonic(), 0
        while got < size:
            chunk = slow.recv(65536)
            assert chunk, f"cut off after {got:,} of {size:,} bytes"
            got += len(chunk)
            # As a slow line delivers it: five times as long as a request may take.
            time.sleep(max(0.0, begun + 5 * got / size - time.monotonic()))
        assert len(received(never)) < size


def test_clients_that_read_nothing_share_the_page_s_script() -> None:
    def megabytes() -> float:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 2**20

    with serving(limits=LIMITS._replace(connections=200, client_connections=200)) as running:
        script = running.client.get("/static/plotly.min.js").content
        assert len(script) > 2**20
        before = megabytes()
        with attack(running, 80, ATTACKS["unread"]):
            assert get(running, "/healthz") == 200
            assert megabytes() - before < 80 * len(script) / 2**20 / 4


def test_a_client_that_comes_while_the_server_stops_raises_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(3):
        with serving() as running, socket.socket() as client:
            loop = running.server._loop
            held, go_on = threading.Event(), threading.Event()
            loop.call_soon_threadsafe(lambda held=held, go_on=go_on: (held.set(), go_on.wait()))
            held.wait()
            # The stop and the client are found in one turn of the loop.
            client.connect((running.server.address.host, running.server.address.port))
            stopping = threading.Thread(target=running.server.stop)
            stopping.start()
            while len(loop._ready) < 1:  # type: ignore[attr-defined]
                pass
            go_on.set()
            stopping.join()
    assert [record.message for record in caplog.records] == []


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux's")
def test_without_file_handles_it_answers_and_logs_little(here: Path) -> None:
    configure(**POSTED, evaluator=None, window=None, checkpoint=None)
    log = here / "log"
    with (
        log.open("wb") as stderr,
        subprocess.Popen([*COMMAND, "run", "run.toml"], stderr=stderr) as process,
    ):
        try:
            deadline = time.monotonic() + 60
            while not (found := re.search(r"listening at \S+:(\d+)/", log.read_text())):
                assert time.monotonic() < deadline, log.read_text()
                assert process.poll() is None, log.read_text()
                time.sleep(0.02)
            port = int(found[1])
            url = f"http://127.0.0.1:{port}/"
            assert fetch("GET", url + "healthz").status_code == 200
            handles = len(os.listdir(f"/proc/{process.pid}/fd"))
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (handles,) * 2)
            with ExitStack() as stack:
                for _ in range(60):
                    stack.enter_context(socket.create_connection(("127.0.0.1", port), 5))
                for _ in range(5):
                    assert fetch("GET", url + "healthz", timeout=30).status_code == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            if process.poll() is None:
                process.kill()
    lines = log.read_text().splitlines()
    assert len(lines) < 250
    assert len(log.read_bytes()) < 50_000


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5)), max_size=80),
    st.integers(1, 4),
)
def test_a_repeated_log_line_is_bounded_and_counted(
    steps: list[tuple[int, int]], most: int
) -> None:
    """In no period more than so many of a statement; those left out are all told."""
    limited = RepeatFilter(most, 10)
    now, told = 0.0, 0
    passed: dict[int, list[float]] = {}
    for line, seconds in steps:
        now += seconds
        record = logging.LogRecord("run", logging.WARNING, "a.py", line, "%s", ("text",), None)
        record.created = now
        if limited.filter(record):
            passed.setdefault(line, []).append(now)
            if found := re.search(r"\(and (\d+) more like it", record.getMessage()):
                told += int(found[1])
    for times in passed.values():
        for number, begun in enumerate(times):
            # Two periods may touch.
            assert sum(begun <= one < begun + 10 for one in times[number:]) <= 2 * most
    assert sum(map(len, passed.values())) + told + limited.left_out() == len(steps)


def test_a_librarys_repeated_lines_are_bounded_too(capfd: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr():
        for number in range(5_000):
            logging.getLogger("asyncio").error("accept failed\n%d", number)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 101
    assert lines[-1] == "4,900 repeated lines were left out of this log"


def wrong(count: int) -> Iterator[dict[str, str]]:
    for number in range(count):
        yield {"authorization": f"Bearer a-guess-of-the-token-{number}"}


def test_wrong_tokens_are_logged_and_slowed(caplog: pytest.LogCaptureFixture) -> None:
    limits = LIMITS._replace(wrong_tokens=5, wrong_token_seconds=0.1)
    with serving(token=TOKEN, limits=limits) as running:
        url = running.server.url
        for headers in wrong(5):
            assert fetch("GET", url, headers=headers).status_code == 401
        begun = time.monotonic()
        for headers in list(wrong(10))[5:]:
            assert fetch("GET", url + "api/report", headers=headers).status_code == 401
        assert time.monotonic() - begun > 5 * 0.1
        # By the login page as well, and by the address.
        begun = time.monotonic()
        assert fetch("POST", url + "login", data={"token": "x"}).status_code == 403
        assert fetch("GET", url, params={"token": "y"}).status_code == 403
        assert time.monotonic() - begun > 2 * 0.1
        # Requests without a token are no guesses, and probes never wait.
        for _ in range(10):
            assert fetch("GET", url + "api/report").status_code == 401
            assert fetch("GET", url + "healthz", headers=next(wrong(1))).status_code == 200
        # The right token, of the same address, is late but taken.
        assert running.json("/api/report")["sequence"] == 1
        # Of another address it is not even late, as the next test shows.
        transport = httpx.HTTPTransport(local_address="127.0.0.7", verify=False)
        headers = {"authorization": f"Bearer {TOKEN}"}
        with httpx.Client(transport=transport, headers=headers) as other:
            assert other.get(url + "api/report").status_code == 200
    told = [record.getMessage() for record in caplog.records]
    assert "wrong token from 127.0.0.1, 12 so far" in told
    assert not any("a-guess" in one or TOKEN in one for one in told)


def test_neither_another_clients_token_nor_the_same_again_waits() -> None:
    async def both() -> bool:
        guesses = WrongTokens(LIMITS._replace(wrong_tokens=1, wrong_token_seconds=3600))
        assert not await guesses.check("a", b"first", lambda: False)
        for _ in range(1000):  # as a program with an outdated token does
            assert not await guesses.check("a", b"first", lambda: False)
        waiting = asyncio.create_task(guesses.check("a", b"second", lambda: False))
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            right = await guesses.check("b", b"right", lambda: True)
        assert not waiting.done()
        waiting.cancel()
        return right

    assert asyncio.run(both())


def test_guesses_at_a_time_are_bounded() -> None:
    limits = LIMITS._replace(wrong_tokens=1, wrong_token_seconds=0.5)

    async def all_at_once() -> tuple[list[object], int]:
        compared = 0

        def is_right() -> bool:
            nonlocal compared
            compared += 1
            return False

        guesses = WrongTokens(limits)
        assert not await guesses.check("a", b"first", is_right)
        made = [guesses.check("a", b"%d" % number, is_right) for number in range(1000)]
        return await asyncio.gather(*made, return_exceptions=True), compared

    answers, compared = asyncio.run(all_at_once())
    assert compared == 1 + answers.count(False) == 1 + 8
    assert sum(isinstance(one, RefusedError) and one.status == 429 for one in answers) == 992


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.booleans()), max_size=60))
def test_clients_guesses_are_independent(made: list[tuple[str, int, bool]]) -> None:
    """Each client is answered as if the others were not there."""
    limits = LIMITS._replace(wrong_tokens=3, wrong_token_seconds=1e-9)

    def answers(only: str) -> list[tuple[str, bool]]:
        now = 0.0
        guesses = WrongTokens(limits, lambda: now)
        found = []
        for client, number, right in made:
            if client in only:
                claim = b"right" if right else b"%d" % number
                took = asyncio.run(guesses.check(client, claim, lambda right=right: right))
                found.append((client, took))
        return found

    together = answers("abc")
    for client in "abc":
        assert answers(client) == [one for one in together if one[0] == client]
    assert [took for _, took in together] == [right for _, _, right in made]


def test_the_memory_of_wrong_tokens_is_bounded() -> None:
    async def many() -> None:
        for number in range(5_000):
            await guesses.check(f"client {number}", b"x", lambda: False)

    guesses = WrongTokens(LIMITS)
    asyncio.run(many())
    assert len(guesses._clients) == 4096

"""Server-sent events: every client gets the newest snapshot, at a shared cost."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from streameval.service.http.guard import LIMITS
from tests.service.test_serve_api import OPENAPI
from tests.support.published_sample import published_data
from tests.support.serve_runs import Running, serving


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

    def rest(self) -> None:
        """Read until the stream ends, which is an EOFError."""
        while True:
            self.block()

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
        schema = {"$ref": "#/components/schemas/SnapshotEvent", "components": OPENAPI["components"]}
        Draft202012Validator(schema).validate(data)
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
        where = running.server.address
        with socket.create_connection((where.host, where.port), timeout=20) as wire:
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
            it.rest()
